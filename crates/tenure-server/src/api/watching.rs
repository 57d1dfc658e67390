//! Calls for all keys that one client waits for.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tenure::Key;
use tenure::watch::Watch;
use tenure_api::Code;
use tokio::sync::oneshot;

use super::store::LOOK;
use super::{Api, Stay};
use crate::access::Caller;
use crate::failure::Failure;
use crate::rooms::NamedStore;

/// How many keys one client may have watched on one stream.
const KEYS_MAX: usize = 100_000;

/// How many keys are told at once.
const NEWS_MAX: usize = 256;

/// What there is to tell.
#[derive(Debug, Default)]
pub struct News {
    /// Watched from here on: no later change of them is missed.
    pub watching: Vec<Key>,
    /// Changed, perhaps.
    pub changed: Vec<Key>,
    /// Not watched, and why.
    pub refused: Vec<(String, Failure)>,
}

impl News {
    fn len(&self) -> usize {
        self.watching.len() + self.changed.len() + self.refused.len()
    }
}

/// The keys of one client that are watched.
pub struct Watching {
    caller: Caller,
    named: NamedStore,
    keys: HashMap<Key, Entry>,
    turns: FuturesUnordered<Turning>,
    news: News,
    stay: Stay,
}

struct Entry {
    stands: bool,
    /// The watch ends when this is dropped.
    _end: oneshot::Sender<()>,
}

type Turning = Pin<Box<dyn Future<Output = Turn> + Send>>;

/// What became of one watch.
enum Turn {
    Stands(Key, Watch, oneshot::Receiver<()>),
    Refused(Key, Failure),
    Changed(Key, Watch, oneshot::Receiver<()>),
    Removed,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Api {
    /// Watches keys of a store, none at first.
    ///
    /// # Errors
    /// `NoSuchPlace`, `LimitReached`.
    pub fn watching(&self, caller: &Caller, store: &str) -> Result<Watching, Failure> {
        let stay = self.stay(caller, LOOK)?;
        Ok(Watching {
            caller: caller.clone(),
            named: self.rooms.store(store)?.1.clone(),
            keys: HashMap::new(),
            turns: FuturesUnordered::new(),
            news: News::default(),
            stay,
        })
    }
}

impl Watching {
    /// Who calls from here on.
    pub fn called_by(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Watches one more key; whether it stands, [`next`](Self::next) tells.
    pub fn add(&mut self, key: Key) {
        if let Some(entry) = self.keys.get(&key) {
            // One that does not stand yet will be told when it does.
            if entry.stands {
                self.news.watching.push(key);
            }
            return;
        }
        if let Err(failure) = self.may_add(&key) {
            self.refuse(key.to_string(), failure);
            return;
        }
        let (end, mut ended) = oneshot::channel();
        self.keys.insert(key.clone(), Entry { stands: false, _end: end });
        let store = Arc::clone(&self.named.store);
        self.turns.push(Box::pin(async move {
            tokio::select! {
                biased;
                _ = &mut ended => Turn::Removed,
                watch = store.watch(&key) => match watch {
                    Ok(watch) => Turn::Stands(key, watch, ended),
                    Err(error) => Turn::Refused(key, error.into()),
                },
            }
        }));
    }

    fn may_add(&self, key: &Key) -> Result<(), Failure> {
        self.caller.must_one(LOOK, &self.named.namespace_of(key.as_str()))?;
        if self.keys.len() < KEYS_MAX {
            return Ok(());
        }
        let text = format!("{KEYS_MAX} keys are watched on this stream, which is the limit");
        Err(Failure::new(Code::LimitReached, text))
    }

    /// Tells that this key is not watched.
    pub fn refuse(&mut self, key: String, why: Failure) {
        self.news.refused.push((key, why));
    }

    /// Watches this key no longer.
    pub fn remove(&mut self, key: &Key) {
        self.keys.remove(key);
    }

    /// What happens next. Nothing is lost when this future is dropped.
    ///
    /// # Errors
    /// `ShuttingDown`, after which there is nothing more.
    pub async fn next(&mut self) -> Result<News, Failure> {
        while self.news.len() == 0 {
            let turn = tokio::select! {
                biased;
                failure = self.stay.over() => return Err(failure),
                Some(turn) = self.turns.next() => turn,
            };
            self.take(turn);
        }
        while self.news.len() < NEWS_MAX
            && let Some(Some(turn)) = self.turns.next().now_or_never()
        {
            self.take(turn);
        }
        Ok(std::mem::take(&mut self.news))
    }

    fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Removed => {}
            Turn::Refused(key, why) => {
                self.keys.remove(&key);
                self.refuse(key.to_string(), why);
            }
            Turn::Stands(key, watch, ended) => {
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.stands = true;
                }
                self.news.watching.push(key.clone());
                self.listen(key, watch, ended);
            }
            Turn::Changed(key, watch, ended) => {
                self.news.changed.push(key.clone());
                self.listen(key, watch, ended);
            }
        }
    }

    /// What happened since the watch was last awaited is told at once: it is level-triggered.
    fn listen(&self, key: Key, mut watch: Watch, mut ended: oneshot::Receiver<()>) {
        self.turns.push(Box::pin(async move {
            tokio::select! {
                biased;
                _ = &mut ended => Turn::Removed,
                () = watch.changed() => Turn::Changed(key, watch, ended),
            }
        }));
    }
}

//! One stream of watches for all keys that someone waits for.
//!
//! A watch counts from the moment at which the server says that it stands; whoever tries the key
//! after that misses nothing. When the stream breaks, every waiter is woken; and again, when its
//! key is watched on the next stream.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::poll_fn;
use tenure_api::Code;
use tenure_api::tenure_v1::{WatchKeysRequest, WatchKeysResponse, WatchRefusal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::Streaming;

use super::client::{Client, PATIENCE};
use super::error::said;
use crate::clock::{Clock, within};
use crate::error::{Chain, Error, Result, Retry};
use crate::key::Key;
use crate::watch::{Watch, WatchHub};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// So many watches that nobody needs any more are no reason to look for them.
const SLACK: usize = 16;

/// How many keys one request names: the server reads no request of more than 64 KiB.
const KEYS_AT_ONCE: usize = 32;

#[derive(Debug)]
pub(super) struct Watcher {
    hub: WatchHub,
    clock: Arc<dyn Clock>,
    asks: mpsc::UnboundedSender<Ask>,
    task: AbortHandle,
}

/// Somebody wants to know when the watch of a key stands.
#[derive(Debug)]
struct Ask {
    key: Key,
    stands: oneshot::Sender<Result<()>>,
}

impl Watcher {
    pub(super) fn start(client: Arc<Client>, clock: Arc<dyn Clock>, store: String) -> Self {
        let hub = WatchHub::default();
        let (asks, inbox) = mpsc::unbounded_channel();
        let stream = Stream { client, clock: Arc::clone(&clock), store, hub: hub.clone(), inbox };
        Self { hub, clock, asks, task: tokio::spawn(stream.keep()).abort_handle() }
    }

    pub(super) async fn watch(&self, key: &Key) -> Result<Watch> {
        let watch = self.hub.watch(key);
        // Once more, if the stream ended just then: it is a new one each time.
        match self.ask(key).await {
            Err(error) if error.retry() == Retry::Safe => self.ask(key).await?,
            outcome => outcome?,
        }
        Ok(watch)
    }

    async fn ask(&self, key: &Key) -> Result<()> {
        let ended = || Error::unavailable("the watches have ended with their runtime");
        let (stands, answer) = oneshot::channel();
        self.asks.send(Ask { key: key.clone(), stands }).map_err(|_| ended())?;
        match within(&*self.clock, PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|_| ended())?,
            Err(_) => {
                let text = format!("the server did not watch the key within {PATIENCE:?}");
                Err(Error::unavailable(text))
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Stream {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    store: String,
    hub: WatchHub,
    inbox: mpsc::UnboundedReceiver<Ask>,
}

impl Stream {
    /// One stream after the other, for as long as the store lives.
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let mut session = Session::new(self.hub.clone());
            let mut keys = self.hub.keys();
            if keys.is_empty() {
                let Some(Ask { key, stands }) = self.inbox.recv().await else { return };
                session.ask(&key, Some(stands));
                keys.push(key);
            }
            let requests = session.begin(&self.store, &keys);
            let error = match self.client.watch(requests).await {
                Ok(answers) => self.serve(&mut session, answers).await,
                Err(error) => error,
            };
            tracing::debug!("the watches of the server ended: {}", Chain(&error));
            if !session.standing.is_empty() {
                pause = PAUSE_MIN;
            }
            session.fail(&error);
            while let Ok(Ask { stands, .. }) = self.inbox.try_recv() {
                tell([stands], &Err(error.clone()));
            }
            self.hub.ring_all();
            self.clock.sleep_until(self.clock.now() + pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Works until the stream ends; says why it did.
    async fn serve(
        &mut self,
        session: &mut Session,
        mut answers: Streaming<WatchKeysResponse>,
    ) -> Error {
        loop {
            tokio::select! {
                ask = self.inbox.recv() => match ask {
                    Some(Ask { key, stands }) => session.add(&key, stands),
                    // The store is gone, and this task with it in a moment.
                    None => std::future::pending().await,
                },
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => session.take(answer),
                    Ok(None) => return Error::unavailable("the server ended the watches"),
                    Err(status) => {
                        return Error::unavailable("the stream of watches broke").caused_by(status);
                    }
                },
            }
        }
    }
}

/// The watches on one stream.
#[derive(Debug)]
struct Session {
    hub: WatchHub,
    orders: Option<mpsc::UnboundedSender<WatchKeysRequest>>,
    asked: HashMap<Key, Asked>,
    standing: HashSet<Key>,
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Asked {
    by: Vec<oneshot::Sender<Result<()>>>,
    /// It replaces a watch that ended: what happened in between, nobody was told.
    rings: bool,
}

impl Session {
    fn new(hub: WatchHub) -> Self {
        let (asked, standing) = (HashMap::new(), HashSet::new());
        Self { hub, orders: None, asked, standing, sweep_at: SLACK }
    }

    /// The requests of a stream, of which the first names the store and the last of these keys is
    /// watched before any that is added later.
    fn begin(
        &mut self,
        store: &str,
        keys: &[Key],
    ) -> impl futures_util::Stream<Item = WatchKeysRequest> + Send + use<> {
        let (orders, mut outbox) = mpsc::unbounded_channel();
        for (index, keys) in keys.chunks(KEYS_AT_ONCE).enumerate() {
            for key in keys {
                self.ask(key, None);
            }
            let store = if index == 0 { store.to_owned() } else { String::new() };
            let add = keys.iter().map(Key::to_string).collect();
            // The receiver is right here.
            let _ = orders.send(WatchKeysRequest { store, add, remove: Vec::new() });
        }
        self.orders = Some(orders);
        poll_fn(move |cx| outbox.poll_recv(cx))
    }

    fn order(&self, add: Vec<String>, remove: Vec<String>) {
        if let Some(orders) = &self.orders {
            // Nobody takes orders any more when the stream has ended, which is noticed elsewhere.
            let _ = orders.send(WatchKeysRequest { store: String::new(), add, remove });
        }
    }

    /// Notes who wants a key; whether it is asked for the first time.
    fn ask(&mut self, key: &Key, stands: Option<oneshot::Sender<Result<()>>>) -> bool {
        let is_new = !self.asked.contains_key(key);
        let asked = self.asked.entry(key.clone()).or_default();
        asked.rings |= stands.is_none();
        asked.by.extend(stands);
        is_new
    }

    fn add(&mut self, key: &Key, stands: oneshot::Sender<Result<()>>) {
        if self.standing.contains(key) {
            tell([stands], &Ok(()));
        } else if self.ask(key, Some(stands)) {
            self.sweep();
            self.order(vec![key.to_string()], Vec::new());
        }
    }

    fn take(&mut self, answer: WatchKeysResponse) {
        for key in answer.watching.into_iter().map(Key::stored) {
            if let Some(asked) = self.asked.remove(&key) {
                if asked.rings {
                    self.hub.ring(&key);
                }
                tell(asked.by, &Ok(()));
            }
            self.standing.insert(key);
        }
        for key in answer.changed.into_iter().map(Key::stored) {
            self.hub.ring(&key);
        }
        for refusal in answer.refused {
            self.refused(refusal);
        }
    }

    fn refused(&mut self, refusal: WatchRefusal) {
        let WatchRefusal { key, reason, message } = refusal;
        let error = Code::by_name(&reason).map_or_else(
            || Error::unavailable("the server does not watch the key"),
            |code| said(code, &message),
        );
        if let Some(asked) = self.asked.remove(&Key::stored(key)) {
            tell(asked.by, &Err(error));
        }
    }

    /// Ends watches that nobody needs any more, before they are too many.
    fn sweep(&mut self) {
        if self.standing.len() < self.sweep_at {
            return;
        }
        let needed: HashSet<_> = self.hub.keys().into_iter().collect();
        let unused: Vec<_> = self.standing.difference(&needed).cloned().collect();
        for keys in unused.chunks(KEYS_AT_ONCE) {
            self.order(Vec::new(), keys.iter().map(Key::to_string).collect());
        }
        self.standing.retain(|key| needed.contains(key));
        self.sweep_at = self.standing.len() * 2 + SLACK;
    }

    fn fail(&mut self, error: &Error) {
        for (_, asked) in self.asked.drain() {
            tell(asked.by, &Err(error.clone()));
        }
    }
}

fn tell(asked_by: impl IntoIterator<Item = oneshot::Sender<Result<()>>>, outcome: &Result<()>) {
    for stands in asked_by {
        // Whoever asked may have gone.
        let _ = stands.send(outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;
    use crate::clock::SystemClock;
    use crate::error::ErrorKind;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn watching(key: &Key) -> WatchKeysResponse {
        WatchKeysResponse { watching: vec![key.to_string()], ..WatchKeysResponse::default() }
    }

    async fn is_rung(watch: &mut Watch) -> bool {
        within(&SystemClock, Duration::from_millis(1), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_watch_stands_when_the_server_says_so() {
        let hub = WatchHub::default();
        let k = key("k");
        let mut watch = hub.watch(&k);
        let mut session = Session::new(hub);
        let (stands, mut answer) = oneshot::channel();
        session.ask(&k, Some(stands));
        assert!(answer.try_recv().is_err(), "it does not stand yet");
        session.take(watching(&k));
        assert!(answer.try_recv().unwrap().is_ok() && !is_rung(&mut watch).await);
        let changed = vec![k.to_string()];
        session.take(WatchKeysResponse { changed, ..WatchKeysResponse::default() });
        assert!(is_rung(&mut watch).await);
    }

    #[tokio::test]
    async fn a_watch_that_is_made_anew_rings() {
        let hub = WatchHub::default();
        let k = key("k");
        let mut watch = hub.watch(&k);
        let mut session = Session::new(hub);
        let first = session.begin("s", std::slice::from_ref(&k)).next().await.unwrap();
        assert_eq!((first.store.as_str(), first.add), ("s", vec!["k".to_owned()]));
        session.take(watching(&k));
        assert!(is_rung(&mut watch).await, "what it missed, nobody was told");
    }

    #[tokio::test]
    async fn many_keys_are_several_requests() {
        let keys: Vec<_> = (0..100).map(|n| key(&format!("k{n}"))).collect();
        let mut session = Session::new(WatchHub::default());
        let mut requests = session.begin("s", &keys);
        let sent: Vec<_> =
            std::iter::from_fn(|| requests.next().now_or_never().flatten()).collect();
        assert_eq!(sent.iter().map(|request| request.add.len()).sum::<usize>(), 100);
        assert!(sent.iter().all(|request| request.add.len() <= KEYS_AT_ONCE));
        assert_eq!(sent.iter().filter(|request| !request.store.is_empty()).count(), 1);
    }

    #[tokio::test]
    async fn watches_that_nobody_needs_are_ended() {
        let hub = WatchHub::default();
        let needed = key("needed");
        let _watch = hub.watch(&needed);
        let mut session = Session::new(hub);
        let requests = session.begin("s", std::slice::from_ref(&needed));
        session.take(watching(&needed));
        for n in 1..200 {
            let k = key(&format!("k{n}"));
            session.add(&k, oneshot::channel().0);
            session.take(watching(&k));
        }
        assert!(session.standing.len() <= 3 * SLACK && session.standing.contains(&needed));
        drop(session.orders.take());
        let sent: Vec<_> = requests.collect().await;
        let ended: usize = sent.iter().map(|request| request.remove.len()).sum();
        assert_eq!(ended + session.standing.len(), 200);
    }

    #[tokio::test]
    async fn a_refused_watch_says_why() {
        let mut session = Session::new(WatchHub::default());
        let (stands, answer) = oneshot::channel();
        session.ask(&key("k"), Some(stands));
        let (key, reason, message) = ("k".into(), "forbidden".into(), "no".into());
        let refused = vec![WatchRefusal { key, reason, message }];
        session.take(WatchKeysResponse { refused, ..WatchKeysResponse::default() });
        assert_eq!(answer.await.unwrap().unwrap_err().kind(), ErrorKind::Denied);
    }
}

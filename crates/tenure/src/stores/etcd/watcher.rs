//! One stream of watches for all keys that someone waits for.
//!
//! Only deletions are asked for: they are what a waiter waits for, be it a release or the end of a
//! lease. A watch begins at the revision of the member that serves it, which is never later than
//! what a waiter reads afterwards, so nothing between is missed. When the stream breaks, every
//! waiter is woken; and again, when its watch stands on the next stream.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::poll_fn;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::Streaming;

use super::client::Client;
use super::error::NO_ROLE;
use super::wire::{
    NO_PUT, WatchCancelRequest, WatchCreateRequest, WatchOrder, WatchRequest, WatchResponse,
};
use crate::clock::Clock;
use crate::error::{Chain, Error, ErrorKind, Result, Retry};
use crate::key::Key;
use crate::watch::{Watch, WatchHub};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// So many watches that nobody needs any more are no reason to look for them.
const SLACK: usize = 16;

#[derive(Debug)]
pub(super) struct Watcher {
    hub: WatchHub,
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
    pub(super) fn start(client: Arc<Client>, clock: Arc<dyn Clock>, prefix: String) -> Self {
        let hub = WatchHub::default();
        let (asks, inbox) = mpsc::unbounded_channel();
        let stream = Stream { client, clock, prefix, hub: hub.clone(), inbox };
        Self { hub, asks, task: tokio::spawn(stream.keep()).abort_handle() }
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
        answer.await.map_err(|_| ended())?
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
    prefix: String,
    hub: WatchHub,
    inbox: mpsc::UnboundedReceiver<Ask>,
}

impl Stream {
    /// One stream after the other, for as long as the store lives.
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        let mut was_denied = false;
        loop {
            let mut session = Session::new(self.prefix.clone(), self.hub.clone());
            for key in self.hub.keys() {
                session.create(&key, None);
            }
            if session.pending.is_empty() {
                let Some(Ask { key, stands }) = self.inbox.recv().await else { return };
                session.create(&key, Some(stands));
            }
            let token = self.client.token();
            let mut error = match self.client.watch(session.requests()).await {
                Ok(answers) => self.serve(&mut session, answers).await,
                Err(failure) => failure.error,
            };
            tracing::debug!("the watches of etcd ended: {}", Chain(&error));
            if !session.by_id.is_empty() {
                (pause, was_denied) = (PAUSE_MIN, false);
            }
            let is_denied = error.kind() == ErrorKind::Denied;
            if is_denied && !was_denied && self.client.has_login() {
                // The stream keeps the token that it began with, and tokens go stale.
                error = match self.client.login(token).await {
                    Ok(()) => Error::unavailable("the watches go on under a new login"),
                    Err(failure) => failure.error,
                };
            }
            was_denied = is_denied;
            session.fail(&error);
            self.hub.ring_all();
            self.clock.sleep_until(self.clock.now() + pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Works until the stream ends; says why it did.
    async fn serve(
        &mut self,
        session: &mut Session,
        mut answers: Streaming<WatchResponse>,
    ) -> Error {
        loop {
            tokio::select! {
                ask = self.inbox.recv() => match ask {
                    Some(Ask { key, stands }) => session.create(&key, Some(stands)),
                    // The store is gone, and this task with it in a moment.
                    None => std::future::pending().await,
                },
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        if let Err(error) = session.take(&answer) {
                            return error;
                        }
                    }
                    Ok(None) => return Error::unavailable("etcd ended the stream of watches"),
                    Err(status) => {
                        self.client.leave_member();
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
    prefix: String,
    hub: WatchHub,
    orders: mpsc::UnboundedSender<WatchRequest>,
    outbox: Option<mpsc::UnboundedReceiver<WatchRequest>>,
    /// Asked for. etcd answers in the order of the asking.
    pending: VecDeque<Key>,
    asked: HashMap<Key, Asked>,
    by_id: HashMap<i64, Key>,
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
    fn new(prefix: String, hub: WatchHub) -> Self {
        let (orders, outbox) = mpsc::unbounded_channel();
        Self {
            prefix,
            hub,
            orders,
            outbox: Some(outbox),
            pending: VecDeque::new(),
            asked: HashMap::new(),
            by_id: HashMap::new(),
            standing: HashSet::new(),
            sweep_at: SLACK,
        }
    }

    fn requests(&mut self) -> impl futures_util::Stream<Item = WatchRequest> + Send + use<> {
        let mut outbox = self.outbox.take();
        poll_fn(move |cx| match &mut outbox {
            Some(outbox) => outbox.poll_recv(cx),
            None => std::task::Poll::Ready(None),
        })
    }

    fn order(&self, order: WatchOrder) {
        // Nobody takes orders any more when the stream has ended, which is noticed elsewhere.
        let _ = self.orders.send(WatchRequest { order: Some(order) });
    }

    fn create(&mut self, key: &Key, stands: Option<oneshot::Sender<Result<()>>>) {
        if self.standing.contains(key) {
            tell(stands, &Ok(()));
            return;
        }
        let is_new = !self.asked.contains_key(key);
        let asked = self.asked.entry(key.clone()).or_default();
        asked.rings |= stands.is_none();
        asked.by.extend(stands);
        if is_new {
            self.sweep();
            let name = format!("{}{key}", self.prefix).into_bytes();
            self.order(WatchOrder::Create(WatchCreateRequest { key: name, filters: vec![NO_PUT] }));
            self.pending.push_back(key.clone());
        }
    }

    fn take(&mut self, answer: &WatchResponse) -> Result<()> {
        if answer.created && answer.canceled {
            return Err(refusal(answer));
        }
        if answer.created {
            let Some(key) = self.pending.pop_front() else { return Ok(()) };
            self.by_id.insert(answer.watch_id, key.clone());
            self.standing.insert(key.clone());
            if let Some(asked) = self.asked.remove(&key) {
                if asked.rings {
                    self.hub.ring(&key);
                }
                tell(asked.by, &Ok(()));
            }
        } else if answer.canceled {
            if let Some(key) = self.remove(answer.watch_id) {
                // It fell behind what was compacted away. A new one begins at the present.
                self.create(&key, None);
            }
        } else if !answer.events.is_empty()
            && let Some(key) = self.by_id.get(&answer.watch_id)
        {
            self.hub.ring(key);
        }
        Ok(())
    }

    fn remove(&mut self, id: i64) -> Option<Key> {
        let key = self.by_id.remove(&id)?;
        self.standing.remove(&key);
        Some(key)
    }

    /// Ends watches that nobody needs any more, before they are too many.
    fn sweep(&mut self) {
        if self.by_id.len() < self.sweep_at {
            return;
        }
        let needed: HashSet<_> = self.hub.keys().into_iter().collect();
        let unused = self.by_id.iter().filter(|(_, key)| !needed.contains(*key));
        let unused: Vec<_> = unused.map(|(id, _)| *id).collect();
        for watch_id in unused {
            self.remove(watch_id);
            self.order(WatchOrder::Cancel(WatchCancelRequest { watch_id }));
        }
        self.sweep_at = self.by_id.len() * 2 + SLACK;
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

fn refusal(answer: &WatchResponse) -> Error {
    if answer.cancel_reason.contains("permission denied") || answer.cancel_reason.contains("auth") {
        return Error::new(ErrorKind::Denied, NO_ROLE);
    }
    Error::unavailable("etcd refused the watch")
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use futures_util::FutureExt;
    use prost::Message;

    use super::{Key, Result, Session, Watch, WatchHub, WatchResponse, oneshot};

    /// Waiters for keys, whose watches are on one stream.
    #[derive(Debug)]
    pub struct EtcdWaiters {
        session: Session,
        waiters: Vec<Watch>,
    }

    impl EtcdWaiters {
        /// So many, each for a key of its own, which have just asked for their watches.
        #[must_use]
        pub fn new(count: usize) -> Self {
            let hub = WatchHub::default();
            let mut session = Session::new("p/".to_owned(), hub.clone());
            let keys = (0..count).map(|number| Key::stored(number.to_string()));
            let waiters = keys.map(|key| {
                let (stands, _) = oneshot::channel();
                session.create(&key, Some(stands));
                hub.watch(&key)
            });
            let waiters = waiters.collect();
            Self { session, waiters }
        }

        /// Takes an answer; `None` when it cannot be read.
        ///
        /// # Errors
        /// Why the stream has to end.
        pub fn take(&mut self, answer: &[u8]) -> Option<Result<()>> {
            let answer = WatchResponse::decode(answer).ok()?;
            Some(self.session.take(&answer))
        }

        /// Those who were woken since this was asked last.
        pub fn woken(&mut self) -> Vec<usize> {
            let mut woken = Vec::new();
            for (number, waiter) in self.waiters.iter_mut().enumerate() {
                woken.extend(waiter.changed().now_or_never().map(|()| number));
            }
            woken
        }

        /// How many watches have been asked for since this was asked last.
        pub fn asked(&mut self) -> usize {
            let orders = self.session.outbox.as_mut();
            orders.map_or(0, |orders| std::iter::from_fn(|| orders.try_recv().ok()).count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Event;
    use super::*;
    use crate::clock::{SystemClock, within};

    fn session() -> (Session, WatchHub, mpsc::UnboundedReceiver<WatchRequest>) {
        let hub = WatchHub::default();
        let mut session = Session::new("p/".into(), hub.clone());
        let outbox = session.outbox.take().unwrap();
        (session, hub, outbox)
    }

    fn created(watch_id: i64) -> WatchResponse {
        WatchResponse { watch_id, created: true, ..WatchResponse::default() }
    }

    async fn is_rung(watch: &mut Watch) -> bool {
        within(&SystemClock, Duration::from_millis(1), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_watch_that_fell_behind_a_compaction_is_made_anew() {
        let (mut session, hub, mut outbox) = session();
        let key = Key::new("k").unwrap();
        let mut watch = hub.watch(&key);
        let (stands, mut answer) = oneshot::channel();
        session.create(&key, Some(stands));
        assert!(answer.try_recv().is_err(), "it does not stand yet");
        session.take(&created(3)).unwrap();
        assert!(answer.try_recv().unwrap().is_ok() && !is_rung(&mut watch).await);
        let (watch_id, canceled, compact_revision) = (3, true, 9);
        let fell =
            WatchResponse { watch_id, canceled, compact_revision, ..WatchResponse::default() };
        session.take(&fell).unwrap();
        session.take(&created(4)).unwrap();
        assert!(is_rung(&mut watch).await, "what it missed, nobody was told");
        let asked: Vec<_> = std::iter::from_fn(|| outbox.try_recv().ok()).collect();
        assert!(asked.len() == 2 && asked[0] == asked[1], "{asked:?}");
        let events = vec![Event {}];
        session.take(&WatchResponse { watch_id: 4, events, ..WatchResponse::default() }).unwrap();
        assert!(is_rung(&mut watch).await);
    }

    #[tokio::test]
    async fn watches_that_nobody_needs_are_ended() {
        let (mut session, hub, mut outbox) = session();
        let needed = Key::new("needed").unwrap();
        let _watch = hub.watch(&needed);
        session.create(&needed, None);
        session.take(&created(0)).unwrap();
        for n in 1..200 {
            session.create(&Key::new(&format!("k{n}")).unwrap(), None);
            session.take(&created(n)).unwrap();
        }
        assert!(session.by_id.len() <= 3 * SLACK, "{} watches", session.by_id.len());
        assert!(
            session.standing.contains(&needed) && session.standing.len() == session.by_id.len()
        );
        let orders = std::iter::from_fn(|| outbox.try_recv().ok());
        let ended = orders.filter(|asked| matches!(asked.order, Some(WatchOrder::Cancel(_))));
        assert_eq!(ended.count() + session.by_id.len(), 200);
    }

    #[tokio::test]
    async fn a_refused_watch_is_told_with_the_stream() {
        let (mut session, _hub, _outbox) = session();
        let (stands, answer) = oneshot::channel();
        session.create(&Key::new("k").unwrap(), Some(stands));
        let cancel_reason = "etcdserver: permission denied".to_owned();
        let refused = WatchResponse { watch_id: -1, canceled: true, cancel_reason, ..created(0) };
        let error = session.take(&refused).unwrap_err();
        session.fail(&error);
        assert_eq!(answer.await.unwrap().unwrap_err().kind(), ErrorKind::Denied);
    }
}

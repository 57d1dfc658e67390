//! Waking those who wait: one connection on which Redis tells which keys were freed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::aio::{PubSub, PubSubSink, PubSubStream};
use ::redis::{RedisResult, Value};
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};

use super::error;
use super::nodes::Nodes;
use crate::clock::{Clock, within};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::watch::{Watch, WatchHub};

/// How often the connection is tried out and given back what nobody watches any more.
const ROUND: Duration = Duration::from_secs(5);
/// An answer that takes longer will not come.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long to pause before connecting again, at first and at the most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How many channels are asked for in one command.
const BATCH: usize = 512;

/// Asks to be told of a key from now on.
type Wish = (Key, oneshot::Sender<Result<()>>);

/// The watches of one store.
#[derive(Debug)]
pub(super) struct Bell {
    hub: WatchHub,
    nodes: Arc<Nodes>,
    clock: Arc<dyn Clock>,
    wishes: Mutex<Option<mpsc::UnboundedSender<Wish>>>,
}

impl Bell {
    pub(super) fn new(nodes: Arc<Nodes>, clock: Arc<dyn Clock>) -> Self {
        Self { hub: WatchHub::default(), nodes, clock, wishes: Mutex::default() }
    }

    /// A watch on the key. Returns when the subscription stands.
    pub(super) async fn watch(&self, key: &Key) -> Result<Watch> {
        // First of all, so that the listener finds the key watched whenever it looks.
        let watch = self.hub.watch(key);
        let (reply, stands) = oneshot::channel();
        self.wish((key.clone(), reply));
        match stands.await {
            Ok(outcome) => outcome.map(|()| watch),
            Err(_) => Err(Error::unavailable("the runtime that listened to Redis has ended")),
        }
    }

    /// Tells the listener, and starts it if it does not run: on the caller's runtime, because that
    /// of an earlier caller may be gone.
    fn wish(&self, wish: Wish) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let wish = match &*wishes {
            Some(sender) => match sender.send(wish) {
                Ok(()) => return,
                Err(refused) => refused.0,
            },
            None => wish,
        };
        let (sender, inbox) = mpsc::unbounded_channel();
        drop(sender.send(wish));
        *wishes = Some(sender);
        let listener = Listener {
            hub: self.hub.clone(),
            nodes: Arc::clone(&self.nodes),
            clock: Arc::clone(&self.clock),
            inbox,
            subscribed: HashSet::new(),
            missed: false,
            pause: PAUSE.0,
        };
        tokio::spawn(listener.run());
    }
}

/// What is told of a key that was freed. Messages know no databases, so the number is in it.
pub(super) fn channel(database: u32, key: &str) -> String {
    format!("tenure:free:{database}:{key}")
}

/// Listens as long as someone watches; ends with the store.
struct Listener {
    hub: WatchHub,
    nodes: Arc<Nodes>,
    clock: Arc<dyn Clock>,
    inbox: mpsc::UnboundedReceiver<Wish>,
    subscribed: HashSet<Key>,
    /// Whether something may have happened that nobody was told of.
    missed: bool,
    pause: Duration,
}

/// Why it is no longer listened.
enum End {
    /// Nobody watches.
    Idle,
    /// The store is gone.
    Gone,
    /// The connection broke.
    Broken(Error),
}

impl Listener {
    async fn run(mut self) {
        while let Some(wish) = self.inbox.recv().await {
            let mut wishes = vec![wish];
            loop {
                let end = match self.nodes.listen().await {
                    Ok(connection) => self.serve(connection, &mut wishes).await,
                    Err(error) => End::Broken(error),
                };
                let lost = !std::mem::take(&mut self.subscribed).is_empty();
                self.missed |= lost;
                let error = match end {
                    End::Gone => return,
                    End::Idle => break,
                    End::Broken(error) => error,
                };
                if lost {
                    self.hub.ring_all();
                }
                fulfil(&mut wishes, &Err(error));
                if self.hub.keys().is_empty() {
                    break;
                }
                let alarm = self.clock.sleep_until(self.clock.now() + self.pause);
                self.pause = (self.pause * 2).min(PAUSE.1);
                tokio::select! {
                    wish = self.inbox.recv() => match wish {
                        Some(wish) => wishes.push(wish),
                        None => return,
                    },
                    () = alarm => {}
                }
            }
        }
    }

    async fn serve(&mut self, connection: PubSub, wishes: &mut Vec<Wish>) -> End {
        let (mut sink, mut stream) = connection.split();
        match self.listen(&mut sink, &mut stream, wishes).await {
            Ok(end) => end,
            Err(error) => End::Broken(error),
        }
    }

    async fn listen(
        &mut self,
        sink: &mut PubSubSink,
        stream: &mut PubSubStream,
        wishes: &mut Vec<Wish>,
    ) -> Result<End> {
        // All that anyone watches, among it what was watched before the last connection broke.
        let watched = self.hub.keys();
        self.subscribe(sink, watched).await?;
        self.pause = PAUSE.0;
        fulfil(wishes, &Ok(()));
        if std::mem::take(&mut self.missed) {
            self.hub.ring_all();
        }
        let mut round = self.clock.sleep_until(self.clock.now() + ROUND);
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => self.ring(message.get_channel_name()),
                    None => return Err(Error::unavailable("Redis closed the connection")),
                },
                count = self.inbox.recv_many(wishes, BATCH) => {
                    if count == 0 {
                        return Ok(End::Gone);
                    }
                    let keys = wishes.iter().map(|(key, _)| key.clone()).collect();
                    self.subscribe(sink, keys).await?;
                    fulfil(wishes, &Ok(()));
                }
                () = &mut round => {
                    self.tidy(sink).await?;
                    if self.subscribed.is_empty() {
                        return Ok(End::Idle);
                    }
                    round = self.clock.sleep_until(self.clock.now() + ROUND);
                }
            }
        }
    }

    fn ring(&self, name: &str) {
        let prefix = channel(self.database(), "");
        if let Some(key) = name.strip_prefix(&prefix) {
            self.hub.ring(&Key::stored(key.to_owned()));
        }
    }

    async fn subscribe(&mut self, sink: &mut PubSubSink, keys: Vec<Key>) -> Result<()> {
        let new: Vec<_> = keys.into_iter().filter(|key| !self.subscribed.contains(key)).collect();
        for batch in new.chunks(BATCH) {
            let channels = self.channels(batch);
            self.answered(sink.subscribe(channels)).await?;
            self.subscribed.extend(batch.iter().cloned());
        }
        Ok(())
    }

    /// Gives up what nobody watches any more, and sees whether the other side still answers: a
    /// connection that is only silent looks like one on which nothing happens. A key that is waited
    /// for again within a round finds its subscription still standing.
    async fn tidy(&mut self, sink: &mut PubSubSink) -> Result<()> {
        let watched: HashSet<_> = self.hub.keys().into_iter().collect();
        let idle: Vec<_> = self.subscribed.difference(&watched).cloned().collect();
        for batch in idle.chunks(BATCH) {
            let channels = self.channels(batch);
            self.answered(sink.unsubscribe(channels)).await?;
        }
        self.subscribed.retain(|key| watched.contains(key));
        self.answered(sink.ping::<Value>()).await?;
        Ok(())
    }

    fn channels(&self, keys: &[Key]) -> Vec<String> {
        keys.iter().map(|key| channel(self.database(), key.as_str())).collect()
    }

    fn database(&self) -> u32 {
        self.nodes.dialer().options().database
    }

    async fn answered<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> Result<T> {
        match within(&*self.clock, ANSWER_WITHIN, answer).await {
            Ok(outcome) => outcome.map_err(error::unreachable),
            Err(_) => Err(Error::unavailable("Redis did not answer")),
        }
    }
}

fn fulfil(wishes: &mut Vec<Wish>, outcome: &Result<()>) {
    for (_, reply) in wishes.drain(..) {
        // Whoever asked may be gone.
        drop(reply.send(outcome.clone()));
    }
}

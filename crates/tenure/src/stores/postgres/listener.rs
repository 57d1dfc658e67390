//! The one connection on which the server tells of releases.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

use super::dial::Dialer;
use super::error::{self, connecting, harmless, silent};
use super::names::{Names, quoted};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::watch::{Watch, WatchHub};

/// A connection that says nothing for so long is made anew: until then nobody is woken by it.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many channels may be listened on for nobody before they are let go.
const IDLE_MAX: usize = 64;

/// Listens for releases while this value lives.
#[derive(Debug)]
pub(super) struct Listener {
    hub: WatchHub,
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
struct Order {
    key: Key,
    done: oneshot::Sender<Result<()>>,
}

/// Where to listen.
pub(super) struct Place {
    pub(super) dialer: Dialer,
    pub(super) names: Names,
    pub(super) clock: Arc<dyn Clock>,
}

impl Listener {
    /// Goes on with a connection that was found to hear.
    pub(super) fn start(place: Place, line: Line) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let hub = line.hub.clone();
        tokio::spawn(Desk { place, line, inbox }.run());
        Self { hub, orders }
    }

    /// A watch on `key` that hears every release after this call has returned.
    pub(super) async fn watch(&self, key: &Key) -> Result<Watch> {
        // In the hub before it is asked for, so that the channel is not let go in between.
        let watch = self.hub.watch(key);
        let (done, answer) = oneshot::channel();
        let order = Order { key: key.clone(), done };
        let ended = || Error::unavailable("the task that listens has ended");
        self.orders.send(order).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())??;
        Ok(watch)
    }
}

/// Which key is meant by a channel.
type Channels = Arc<Mutex<HashMap<String, Key>>>;

fn lock(channels: &Channels) -> MutexGuard<'_, HashMap<String, Key>> {
    channels.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that listens.
pub(super) struct Line {
    hub: WatchHub,
    clock: Arc<dyn Clock>,
    client: Client,
    channels: Channels,
    /// Ends with the connection.
    hearing: JoinHandle<()>,
    heard_probe: Option<oneshot::Receiver<()>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

impl Line {
    /// Connects. What is heard rings in `hub`.
    pub(super) async fn open(place: &Place, hub: WatchHub) -> Result<Self> {
        let dialer = &place.dialer;
        let connected = within(&*place.clock, dialer.limit(), dialer.connect()).await;
        let (client, mut connection) = connected.map_err(|_| error::away())?.map_err(connecting)?;
        let channels = Channels::default();
        let (probe, heard_probe) = oneshot::channel();
        let hearing = {
            let (hub, channels) = (hub.clone(), Arc::clone(&channels));
            let mut probe = Some(probe);
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    let AsyncMessage::Notification(notification) = message else { continue };
                    match lock(&channels).get(notification.channel()) {
                        Some(key) => hub.ring(key),
                        None => drop(probe.take().map(|probe| probe.send(()))),
                    }
                }
                hub.ring_all();
            })
        };
        let (clock, heard_probe) = (Arc::clone(&place.clock), Some(heard_probe));
        Ok(Self { hub, clock, client, channels, hearing, heard_probe })
    }

    /// Listens on a channel that is no key's.
    pub(super) async fn listen_to_probe(&self, channel: &str) -> Result<()> {
        self.command(&format!("LISTEN {}", quoted(channel))).await
    }

    /// Whether the probe was heard within `limit`. Nothing is asked of the connection meanwhile,
    /// so a pooler has no server behind it, unless the session keeps its own.
    pub(super) async fn heard_probe(&mut self, clock: &dyn Clock, limit: Duration) -> bool {
        match self.heard_probe.take() {
            Some(heard) => matches!(within(clock, limit, heard).await, Ok(Ok(()))),
            None => false,
        }
    }

    pub(super) async fn forget_probe(&self, channel: &str) -> Result<()> {
        self.command(&format!("UNLISTEN {}", quoted(channel))).await
    }

    /// A connection that does not answer is ended here, which makes the desk connect anew.
    async fn command(&self, sql: &str) -> Result<()> {
        match within(&*self.clock, ANSWER_WITHIN, self.client.batch_execute(sql)).await {
            Ok(answer) => answer.map_err(harmless),
            Err(_) => {
                self.hearing.abort();
                self.hub.ring_all();
                Err(silent(Effect::Read))
            }
        }
    }

    /// Listens for all of `keys`, and says so to those who release them: see the statements.
    async fn listen(&self, names: &Names, keys: &[Key]) -> Result<()> {
        let mut new = Vec::new();
        let mut sql = String::new();
        for key in keys {
            let channel = names.channel(key);
            if lock(&self.channels).insert(channel.clone(), key.clone()).is_none() {
                let (space, group) = names.group(key);
                sql.push_str(&format!(
                    "LISTEN {}; SELECT pg_advisory_lock_shared({space}, {group});",
                    quoted(&channel)
                ));
                new.push(channel);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let listened = self.command(&sql).await;
        if listened.is_err() {
            lock(&self.channels).retain(|channel, _| !new.contains(channel));
        }
        listened
    }

    /// Lets go of channels that no one watches, when they are many.
    async fn tidy(&self, names: &Names) -> Result<()> {
        if lock(&self.channels).len() <= IDLE_MAX {
            return Ok(());
        }
        let watched: std::collections::HashSet<_> = self.hub.keys().into_iter().collect();
        let mut idle = Vec::new();
        {
            let mut channels = lock(&self.channels);
            if channels.len() < watched.len() * 2 {
                return Ok(());
            }
            channels.retain(|_, key| {
                let keep = watched.contains(key);
                if !keep {
                    idle.push(key.clone());
                }
                keep
            });
        }
        let sql: Vec<_> = idle
            .iter()
            .map(|key| {
                let (channel, (space, group)) = (quoted(&names.channel(key)), names.group(key));
                format!("UNLISTEN {channel}; SELECT pg_advisory_unlock_shared({space}, {group});")
            })
            .collect();
        self.command(&sql.concat()).await
    }
}

/// The task that listens, connects again, and ends when its listener is gone.
struct Desk {
    place: Place,
    line: Line,
    inbox: mpsc::UnboundedReceiver<Order>,
}

impl Desk {
    async fn run(mut self) {
        loop {
            tokio::select! {
                order = self.inbox.recv() => match order {
                    Some(order) => self.serve(order).await,
                    None => return,
                },
                _ = &mut self.line.hearing => if self.reconnect().await.is_none() { return },
            }
        }
    }

    /// Serves one order and all that came with it, in one round trip.
    async fn serve(&mut self, first: Order) {
        let mut orders = vec![first];
        while let Ok(order) = self.inbox.try_recv() {
            orders.push(order);
        }
        let keys: Vec<_> = orders.iter().map(|order| order.key.clone()).collect();
        let listened = self.line.listen(&self.place.names, &keys).await;
        for order in orders {
            // Whoever asked may be gone.
            drop(order.done.send(listened.clone()));
        }
        if let Err(error) = self.line.tidy(&self.place.names).await {
            tracing::debug!(%error, "channels could not be let go");
        }
    }

    /// Connects until it works; `None` when the listener is gone. Who asks meanwhile is refused,
    /// and looks for itself.
    async fn reconnect(&mut self) -> Option<()> {
        let hub = self.line.hub.clone();
        let mut pause = PAUSE_MIN;
        loop {
            let opened = async {
                let line = Line::open(&self.place, hub.clone()).await?;
                line.listen(&self.place.names, &hub.keys()).await?;
                Ok::<_, Error>(line)
            };
            tokio::select! {
                opened = opened => match opened {
                    Ok(line) => {
                        self.line = line;
                        // What was released meanwhile was not heard.
                        hub.ring_all();
                        return Some(());
                    }
                    Err(error) => tracing::debug!(%error, "cannot listen for releases"),
                },
                gone = refuse(&mut self.inbox) => return gone,
            }
            let alarm = self.place.clock.sleep_until(self.place.clock.now() + pause);
            tokio::select! {
                () = alarm => {}
                gone = refuse(&mut self.inbox) => return gone,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Refuses orders until there can be no more.
async fn refuse(inbox: &mut mpsc::UnboundedReceiver<Order>) -> Option<()> {
    while let Some(order) = inbox.recv().await {
        let why = "the connection for wake-ups is being made anew";
        drop(order.done.send(Err(Error::unavailable(why))));
    }
    None
}

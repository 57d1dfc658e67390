//! The connection: requests that end when it breaks, and what the server says unasked.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, response::Response};
use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Message, Request, RequestErrorKind, ServerAddr,
    ServerError, Subscriber,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::error::{self, Silence};
use crate::clock::{Clock, Moment, within};
use crate::error::{Error, Result};

/// Longer than the engine waits for any answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long until a connection that has gone silent is given up: three times this. A lease of ten
/// seconds must outlast that, and a renewal after it. Nothing is sent while answers come.
const PING_EVERY: Duration = Duration::from_secs(1);

/// How long until a connection on which no request is answered is given up, whatever else comes in
/// by it: the library's pings are not sent then, and one way may be silent alone.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// How long what has come may take to be read.
const UNREAD: Duration = Duration::from_millis(100);

const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// The client library cannot be told to give up while it reconnects. When the store is gone it
/// tries this seldom, and ends as soon as the server is back.
const RECONNECT_UNWANTED: Duration = Duration::from_secs(60);

/// What happened to the connection.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    Connected,
    Disconnected,
    /// The server refused something, in its own words.
    Refused(Arc<str>),
}

/// One connection, shared by all operations of a store. It reconnects by itself.
pub(super) struct Link {
    client: Client,
    clock: Arc<dyn Clock>,
    signals: broadcast::Sender<Signal>,
    /// `$JS.API`, or that of a domain.
    api: String,
    inbox: String,
    /// When the last answer came to any request, in nanoseconds of the clock.
    answered: AtomicU64,
    _alive: Arc<()>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("api", &self.api).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects. Neither addresses nor errors carry credentials: those are in `options`.
    pub(super) async fn connect(
        servers: Vec<ServerAddr>,
        options: ConnectOptions,
        inbox: &str,
        domain: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (signals, _) = broadcast::channel(64);
        let alive = Arc::new(());
        let (teller, life) = (signals.clone(), Arc::downgrade(&alive));
        let client = options
            .name("tenure")
            .custom_inbox_prefix(inbox)
            .ping_interval(PING_EVERY)
            .connection_timeout(ANSWER_MAX / 2)
            .request_timeout(None)
            .reconnect_delay_callback(move |attempts| pause(attempts, &life))
            .event_callback(move |event| {
                tell(&teller, event);
                std::future::ready(())
            })
            .connect(servers)
            .await
            .map_err(error::connecting)?;
        let api = domain.map_or("$JS.API".to_owned(), |domain| format!("$JS.{domain}.API"));
        let (inbox, answered) = (inbox.to_owned(), AtomicU64::new(clock.now().as_nanos()));
        Ok(Self { client, clock, signals, api, inbox, answered, _alive: alive })
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// How often it was connected, which tells one connection from the next.
    pub(super) fn connections(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::SeqCst)
    }

    /// Where the JetStream API is: of use also in front of the subject of a stream that lives in
    /// another domain.
    pub(super) fn api_prefix(&self) -> &str {
        &self.api
    }

    pub(super) fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    /// A subject of this connection alone, and what arrives there.
    pub(super) async fn inbox(&self) -> Result<(String, Subscriber)> {
        let subject = self.client.new_inbox();
        let subscriber = self.client.subscribe(subject.clone()).await;
        let subscriber = subscriber.map_err(|_| Error::unavailable("the connection is closed"))?;
        Ok((subject, subscriber))
    }

    /// One request and its reply. It is sent once; when the connection breaks it is over, although
    /// the client library might still send it then.
    pub(super) async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Message, Silence> {
        let mut signals = self.signals.subscribe();
        if self.client.connection_state() != State::Connected {
            return Err(Silence::Down);
        }
        let request = Request::new().headers(headers).payload(body.into());
        let sent = self.clock.now();
        let asked =
            within(&*self.clock, ANSWER_MAX, self.client.send_request(subject.clone(), request));
        tokio::select! {
            biased;
            reply = asked => match reply {
                Ok(Ok(message)) => {
                    self.answered.fetch_max(self.clock.now().as_nanos(), Ordering::Relaxed);
                    Ok(message)
                }
                Ok(Err(error)) => Err(match error.kind() {
                    RequestErrorKind::NoResponders => Silence::NoResponders,
                    RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                        Silence::Unsendable(error.to_string())
                    }
                    RequestErrorKind::TimedOut | RequestErrorKind::Other => {
                        Silence::NoAnswer("the connection to NATS is closed")
                    }
                }),
                Err(_) => Err(Silence::NoAnswer("NATS did not answer in time")),
            },
            silence = self.trouble(&mut signals, &subject) => Err(silence),
            never = self.give_up_when_silent(sent) => match never {},
        }
    }

    /// Makes the connection anew when nothing was answered on it for too long since `sent`. The
    /// request that waits is told by that, as all others are.
    async fn give_up_when_silent(&self, sent: Moment) -> Infallible {
        self.clock.sleep_until(sent + SILENT_MAX).await;
        // A process that was stopped meanwhile has yet to read what has come.
        self.clock.sleep_until(self.clock.now() + UNREAD).await;
        if self.answered.load(Ordering::Relaxed) < sent.as_nanos() {
            // It fails only when the client is closed.
            drop(self.client.force_reconnect().await);
        }
        pending().await
    }

    /// Waits for something that leaves a request to `subject` without a reply.
    async fn trouble(&self, signals: &mut broadcast::Receiver<Signal>, subject: &str) -> Silence {
        let quoted = format!("\"{subject}\"");
        let inbox = format!("Subscription to \"{}.", self.inbox);
        loop {
            match signals.recv().await {
                Ok(Signal::Disconnected) => {
                    return Silence::NoAnswer("the connection to NATS broke before the answer");
                }
                Ok(Signal::Refused(what)) if what.contains(&quoted) => {
                    return Silence::Forbidden(what.to_string());
                }
                Ok(Signal::Refused(what)) if what.contains(&inbox) => {
                    return Silence::NoAnswer("NATS forbids the subscription to the inbox");
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => pending().await,
            }
        }
    }

    /// A call of the JetStream API.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<Result<T, jetstream::Error>, Silence> {
        let body = serde_json::to_vec(body).map_err(|e| Silence::Unsendable(e.to_string()))?;
        let subject = format!("{}.{verb}", self.api);
        let message = self.request(subject, HeaderMap::new(), body).await?;
        answer(&message.payload)
    }
}

/// Reads what the server answered: with what was asked for, or with an error. What says that
/// something went wrong in words that nobody here knows is neither.
pub(super) fn answer<T: DeserializeOwned>(
    payload: &[u8],
) -> Result<Result<T, jetstream::Error>, Silence> {
    #[derive(Deserialize)]
    struct Says {
        error: Option<IgnoredAny>,
    }
    let unreadable = Silence::NoAnswer("NATS gave an answer that cannot be read");
    match serde_json::from_slice(payload) {
        Ok(Response::Ok(value)) => match serde_json::from_slice(payload) {
            Ok(Says { error: None }) => Ok(Ok(value)),
            _ => Err(unreadable),
        },
        Ok(Response::Err { error }) => Ok(Err(error)),
        Err(_) => Err(unreadable),
    }
}

fn pause(attempts: usize, life: &Weak<()>) -> Duration {
    if life.strong_count() == 0 && attempts > 1 {
        return RECONNECT_UNWANTED;
    }
    let doublings = u32::try_from(attempts.saturating_sub(1).min(10)).unwrap_or(10);
    Duration::from_millis((1 << doublings) - 1).min(RECONNECT_MAX)
}

fn tell(signals: &broadcast::Sender<Signal>, event: Event) {
    let signal = match event {
        Event::Connected => Signal::Connected,
        Event::Disconnected | Event::Closed => Signal::Disconnected,
        Event::ServerError(ServerError::Other(what)) => {
            tracing::warn!(what, "NATS refused something");
            Signal::Refused(what.into())
        }
        _ => return,
    };
    // Without a receiver nobody wanted to know.
    drop(signals.send(signal));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reconnects_at_once_and_then_ever_slower() {
        let alive = Arc::new(());
        let life = Arc::downgrade(&alive);
        assert_eq!(pause(1, &life), Duration::ZERO);
        assert_eq!(pause(4, &life), Duration::from_millis(7));
        assert_eq!(pause(500, &life), RECONNECT_MAX);
        drop(alive);
        assert_eq!(pause(2, &life), RECONNECT_UNWANTED);
    }

    #[test]
    fn an_answer_is_what_was_asked_for_or_an_error() {
        let ack = br#"{"stream":"KV_t","seq":7}"#;
        let ack = answer::<jetstream::publish::PublishAck>(ack).unwrap().unwrap();
        assert_eq!(ack.sequence, 7);
        let refused = br#"{"error":{"code":400,"err_code":10071},"stream":"KV_t","seq":0}"#;
        let refused = answer::<jetstream::publish::PublishAck>(refused).unwrap().unwrap_err();
        assert_eq!(refused.error_code(), jetstream::ErrorCode::STREAM_WRONG_LAST_SEQUENCE);
        for odd in ["+OK", r#"{"error":"no","stream":"KV_t","seq":7}"#, r#"["KV_t",7]"#] {
            assert!(answer::<jetstream::publish::PublishAck>(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}

//! Many calls on one stream of a connection, which costs the server and this process a fraction of
//! what a request for each would.
//!
//! Nothing is put on a stream before the server has taken it. So a call is either on its way, and
//! without an answer nobody knows what came of it; or it was never sent, and may be sent anew.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use prost::Message;
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::exchange_call::Call;
use tenure_api::tenure_v1::{ExchangeAnswer, ExchangeCall, ExchangeRequest, ExchangeResponse};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::{Status, Streaming};

use super::error::Failure;
use crate::effect::Effect;

/// How many calls of a stream may be without an answer; more of them wait.
const CALLS_MAX: usize = 1024;

/// How many calls go into one message: the server takes no more.
const AT_ONCE: usize = 256;

/// How many bytes of calls go into one message: the server reads none of more than 64 KiB.
const BYTES_MAX: usize = 48 * 1024;

/// What a call costs beside its request, in bytes, at the most.
const FRAME: usize = 32;

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The server has no such streams, or none left for this client: nothing was sent.
    NoExchange,
    Failed(Failure),
}

type Outcome = Result<Answer, Trouble>;

/// One stream. It takes no more calls when this is dropped, and ends with the last answer.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl Exchange {
    /// A stream that does not stand yet, the calls that are put on it, and the end that takes the
    /// answers.
    pub(super) fn new() -> (Self, Calls, Answers) {
        let shared = Arc::new(Shared(Mutex::default()));
        let exchange =
            Self { shared: Arc::clone(&shared), places: Arc::new(Semaphore::new(CALLS_MAX)) };
        let calls = Calls { shared: Arc::clone(&shared), has_waited: false };
        (exchange, calls, Answers(shared))
    }

    /// Whether nothing can be sent on it any more.
    pub(super) fn is_over(&self) -> bool {
        self.shared.lock().is_over
    }

    /// Whether a request is small enough for it.
    pub(super) fn takes(request: &impl Message) -> bool {
        request.encoded_len() + FRAME <= BYTES_MAX
    }

    /// Makes a call. One whose future is dropped before it is sent is not made.
    pub(super) async fn ask(&self, call: Call, effect: Effect) -> Outcome {
        let unsent = || Trouble::Failed(Failure::unsent());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| unsent())?;
        let (sender, answer) = oneshot::channel();
        let reply = Reply { sender: Some(sender), effect, is_sent: false, _place: place };
        self.shared.put(call, reply);
        answer.await.unwrap_or_else(|_| Err(Trouble::Failed(Failure::cut(effect))))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        state.wake();
    }
}

struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// The server has taken the stream.
    stands: bool,
    /// No more calls will come.
    is_closed: bool,
    is_over: bool,
    waiting: VecDeque<(Call, Reply)>,
    sent: HashMap<u64, Reply>,
    last: u64,
    writer: Option<Waker>,
}

/// To whoever made a call. However it is dropped, it tells the truth.
struct Reply {
    sender: Option<oneshot::Sender<Outcome>>,
    effect: Effect,
    is_sent: bool,
    _place: OwnedSemaphorePermit,
}

impl Reply {
    fn is_wanted(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    fn tell(mut self, outcome: Outcome) {
        if let Some(sender) = self.sender.take() {
            // Whoever asked may have gone.
            let _ = sender.send(outcome);
        }
    }

    fn answer(self, answer: Option<Answer>) {
        let outcome = match answer {
            Some(Answer::Refusal(refusal)) => {
                let code = tonic::Code::from(refusal.code);
                let status = Status::with_details(code, refusal.message, refusal.details.into());
                Err(Trouble::Failed(Failure::of(status, self.effect)))
            }
            Some(answer) => Ok(answer),
            None => Err(Trouble::Failed(Failure::malformed())),
        };
        self.tell(outcome);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let failure = if self.is_sent { Failure::cut(self.effect) } else { Failure::unsent() };
            let _ = sender.send(Err(Trouble::Failed(failure)));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, call: Call, reply: Reply) {
        let mut state = self.lock();
        if !state.is_over {
            state.waiting.push_back((call, reply));
            state.wake();
        }
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// All that wait, as far as they go into one message.
    fn batch(&mut self) -> Option<ExchangeRequest> {
        let (mut calls, mut bytes) = (Vec::new(), 0);
        while calls.len() < AT_ONCE
            && let Some((call, mut reply)) = self.waiting.pop_front()
        {
            if !reply.is_wanted() {
                continue;
            }
            let size = call.encoded_len() + FRAME;
            if bytes + size > BYTES_MAX && !calls.is_empty() {
                self.waiting.push_front((call, reply));
                break;
            }
            bytes += size;
            self.last += 1;
            reply.is_sent = true;
            self.sent.insert(self.last, reply);
            calls.push(ExchangeCall { number: self.last, call: Some(call) });
        }
        (!calls.is_empty()).then_some(ExchangeRequest { calls })
    }
}

/// What is put on the stream.
pub(super) struct Calls {
    shared: Arc<Shared>,
    /// Others had their turn since there was something to send.
    has_waited: bool,
}

impl Stream for Calls {
    type Item = ExchangeRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ExchangeRequest>> {
        let Self { shared, has_waited } = &mut *self;
        let mut state = shared.lock();
        if state.stands && !state.is_over && !state.waiting.is_empty() {
            // A runtime runs this next after the first of many who are about to call: they come
            // along when it waits one turn.
            *has_waited = !*has_waited;
            if *has_waited {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(request) = state.batch() {
                return Poll::Ready(Some(request));
            }
        }
        if state.is_over || (state.is_closed && state.waiting.is_empty()) {
            return Poll::Ready(None);
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Takes what comes back. When it is dropped, the stream is over.
pub(super) struct Answers(Arc<Shared>);

impl Answers {
    /// The server has taken the stream: works until it ends.
    pub(super) async fn take(self, mut answers: Streaming<ExchangeResponse>) {
        {
            let mut state = self.0.lock();
            state.stands = true;
            state.wake();
        }
        let ended = loop {
            match answers.message().await {
                Ok(Some(message)) => self.tell(message),
                Ok(None) => break Status::unavailable("the server ended the stream of calls"),
                Err(status) => break status,
            }
        };
        tracing::debug!(code = ?ended.code(), "a stream of calls ended: {}", ended.message());
        let (_, sent) = self.end();
        // Whatever the server says at the end, it says of the stream and not of these.
        for reply in sent {
            let failure = Failure::cut_by(reply.effect, ended.clone());
            reply.tell(Err(Trouble::Failed(failure)));
        }
    }

    /// The server has not taken the stream: nothing was sent.
    pub(super) fn refuse(self, why: &Trouble) {
        let (waiting, _) = self.end();
        for reply in waiting {
            reply.tell(Err(why.clone()));
        }
    }

    fn tell(&self, message: ExchangeResponse) {
        let mut told = Vec::with_capacity(message.answers.len());
        {
            let mut state = self.0.lock();
            for ExchangeAnswer { number, answer } in message.answers {
                told.extend(state.sent.remove(&number).map(|reply| (reply, answer)));
            }
        }
        for (reply, answer) in told {
            reply.answer(answer);
        }
    }

    /// Those that were not sent, and those that were.
    fn end(&self) -> (Vec<Reply>, Vec<Reply>) {
        let mut state = self.0.lock();
        state.is_over = true;
        state.wake();
        let waiting = state.waiting.drain(..).map(|(_, reply)| reply).collect();
        (waiting, state.sent.drain().map(|(_, reply)| reply).collect())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Dropped outside of the lock, and each says what became of it.
        drop(self.end());
    }
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use futures_util::{FutureExt, StreamExt};
    use tenure_api::tenure_v1::ReleaseLeaseRequest;

    use super::{Answer, Call, Effect, Exchange, ExchangeResponse, Trouble};
    use crate::error::{Error, Result};

    /// What so many callers on one stream are told, if this message is all that comes back; `None`
    /// for those who are told nothing. The first has the number 1.
    #[must_use]
    pub fn remote_exchange(
        callers: usize,
        message: ExchangeResponse,
    ) -> Vec<Option<Result<Answer>>> {
        let (exchange, mut calls, answers) = Exchange::new();
        let ask =
            || exchange.ask(Call::ReleaseLease(ReleaseLeaseRequest::default()), Effect::Write);
        let mut asked: Vec<_> = (0..callers).map(|_| Box::pin(ask())).collect();
        for ask in &mut asked {
            let _ = ask.now_or_never();
        }
        answers.0.lock().stands = true;
        // The first turn is for others.
        for _ in 0..2 {
            let _ = calls.next().now_or_never();
        }
        answers.tell(message);
        let told = asked.iter_mut().map(FutureExt::now_or_never);
        told.map(|outcome| outcome.map(|outcome| outcome.map_err(error))).collect()
    }

    fn error(trouble: Trouble) -> Error {
        match trouble {
            Trouble::NoExchange => Error::unavailable("no exchange"),
            Trouble::Failed(failure) => failure.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt, StreamExt};
    use tenure_api::tenure_v1::{
        ExchangeRefusal, InspectLeaseRequest, ReleaseLeaseRequest, ReleaseLeaseResponse,
    };

    use super::*;
    use crate::error::ErrorKind;

    fn release() -> Call {
        Call::ReleaseLease(ReleaseLeaseRequest::default())
    }

    fn long(bytes: usize) -> Call {
        let key = "k".repeat(bytes);
        Call::InspectLease(InspectLeaseRequest { key, ..InspectLeaseRequest::default() })
    }

    fn stand(answers: &Answers) {
        answers.0.lock().stands = true;
    }

    /// What it sends in its second turn: the first is for others.
    fn sent(calls: &mut Calls) -> Option<ExchangeRequest> {
        assert!(calls.next().now_or_never().is_none());
        calls.next().now_or_never()?
    }

    fn numbers(calls: &mut Calls) -> Option<Vec<u64>> {
        let request = sent(calls)?;
        Some(request.calls.iter().map(|call| call.number).collect())
    }

    fn failure(outcome: Outcome) -> Failure {
        match outcome {
            Err(Trouble::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn nothing_is_sent_before_the_stream_stands_and_then_all_at_once() {
        let (exchange, mut calls, answers) = Exchange::new();
        let mut asked: Vec<_> =
            (0..3).map(|_| Box::pin(exchange.ask(release(), Effect::Write))).collect();
        assert!(asked.iter_mut().all(|ask| ask.now_or_never().is_none()));
        assert_eq!(numbers(&mut calls), None);
        stand(&answers);
        assert_eq!(numbers(&mut calls), Some(vec![1, 2, 3]));
        assert_eq!(numbers(&mut calls), None);
        let answer = Some(Answer::ReleaseLease(ReleaseLeaseResponse::default()));
        answers.tell(ExchangeResponse { answers: vec![ExchangeAnswer { number: 2, answer }] });
        assert!(asked[0].as_mut().now_or_never().is_none());
        assert!(asked[1].as_mut().now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn what_is_dropped_before_it_is_sent_is_not_sent() {
        let (exchange, mut calls, answers) = Exchange::new();
        let mut kept = pin!(exchange.ask(release(), Effect::Write));
        let mut gone = Box::pin(exchange.ask(release(), Effect::Write));
        assert!(gone.as_mut().now_or_never().is_none() && kept.as_mut().now_or_never().is_none());
        drop(gone);
        stand(&answers);
        assert_eq!(numbers(&mut calls), Some(vec![1]));
    }

    #[tokio::test]
    async fn only_what_was_sent_may_have_been_done() {
        let (exchange, mut calls, answers) = Exchange::new();
        let mut write = Box::pin(exchange.ask(release(), Effect::Write));
        let mut read = Box::pin(exchange.ask(long(1), Effect::Read));
        assert!(write.as_mut().now_or_never().is_none() && read.as_mut().now_or_never().is_none());
        stand(&answers);
        assert_eq!(numbers(&mut calls), Some(vec![1, 2]));
        let mut unsent = Box::pin(exchange.ask(release(), Effect::Write));
        assert!(unsent.as_mut().now_or_never().is_none());
        drop(answers);
        let sent = failure(write.await);
        assert_eq!((sent.error.kind(), sent.again), (ErrorKind::Unknown, false));
        for failed in [failure(read.await), failure(unsent.await)] {
            assert_eq!((failed.error.kind(), failed.again), (ErrorKind::Unavailable, true));
        }
        assert!(exchange.is_over());
        let late = failure(exchange.ask(release(), Effect::Write).await);
        assert!(late.again, "it was never sent");
        assert_eq!(calls.next().await, None);
    }

    #[test]
    fn a_message_has_an_end_and_so_has_the_line_before_it() {
        let (exchange, mut calls, answers) = Exchange::new();
        stand(&answers);
        let mut asked: Vec<_> =
            (0..CALLS_MAX + 1).map(|_| Box::pin(exchange.ask(release(), Effect::Read))).collect();
        assert!(asked.iter_mut().all(|ask| ask.now_or_never().is_none()));
        let counts: Vec<_> =
            std::iter::from_fn(|| numbers(&mut calls)).map(|sent| sent.len()).collect();
        assert_eq!(counts, [AT_ONCE; CALLS_MAX / AT_ONCE], "one has to wait");
        let (exchange, mut calls, answers) = Exchange::new();
        stand(&answers);
        let mut asked: Vec<_> =
            (0..3).map(|_| Box::pin(exchange.ask(long(20 * 1024), Effect::Read))).collect();
        assert!(asked.iter_mut().all(|ask| ask.now_or_never().is_none()));
        let sent = sent(&mut calls).unwrap();
        assert!(sent.calls.len() == 2 && sent.encoded_len() <= BYTES_MAX);
        assert_eq!(numbers(&mut calls), Some(vec![3]));
        let request = InspectLeaseRequest { key: "k".repeat(BYTES_MAX), ..Default::default() };
        assert!(!Exchange::takes(&request));
    }

    #[tokio::test]
    async fn a_refusal_says_what_its_status_would() {
        let (exchange, mut calls, answers) = Exchange::new();
        stand(&answers);
        let mut asked = pin!(exchange.ask(release(), Effect::Write));
        assert!(asked.as_mut().now_or_never().is_none() && numbers(&mut calls).is_some());
        let code = tonic::Code::PermissionDenied.into();
        let refusal = ExchangeRefusal { code, ..ExchangeRefusal::default() };
        let answer = Some(Answer::Refusal(refusal));
        answers.tell(ExchangeResponse { answers: vec![ExchangeAnswer { number: 1, answer }] });
        assert_eq!(failure(asked.await).error.kind(), ErrorKind::Denied);
    }

    #[tokio::test]
    async fn the_stream_ends_with_its_last_answer() {
        let (exchange, mut calls, answers) = Exchange::new();
        stand(&answers);
        assert_eq!(numbers(&mut calls), None);
        drop(exchange);
        assert_eq!(calls.next().now_or_never(), Some(None));
    }
}

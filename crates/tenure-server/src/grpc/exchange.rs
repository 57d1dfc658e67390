//! Many calls on one stream: made side by side, and answered together as they are done.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tenure_api::Code;
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::exchange_call::Call;
use tenure_api::tenure_v1::{
    ExchangeAnswer, ExchangeCall, ExchangeRefusal, ExchangeRequest, ExchangeResponse,
};
use tokio::task::yield_now;
use tonic::{Status, Streaming};
use tracing::Span;

use super::calls;
use crate::access::Caller;
use crate::api::{Api, LOOK, Stay};
use crate::door::Visitor;
use crate::failure::Failure;

/// How many calls one message may have, and how many answers.
const CALLS_MAX: usize = 256;

/// How many calls of one stream may be under way before no more of them are read.
const UNDER_WAY_MAX: usize = 1024;

/// The calls of one client.
pub(super) struct Exchange {
    api: Arc<Api>,
    visitor: Visitor,
    requests: Streaming<ExchangeRequest>,
    /// Why no more calls are read, once that is so: the client has no more, or it is told this.
    end: Option<Result<(), Failure>>,
    under_way: FuturesUnordered<UnderWay>,
    last: u64,
    stay: Stay,
    span: Span,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Exchange {
    pub(super) fn new(
        api: Arc<Api>,
        visitor: Visitor,
        requests: Streaming<ExchangeRequest>,
    ) -> Result<Self, Failure> {
        let stay = api.stay(&visitor.caller()?, LOOK)?;
        let (under_way, span) = (FuturesUnordered::new(), Span::current());
        Ok(Self { api, visitor, requests, end: None, under_way, last: 0, stay, span })
    }

    /// The next answers; `None` when the client has no more calls and all are answered.
    ///
    /// # Errors
    /// `ShuttingDown`, once what was under way then is answered; or whatever makes the stream one
    /// that cannot be followed.
    pub(super) async fn next(&mut self) -> Result<Option<ExchangeResponse>, Status> {
        loop {
            if self.under_way.is_empty()
                && let Some(end) = self.end.take()
            {
                return end.map(|()| None).map_err(Status::from);
            }
            let (reads, has_room) = (self.end.is_none(), self.under_way.len() < UNDER_WAY_MAX);
            tokio::select! {
                biased;
                failure = self.stay.over(), if reads => self.end = Some(Err(failure)),
                // Calls before answers: all that have come are begun together.
                request = self.requests.message(), if reads && has_room => match request? {
                    Some(request) => self.begin(request.calls)?,
                    None => self.end = Some(Ok(())),
                },
                Some(first) = self.under_way.next() => {
                    // A store answers many at once, and the others are right behind.
                    yield_now().await;
                    return Ok(Some(self.gather(first)));
                }
            }
        }
    }

    /// This answer, and all others that are there by now.
    fn gather(&mut self, first: ExchangeAnswer) -> ExchangeResponse {
        let mut answers = vec![first];
        while answers.len() < CALLS_MAX
            && let Some(Some(answer)) = self.under_way.next().now_or_never()
        {
            answers.push(answer);
        }
        ExchangeResponse { answers }
    }

    fn begin(&mut self, calls: Vec<ExchangeCall>) -> Result<(), Failure> {
        if calls.len() > CALLS_MAX {
            let text = format!("a message must have at most {CALLS_MAX} calls");
            return Err(Failure::invalid(text));
        }
        // A token may have been taken back since the last message.
        let caller = match self.visitor.caller() {
            Ok(caller) => Ok(Arc::new(caller)),
            Err(failure) => {
                self.api.turned_away(self.visitor.address(), &failure);
                Err(failure)
            }
        };
        for ExchangeCall { number, call } in calls {
            if number <= self.last {
                return Err(Failure::invalid("the numbers of calls must grow"));
            }
            self.last = number;
            let work = Box::pin(answer(Arc::clone(&self.api), caller.clone(), call));
            self.under_way.push(UnderWay { number, work, span: self.span.clone() });
        }
        Ok(())
    }
}

/// A call that was begun. It is boxed before anything else is put around it: it is large.
struct UnderWay {
    number: u64,
    work: Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>,
    span: Span,
}

impl Future for UnderWay {
    type Output = ExchangeAnswer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ExchangeAnswer> {
        let Self { number, work, span } = &mut *self;
        let _entered = span.enter();
        // One call that fails must not take the others with it.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        let answer = ready!(polled.unwrap_or_else(|_| Poll::Ready(Err(fault()))));
        let answer = answer.unwrap_or_else(|failure| Answer::Refusal(refusal(failure)));
        Poll::Ready(ExchangeAnswer { number: *number, answer: Some(answer) })
    }
}

async fn answer(
    api: Arc<Api>,
    caller: Result<Arc<Caller>, Failure>,
    call: Option<Call>,
) -> Result<Answer, Failure> {
    let (api, caller) = (&*api, &*caller?);
    let call = call.ok_or_else(|| Failure::invalid("call must be set"))?;
    Ok(match call {
        Call::TryAcquire(call) => Answer::TryAcquire(calls::try_acquire(api, caller, call).await?),
        Call::RenewLease(call) => Answer::RenewLease(calls::renew_lease(api, caller, call).await?),
        Call::ReleaseLease(call) => {
            Answer::ReleaseLease(calls::release_lease(api, caller, call).await?)
        }
        Call::InspectLease(call) => {
            Answer::InspectLease(calls::inspect_lease(api, caller, call).await?)
        }
    })
}

/// For a call that ended the wrong way: nobody knows what was done before.
fn fault() -> Failure {
    Failure::new(Code::Internal, "the server has failed")
}

fn refusal(failure: Failure) -> ExchangeRefusal {
    let status = Status::from(failure);
    ExchangeRefusal {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_panics_is_a_refusal() {
        let work = Box::pin(async { panic!("on purpose") });
        let answer = UnderWay { number: 7, work, span: Span::none() }.await;
        assert_eq!(answer.number, 7);
        let Some(Answer::Refusal(refusal)) = answer.answer else { panic!("{answer:?}") };
        assert_eq!(refusal.code, i32::from(tonic::Code::Internal));
        assert!(!refusal.details.is_empty() && !refusal.message.contains("purpose"));
    }
}

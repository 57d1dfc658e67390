//! A lock that is held for as long as its answer is read.

use axum::response::Response;
use futures_util::StreamExt;
use futures_util::future::ready;

use super::json::HoldLine;
use super::lines::lines;
use super::locks::refusal;
use crate::access::Caller;
use crate::api::{Api, HoldEvent, Order};
use crate::failure::Failure;

/// Answers with a stream that holds the lock. What fails before anything was said has a status of
/// its own; what comes later is the stream's last line.
pub(super) async fn hold(api: &Api, caller: &Caller, order: Order) -> Result<Response, Failure> {
    let mut holding = api.hold(caller, &order).await?;
    let first = match holding.next().await {
        Some(Err(failure)) => return Ok(refusal(&failure, &order)),
        first => first,
    };
    let first = futures_util::stream::iter(first).filter(|event| ready(!is_ping(event)));
    let key = order.place.key;
    Ok(lines(first.chain(holding).map(move |event| HoldLine::new(&key, event))))
}

fn is_ping(event: &Result<HoldEvent, Failure>) -> bool {
    matches!(event, Ok(HoldEvent::Ping))
}

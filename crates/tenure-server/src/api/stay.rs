//! A stream that is open for as long as its client likes.

use tenure_api::Code;
use tokio::sync::watch;

use super::Api;
use crate::access::{Caller, Verb};
use crate::failure::Failure;
use crate::quota::Ticket;

/// One stream of a client: counted, and told when the server goes down.
#[derive(Debug)]
pub(crate) struct Stay {
    closing: watch::Receiver<bool>,
    _ticket: Ticket,
}

impl Api {
    /// One more stream for whoever may do one of these somewhere.
    ///
    /// # Errors
    /// `Forbidden`, `LimitReached`.
    pub(crate) fn stay(&self, caller: &Caller, verbs: &[Verb]) -> Result<Stay, Failure> {
        caller.must_somewhere(verbs)?;
        let _ticket = self.streams.take(caller.client())?;
        Ok(Stay { closing: self.closing.subscribe(), _ticket })
    }
}

impl Stay {
    /// Returns when the server goes down, with what to tell the client.
    pub(crate) async fn over(&mut self) -> Failure {
        // Without a server there is none that stays either.
        let _ = self.closing.wait_for(|closing| *closing).await;
        Failure::new(Code::ShuttingDown, "the server is going down")
    }
}

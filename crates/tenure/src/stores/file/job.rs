//! A question on its way through the writer thread, and the answer on its way back.

use std::fmt::Debug;

use tokio::sync::oneshot;

use super::batch::Batch;
use super::error::Fault;
use crate::error::{Error, Operation, Result};

/// How the writer treats a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing and needs no write lock.
    Read,
    /// It may change something.
    Write,
    /// As `Write`, and done even if its caller has gone: someone else may wait for it.
    Release,
}

/// One verb with its arguments.
pub(super) trait Question: Debug + Send + 'static {
    type Answer: Debug + Send + 'static;
    const OPERATION: Operation;
    const KIND: Kind;

    /// Answers within the batch. It may be asked again when the batch has to be done anew.
    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Self::Answer, Fault>;
}

/// A question of any kind.
pub(super) trait Job: Debug + Send {
    fn kind(&self) -> Kind;

    /// Whether nobody waits for the answer and nobody needs the work.
    fn is_abandoned(&self) -> bool;

    /// Works out the answer and keeps it; an error is SQLite's, and ends the batch.
    fn decide(&mut self, batch: &mut Batch<'_, '_>) -> rusqlite::Result<()>;

    /// Whether a crash of the machine right after the answer would break it.
    fn must_sync(&self) -> bool;

    /// Sends the answer that was worked out.
    fn answer(self: Box<Self>);

    /// Sends an error instead.
    fn refuse(self: Box<Self>, error: &Error);
}

/// A question and whoever asked it.
#[derive(Debug)]
pub(super) struct Ask<Q: Question> {
    question: Q,
    reply: oneshot::Sender<Result<Q::Answer>>,
    answer: Option<Result<Q::Answer>>,
    must_sync: bool,
}

impl<Q: Question> Ask<Q> {
    pub(super) fn new(question: Q) -> (Box<Self>, oneshot::Receiver<Result<Q::Answer>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { question, reply, answer: None, must_sync: false }), answer)
    }
}

impl<Q: Question> Job for Ask<Q> {
    fn kind(&self) -> Kind {
        Q::KIND
    }

    fn is_abandoned(&self) -> bool {
        Q::KIND != Kind::Release && self.reply.is_closed()
    }

    fn decide(&mut self, batch: &mut Batch<'_, '_>) -> rusqlite::Result<()> {
        // A look may have seen what is not synced yet, of this process or of another.
        batch.must_sync = Q::KIND == Kind::Read;
        self.answer = Some(match self.question.decide(batch) {
            Ok(answer) => Ok(answer),
            Err(Fault::Told(error)) => Err(error.during(Q::OPERATION)),
            Err(Fault::Sqlite(error)) => return Err(error),
        });
        self.must_sync = batch.must_sync;
        Ok(())
    }

    fn must_sync(&self) -> bool {
        self.must_sync
    }

    fn answer(self: Box<Self>) {
        // Without an answer the sender is dropped, which the caller takes for an unknown outcome.
        if let Some(answer) = self.answer {
            let _ = self.reply.send(answer);
        }
    }

    fn refuse(self: Box<Self>, error: &Error) {
        let _ = self.reply.send(Err(error.clone().during(Q::OPERATION)));
    }
}

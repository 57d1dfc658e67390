//! The network between one client and the store.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::store::{Capabilities, StoreInfo, Timing};
use tenure::watch::Watch;
use tenure::{Error, Key, Lease, Result, Status, Store};
use tokio::sync::oneshot;

use super::clock::Node;
use super::counters::Count;
use super::message::{Envelope, Reply, Request};
use super::server::fence_of;
use super::trace::Step;
use super::world::World;

/// The longest that a message takes in bad weather.
const DELAY_MS_MAX: u64 = 2_500;
const LATE: u64 = 500_000_000;

/// A store behind an unreliable network.
///
/// # Contract
/// A request is lost, refused before it was sent, delayed, overtaken, or applied twice; its reply
/// is delayed, lost in silence, or lost with a connection reset, which for a write is `Unknown`.
/// What was sent stays sent when the future that waits for it is dropped. A stopped process sends
/// and hears nothing until it goes on; a dead one never again.
#[derive(Debug)]
pub(crate) struct SimNet {
    world: Arc<World>,
    seat: usize,
    node: Arc<Node>,
    info: StoreInfo,
}

impl SimNet {
    pub(crate) fn new(world: Arc<World>, seat: usize, node: Arc<Node>) -> Self {
        let mut capabilities = Capabilities::default();
        capabilities.shared = true;
        capabilities.durable = true;
        let info = StoreInfo::new("sim", Timing::Store, capabilities, Vec::new());
        Self { world, seat, node, info }
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        self.node.awake().await;
        let world = &self.world;
        let weather = world.weather();
        let is_cut = world.is_cut(self.seat);
        if world.dice.chance(if is_cut { 500 } else { weather.refused }) {
            world.count(Count::RequestRefused);
            return Err(Error::unavailable("connection refused"));
        }
        let envelope = self.sealed(request);
        let (tell, told) = oneshot::channel();
        let is_renewal = matches!(envelope.request, Request::Renew(_));
        let (message, sent) = (envelope.message, envelope.sent);
        tokio::spawn(carry(Arc::clone(world), envelope, tell));
        let Ok(answer) = told.await else {
            if is_renewal {
                world.count(Count::RenewUnanswered);
            }
            return pending().await;
        };
        self.node.awake().await;
        self.hears(message, sent, &answer);
        answer
    }

    fn sealed(&self, request: Request) -> Envelope {
        let (seat, sent) = (self.seat, self.world.timeline.nanos());
        let mut checker = self.world.checker();
        let message = checker.number();
        checker.step(Step::Sent { seat, message, verb: request.verb() });
        Envelope { seat, message, sent, twice: false, request }
    }

    fn hears(&self, message: u64, sent: u64, answer: &Result<Reply>) {
        let mut checker = self.world.checker();
        checker.step(Step::Answered { seat: self.seat, message });
        let took = checker.now - sent;
        if took > LATE {
            checker.count(Count::ReplyLate);
        }
        match answer {
            Ok(Reply::Renewed(Renewed::Renewed(_))) => checker.count(Count::RenewConfirmed),
            Ok(Reply::Renewed(Renewed::Lost(_))) => checker.count(Count::RenewRefused),
            Ok(reply @ Reply::Attempt(Attempt::Granted(lease))) => {
                checker.answered(fence_of(reply));
                if Duration::from_nanos(took) > lease.remaining.mul_f64(0.9) {
                    checker.count(Count::AcquireTooLate);
                }
            }
            _ => {}
        }
    }
}

/// The way of one message to the server and back. Dropping `tell` is silence.
async fn carry(world: Arc<World>, envelope: Envelope, tell: oneshot::Sender<Result<Reply>>) {
    let weather = world.weather();
    let lost = world.is_cut(envelope.seat) || world.dice.chance(weather.lost);
    world.timeline.sleep(delay(&world)).await;
    if lost || world.is_cut(envelope.seat) {
        return world.count(Count::RequestLost);
    }
    let node = Arc::clone(&world.server().node);
    node.awake().await;
    let Some((reply, delete_later)) = world.apply(&envelope) else {
        if world.dice.chance(500) {
            // Whoever asked may have stopped waiting.
            let _ = tell.send(Err(Error::unavailable("the server is down")));
        }
        return;
    };
    if world.dice.chance(weather.duplicated) {
        let again = Envelope { twice: true, ..envelope.clone() };
        tokio::spawn(carry_again(Arc::clone(&world), again));
    }
    if delete_later {
        world.timeline.sleep(world.dice.millis(1, 300)).await;
        world.delete(&envelope);
    }
    let weather = world.weather();
    let lost = world.is_cut(envelope.seat) || world.dice.chance(weather.lost);
    world.timeline.sleep(delay(&world)).await;
    if !lost && !world.is_cut(envelope.seat) {
        let _ = tell.send(Ok(reply));
    } else if world.dice.chance(300) {
        world.count(Count::ReplyReset);
        let _ = tell.send(Err(reset(&envelope.request)));
    } else {
        world.count(Count::ReplyLost);
    }
}

async fn carry_again(world: Arc<World>, envelope: Envelope) {
    world.timeline.sleep(delay(&world) + delay(&world)).await;
    let node = Arc::clone(&world.server().node);
    node.awake().await;
    if world.apply(&envelope).is_some() {
        world.count(Count::RequestDuplicated);
    }
}

fn delay(world: &World) -> Duration {
    let weather = world.weather();
    let is_slow = world.dice.chance(weather.slow);
    world.dice.millis(0, if is_slow { DELAY_MS_MAX } else { weather.delay_ms_max })
}

fn reset(request: &Request) -> Error {
    if request.is_write() {
        Error::unknown("connection reset")
    } else {
        Error::unavailable("connection reset")
    }
}

/// The answer of the kind that was asked for. Another one would be a bug of the simulation, and is
/// never mistaken for a grant.
macro_rules! ask {
    ($self:ident, $request:expr, $reply:ident) => {
        match $self.call($request).await? {
            Reply::$reply(answer) => Ok(answer),
            _ => Err(Error::invalid("the answer is to another question")),
        }
    };
}

#[async_trait]
impl Store for SimNet {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        ask!(self, Request::Acquire(claim.clone()), Attempt)
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        ask!(self, Request::Renew(renewal.clone()), Renewed)
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        ask!(self, Request::Release(grant.clone()), Released)
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        ask!(self, Request::Force(eviction.key.clone()), Evicted)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        ask!(self, Request::Inspect(key.clone()), Lease)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        ask!(self, Request::List(query.clone()), Page)
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        ask!(self, Request::Watch(key.clone()), Watch)
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        ask!(self, Request::Agree(pledge.clone()), Fingerprint)
    }
}

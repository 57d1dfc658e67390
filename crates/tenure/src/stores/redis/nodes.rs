//! Which node serves a key: one server, the primary that Sentinels name, or a Cluster's many.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use ::redis::aio::PubSub;
use ::redis::{Cmd, ServerErrorKind, Value};

use super::dial::Dialer;
use super::error::Fault;
use super::line::{Asking, Line};
use super::options::{Address, Layout};
use super::script::Script;
use super::slot::{Names, SLOTS};
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};

/// How often one command may be sent on to another node. Each time, the last one did nothing.
const REDIRECTIONS: usize = 4;

/// All nodes, and the ways to them.
#[derive(Debug)]
pub(super) struct Nodes {
    dialer: Arc<Dialer>,
    lines: Mutex<HashMap<Address, Arc<Line>>>,
    map: Mutex<Arc<Map>>,
    /// Held by whoever draws the map anew.
    drawing: tokio::sync::Mutex<()>,
}

/// Who serves which slots: the last slot of each stretch, and its primary.
#[derive(Debug, Default, PartialEq, Eq)]
struct Map(BTreeMap<u16, Address>);

impl Map {
    fn whole(address: Address) -> Self {
        Self([(SLOTS - 1, address)].into())
    }

    fn primary_of(&self, slot: u16) -> Option<&Address> {
        self.0.range(slot..).next().map(|(_, address)| address)
    }
}

impl Nodes {
    /// Finds the nodes. That they can be worked with is for the probe to see.
    pub(super) async fn find(dialer: Arc<Dialer>) -> Result<Self> {
        let nodes = Self {
            dialer,
            lines: Mutex::default(),
            map: Mutex::default(),
            drawing: tokio::sync::Mutex::default(),
        };
        nodes.draw(None).await?;
        Ok(nodes)
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Runs a script on the node that serves the key.
    pub(super) async fn run(
        &self,
        script: &Script,
        key: &str,
        names: &Names,
        arguments: &[&str],
        effect: Effect,
    ) -> Result<Value> {
        let mut answer = self.call(names.slot, &script.by_hash(key, names, arguments)).await;
        if answer.as_ref().is_err_and(|fault| fault.is(ServerErrorKind::NoScript)) {
            answer = self.call(names.slot, &script.by_source(key, names, arguments)).await;
        }
        answer.map_err(|fault| fault.explain(effect))
    }

    /// Sends a command to whichever node serves the slot.
    pub(super) async fn call(&self, slot: u16, command: &Cmd) -> Result<Value, Fault> {
        let mut redirections = 0;
        loop {
            let map = self.map();
            let Some(address) = map.primary_of(slot) else {
                self.draw(None).await.map_err(Fault::Unreachable)?;
                if *self.map() == *map {
                    let text = "no node of the Redis Cluster serves this key";
                    return Err(Fault::Unreachable(Error::unavailable(text)));
                }
                continue;
            };
            let fault = match self.line(address).call(command, Asking::No).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            if redirections == REDIRECTIONS {
                return Err(fault);
            }
            redirections += 1;
            let hint = redirection(&fault, address);
            if fault.is(ServerErrorKind::Ask)
                && let Some(target) = hint
            {
                return self.line(&target).call(command, Asking::Yes).await;
            }
            let elsewhere = fault.is(ServerErrorKind::Moved)
                || fault.is_read_only()
                || matches!(fault, Fault::Unreachable(_));
            // Only where another node is the right one is there anything to try again.
            if !elsewhere || self.redraw(&map, hint).await.is_err() {
                return Err(fault);
            }
            if self.map().primary_of(slot) == Some(address) {
                return Err(fault);
            }
        }
    }

    /// Sends a command to this node.
    pub(super) async fn call_at(&self, address: &Address, command: &Cmd) -> Result<Value, Fault> {
        self.line(address).call(command, Asking::No).await
    }

    /// Every node that keys are on.
    pub(super) fn primaries(&self) -> Vec<Address> {
        self.primaries_and_slots().into_iter().map(|(address, _)| address).collect()
    }

    /// Every node that keys are on, and one of its slots.
    pub(super) fn primaries_and_slots(&self) -> Vec<(Address, u16)> {
        let mut all: Vec<(Address, u16)> = Vec::new();
        for (slot, address) in &self.map().0 {
            if !all.iter().any(|(known, _)| known == address) {
                all.push((address.clone(), *slot));
            }
        }
        all
    }

    /// A connection for messages, to any node: they all pass on what one of them publishes.
    pub(super) async fn listen(&self) -> Result<PubSub> {
        if self.dialer.options().layout != Layout::Cluster {
            // After a fail-over, the primary is elsewhere.
            self.draw(None).await?;
        }
        let mut last = Error::unavailable("no node of Redis is known");
        for address in self.primaries() {
            match self.dialer.listen(&address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        // None of them: perhaps there are others by now.
        self.draw(None).await?;
        Err(last)
    }

    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn line(&self, address: &Address) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(address) {
            return Arc::clone(line);
        }
        let line = Arc::new(Line::new(Arc::clone(&self.dialer), address.clone()));
        lines.insert(address.clone(), Arc::clone(&line));
        line
    }

    /// Draws the map anew, unless someone has done so since `seen` was looked at.
    async fn redraw(&self, seen: &Arc<Map>, hint: Option<Address>) -> Result<()> {
        let _drawing = self.drawing.lock().await;
        if Arc::ptr_eq(seen, &self.map()) { self.draw(hint).await } else { Ok(()) }
    }

    async fn draw(&self, hint: Option<Address>) -> Result<()> {
        let options = self.dialer.options();
        let map = match &options.layout {
            Layout::Single => {
                let none = || Error::invalid("the URL names no host");
                Map::whole(options.addresses.first().cloned().ok_or_else(none)?)
            }
            Layout::Sentinel { service } => self.ask_sentinels(service).await?,
            Layout::Cluster => self.ask_cluster(hint).await?,
        };
        let known: Vec<_> = map.0.values().cloned().collect();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|address, _| known.contains(address));
        drop(lines);
        let mut current = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if **current != map {
            *current = Arc::new(map);
        }
        Ok(())
    }

    async fn ask_sentinels(&self, service: &str) -> Result<Map> {
        let mut last = None;
        for sentinel in &self.dialer.options().addresses {
            match self.dialer.ask_sentinel(sentinel, service).await {
                Ok(Some(address)) => return Ok(Map::whole(address)),
                Ok(None) => {
                    let text = "option service: the Sentinels know no primary of that name";
                    last = Some(Error::new(ErrorKind::Invalid, text));
                }
                Err(error) => last = last.or(Some(error)),
            }
        }
        Err(last.unwrap_or_else(|| Error::invalid("the URL names no Sentinel")))
    }

    async fn ask_cluster(&self, hint: Option<Address>) -> Result<Map> {
        let mut slots = ::redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let known = hint.into_iter().chain(self.primaries());
        let mut last = Error::unavailable("no node of the Redis Cluster is known");
        for address in known.chain(self.dialer.options().addresses.clone()) {
            match self.call_at(&address, &slots).await {
                Ok(value) => match read_slots(value, &address) {
                    Some(map) if !map.0.is_empty() => return Ok(map),
                    _ => last = Error::unavailable("the Redis Cluster has no slots assigned yet"),
                },
                Err(fault) => last = fault_of_cluster(fault),
            }
        }
        Err(last)
    }
}

fn fault_of_cluster(fault: Fault) -> Error {
    match &fault {
        Fault::Refused(error)
            if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) =>
        {
            Error::invalid("this Redis is no Cluster: use redis:// or rediss://")
        }
        _ => fault.explain(Effect::Read),
    }
}

/// Where a redirection points. A node that does not know its own name leaves the host out.
fn redirection(fault: &Fault, from: &Address) -> Option<Address> {
    let Fault::Refused(error) = fault else { return None };
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    let host = if host.is_empty() || host == "?" { from.host.as_str() } else { host };
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

/// The answer to `CLUSTER SLOTS`: stretches of first slot, last slot, primary, replicas.
fn read_slots(value: Value, from: &Address) -> Option<Map> {
    let Value::Array(stretches) = value else { return None };
    let mut map = Map::default();
    for stretch in stretches {
        let Value::Array(stretch) = stretch else { return None };
        let [Value::Int(_), Value::Int(last), Value::Array(primary), ..] = stretch.as_slice()
        else {
            return None;
        };
        let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
            Value::Nil => String::new(),
            _ => return None,
        };
        let host = if host.is_empty() || host == "?" { from.host.clone() } else { host };
        let address = Address { host, port: u16::try_from(*port).ok()? };
        map.0.insert(u16::try_from(*last).ok()?, address);
    }
    Some(map)
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use super::{Address, Fault, Value, read_slots, redirection};

    pub(in super::super) fn slots(value: Value, from: &Address) -> Option<Vec<(u16, String, u16)>> {
        let map = read_slots(value, from)?;
        Some(map.0.into_iter().map(|(last, at)| (last, at.host, at.port)).collect())
    }

    pub(in super::super) fn redirected(fault: &Fault, from: &Address) -> Option<(String, u16)> {
        redirection(fault, from).map(|Address { host, port }| (host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.into(), port }
    }

    fn stretch(first: i64, last: i64, host: Value, port: i64) -> Value {
        let primary = Value::Array(vec![host, Value::Int(port), Value::Nil]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary])
    }

    #[test]
    fn slots_are_read_and_a_nameless_node_is_the_one_asked() {
        let named = stretch(0, 5460, Value::BulkString(b"10.0.0.1".into()), 7000);
        let nameless = stretch(5461, 16_383, Value::Nil, 7001);
        let map = read_slots(Value::Array(vec![nameless, named]), &at("me", 1)).unwrap();
        assert_eq!(map.primary_of(0), Some(&at("10.0.0.1", 7000)));
        assert_eq!(map.primary_of(5460), Some(&at("10.0.0.1", 7000)));
        assert_eq!(map.primary_of(5461), Some(&at("me", 7001)));
        assert_eq!(read_slots(Value::Nil, &at("me", 1)), None);
        assert_eq!(read_slots(Value::Array(vec![Value::Nil]), &at("me", 1)), None);
    }
}

//! Many calls on one stream: none disturbs another, and none is done for whoever may not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tenure::claim::{Attempt, Grant};
use tenure::clock::{SystemClock, within};
use tenure::{ErrorKind, Operation, Store};
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::exchange_call::Call;
use tenure_api::tenure_v1::store_service_client::StoreServiceClient;
use tenure_api::tenure_v1::{
    ExchangeAnswer, ExchangeCall, ExchangeRequest, ExchangeResponse, InspectLeaseRequest,
    TryAcquireRequest,
};
use tenure_server::Running;
use tenure_server::config::Config;
use tenure_testkit::faults::{Fault, Faults};
use tenure_testkit::proxy::Proxy;
use tenure_testkit::wait::sleep;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt;

use crate::stage::{Stage, claim, key, token};

const SOON: Duration = Duration::from_secs(10);

/// A stream, message by message.
struct Talk {
    calls: mpsc::UnboundedSender<ExchangeRequest>,
    answers: Streaming<ExchangeResponse>,
}

impl Talk {
    async fn open(running: &Running, token: Option<&str>) -> Result<Self, Status> {
        let url = format!("http://{}", running.address());
        let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = StoreServiceClient::new(channel);
        let (calls, mut outbox) = mpsc::unbounded_channel();
        let outbox = futures_util::stream::poll_fn(move |cx| outbox.poll_recv(cx));
        let mut request = Request::new(outbox);
        if let Some(token) = token {
            let bearer = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(Self { calls, answers: client.exchange(request).await?.into_inner() })
    }

    fn send(&self, calls: Vec<ExchangeCall>) {
        self.calls.send(ExchangeRequest { calls }).unwrap();
    }

    async fn next(&mut self) -> Result<Option<ExchangeResponse>, Status> {
        within(&SystemClock, SOON, self.answers.message()).await.expect("nothing was told")
    }

    /// The next answers, as far as they are so many.
    async fn hear(&mut self, count: usize) -> Vec<ExchangeAnswer> {
        let mut heard = Vec::new();
        while heard.len() < count {
            heard.extend(self.next().await.unwrap().expect("the stream ended").answers);
        }
        heard
    }
}

fn take(number: u64, key: &str) -> ExchangeCall {
    let request = TryAcquireRequest {
        key: key.to_owned(),
        owner: "o".to_owned(),
        ttl: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        ..TryAcquireRequest::default()
    };
    ExchangeCall { number, call: Some(Call::TryAcquire(request)) }
}

/// The code of a refusal.
fn refused(answer: &ExchangeAnswer) -> Option<String> {
    let Some(Answer::Refusal(refusal)) = &answer.answer else { return None };
    let details = refusal.details.clone().into();
    let status = Status::with_details(Code::from(refusal.code), "", details);
    Some(status.get_details_error_info().unwrap().reason)
}

fn is_granted(answer: &ExchangeAnswer) -> bool {
    matches!(&answer.answer, Some(Answer::TryAcquire(answer)) if answer.granted)
}

fn guarded(token_name: &str) -> String {
    token(token_name, "[{ namespace = '*', verbs = ['acquire'] }]")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_taken_back_takes_no_locks_on_a_stream_that_is_open() {
    let stage = Stage::with(&guarded("old")).await;
    let mut talk = Talk::open(&stage.running, Some("old")).await.unwrap();
    let store = stage.store("?token=old&connections=1").await.unwrap();
    store.try_acquire(&claim("t1/default/a", "o")).await.unwrap();
    talk.send(vec![take(1, "t1/default/b")]);
    assert!(is_granted(&talk.hear(1).await[0]));

    let more = format!("listen = '127.0.0.1:0'\n{}", guarded("new"));
    let text = format!("{more}\n[stores.main]\nurl = 'memory:'\n");
    stage.running.reload(&Config::parse(&text).unwrap()).unwrap();
    talk.send(vec![take(2, "t1/default/c"), take(3, "t1/default/d")]);
    for answer in talk.hear(2).await {
        assert_eq!(refused(&answer).as_deref(), Some("unauthenticated"));
    }
    let error = store.try_acquire(&claim("t1/default/e", "o")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let new = stage.store("?token=new").await.unwrap();
    for k in ["c", "d", "e"] {
        assert!(new.inspect(&key(&format!("t1/default/{k}"))).await.unwrap().is_none(), "{k}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_wrong_is_refused_and_the_others_are_not() {
    let stage = Stage::new().await;
    let mut talk = Talk::open(&stage.running, None).await.unwrap();
    let none = ExchangeCall { number: 2, call: None };
    let empty = Call::InspectLease(InspectLeaseRequest::default());
    let empty = ExchangeCall { number: 9, call: Some(empty) };
    talk.send(vec![take(1, "t1/default/a"), none, empty, take(10, "t1/default/b")]);
    let mut answers = talk.hear(4).await;
    answers.sort_by_key(|answer| answer.number);
    let numbers: Vec<_> = answers.iter().map(|answer| answer.number).collect();
    assert_eq!(numbers, [1, 2, 9, 10]);
    assert!(is_granted(&answers[0]) && is_granted(&answers[3]));
    assert!(answers[1..3].iter().all(|answer| refused(answer).as_deref() == Some("invalid")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_be_followed_is_ended() {
    let stage = Stage::new().await;
    let many = (1..=257).map(|number| ExchangeCall { number, call: None }).collect();
    let again = vec![take(4, "t1/default/a"), take(4, "t1/default/b")];
    for calls in [vec![take(0, "t1/default/a")], again, many] {
        let mut talk = Talk::open(&stage.running, None).await.unwrap();
        talk.send(calls);
        let ended = loop {
            match talk.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended well"),
                Err(status) => break status,
            }
        };
        assert_eq!(ended.code(), Code::InvalidArgument, "{ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_asked_is_answered_before_the_stream_ends() {
    let stage = Stage::new().await;
    let mut talk = Talk::open(&stage.running, None).await.unwrap();
    for number in 0..10 {
        let calls = (1..=200).map(|n| take(number * 200 + n, &format!("t1/default/k{n}")));
        talk.send(calls.collect());
    }
    drop(std::mem::replace(&mut talk.calls, mpsc::unbounded_channel().0));
    let answers = talk.hear(2000).await;
    assert!(answers.iter().all(is_granted), "an owner gets its own again");
    assert!(talk.next().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_streams_left_makes_its_calls_one_by_one() {
    let stage = Stage::with("[limits]\nstreams_per_client = 1\n").await;
    let mut talk = Talk::open(&stage.running, None).await.unwrap();
    talk.send(vec![take(1, "t1/default/a")]);
    assert!(is_granted(&talk.hear(1).await[0]));
    let status = Talk::open(&stage.running, None).await.map(drop).unwrap_err();
    assert_eq!(status.get_details_error_info().unwrap().reason, "limit_reached");
    let store = stage.store("").await.unwrap();
    let claim = claim("t1/default/b", "o");
    for _ in 0..3 {
        assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    }
    drop(talk);
}

/// A server on a store that fails on command.
async fn faulty() -> (Running, Faults) {
    let memory = tenure::stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
    let faults = Faults::new(memory);
    let store: Arc<dyn Store> = Arc::new(faults.clone());
    let config = Config::parse("listen = '127.0.0.1:0'\ndefault_store = 'main'\n").unwrap();
    let stores = BTreeMap::from([("main".to_owned(), store)]);
    (Running::start_with(config, stores).await.unwrap(), faults)
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let work = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    within(&SystemClock, SOON, work).await.expect("it takes too long");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_down_answers_what_is_under_way() {
    let (running, faults) = faulty().await;
    faults.next(Operation::Acquire, Fault::Delay(Duration::from_millis(300)));
    let mut talk = Talk::open(&running, None).await.unwrap();
    talk.send(vec![take(1, "t1/default/a")]);
    until(|| faults.calls(Operation::Acquire) == 1).await;
    let end = tokio::spawn(running.shutdown());
    assert!(is_granted(&talk.hear(1).await[0]));
    let ended = talk.next().await.unwrap_err();
    assert_eq!(ended.get_details_error_info().unwrap().reason, "shutting_down");
    within(&SystemClock, SOON, end).await.expect("it does not end").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_and_not_answered_may_have_been_done() {
    let (running, faults) = faulty().await;
    let proxy = Proxy::start(running.address(), 1).await.unwrap();
    let url = format!("tenure://{}?connections=1", proxy.address());
    let store = tenure::stores::open(&url, Arc::new(SystemClock)).await.unwrap();
    faults.next(Operation::Acquire, Fault::Delay(Duration::from_secs(3)));
    let asked = claim("t1/default/a", "o");
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.try_acquire(&asked).await }
    });
    until(|| faults.calls(Operation::Acquire) == 1).await;
    proxy.reset();
    let error = within(&SystemClock, SOON, call).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // The next stream is opened by itself.
    let next = store.try_acquire(&claim("t1/default/b", "o")).await.unwrap();
    assert!(matches!(next, Attempt::Granted(_)));
    assert!(store.inspect(&key("t1/default/b")).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_or_slow_disturbs_no_other() {
    let (running, faults) = faulty().await;
    let url = format!("tenure://{}?connections=1", running.address());
    let store = tenure::stores::open(&url, Arc::new(SystemClock)).await.unwrap();
    faults.next(Operation::Acquire, Fault::Delay(Duration::from_secs(2)));
    let slow = tokio::spawn({
        let (store, slow) = (Arc::clone(&store), claim("t1/default/slow", "o"));
        async move { store.try_acquire(&slow).await }
    });
    until(|| faults.calls(Operation::Acquire) == 1).await;
    let work = (0..500).map(|n| {
        let store = Arc::clone(&store);
        async move {
            let claim = claim(&format!("t1/default/k{n}"), "o");
            if n % 3 == 0 {
                let limit = Duration::from_micros(n);
                let _ = within(&SystemClock, limit, store.try_acquire(&claim)).await;
                return;
            }
            let granted = store.try_acquire(&claim).await.unwrap();
            let Attempt::Granted(lease) = granted else { panic!("{granted:?}") };
            assert_eq!(lease.key, claim.key, "an answer to another question");
            let grant = Grant { key: lease.key, owner: lease.owner, fence: Some(lease.fence) };
            store.release(&grant).await.unwrap();
        }
    });
    within(&SystemClock, SOON, join_all(work)).await.expect("it takes too long");
    assert!(!slow.is_finished(), "it was waited for");
    let granted = slow.await.unwrap().unwrap();
    assert!(matches!(granted, Attempt::Granted(lease) if lease.key == key("t1/default/slow")));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_calls_of_a_store_are_on_one_stream_for_each_connection() {
    let stage = Stage::with("[limits]\nstreams_per_client = 100\n").await;
    let store = stage.store("?connections=3").await.unwrap();
    let claims = (0..300).map(|n| claim(&format!("t1/default/k{n}"), "o"));
    let claims: Vec<_> = claims.collect();
    futures_util::stream::iter(&claims)
        .for_each_concurrent(None, async |claim| {
            store.try_acquire(claim).await.unwrap();
        })
        .await;
    let caller = tenure_server::Identity::unrestricted("test");
    let caller = tenure_server::Caller { identity: caller, peer: None };
    let text = stage.running.api().metrics(&caller).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("tenure_open_streams "));
    assert_eq!(line, Some("3"), "{text}");
}

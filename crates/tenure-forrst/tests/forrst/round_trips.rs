//! What a lock costs: counted at the store.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::clock::SystemClock;
use tenure::{Locks, Operation, stores};
use tenure_testkit::faults::Faults;

use crate::stage::{Stage, lock};

fn asked(store: &Faults) -> u64 {
    [Operation::Acquire, Operation::Renew, Operation::Release, Operation::Inspect, Operation::Watch]
        .into_iter()
        .map(|operation| store.calls(operation))
        .sum()
}

#[tokio::test]
async fn a_locked_call_costs_two_round_trips_more_than_another() {
    let memory = stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
    let store = Arc::new(Faults::new(memory));
    let locks = Locks::builder().open_on(Arc::clone(&store) as _).await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    let before = asked(&store);
    stage.call("payments.charge", json!({}), Value::Null).await;
    assert_eq!(asked(&store), before);
    for call in 1..=10 {
        let answer = stage.call("payments.charge", json!({}), lock(json!({}))).await;
        assert_eq!(answer.status, 200);
        assert_eq!(asked(&store) - before, 2 * call);
    }
}

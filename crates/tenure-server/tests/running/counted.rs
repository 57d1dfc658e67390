//! What is counted: the locks of a client, and the hand-offs of a server.

use std::time::Duration;

use tenure_api::Code;
use tenure_server::api::{Order, Renewal};

use super::stage::{anyone, order, place, soon, start, until};

fn own(key: &str, ttl: Duration) -> Order {
    Order { renewal: Renewal::Client, ttl: Some(ttl), ..order(key) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_counts_whoever_renews_it() {
    let running = start("limits.locks_per_client = 2").await;
    let (api, caller) = (running.api(), anyone());
    let long = Duration::from_secs(60);
    let first = api.lock(&caller, &own("1", long)).await.unwrap();
    api.lock(&caller, &order("2")).await.unwrap();
    for refused in [own("3", long), order("3")] {
        let failure = api.lock(&caller, &refused).await.unwrap_err();
        assert_eq!(failure.code, Code::LimitReached);
    }
    api.unlock(&caller, &place("1"), &first.lock_id).await.unwrap();
    api.lock(&caller, &own("3", long)).await.unwrap();
    api.force_unlock(&caller, &place("3"), "test").await.unwrap();
    api.lock(&caller, &own("4", long)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_its_client_lets_go_no_longer_counts() {
    let running = start("limits.locks_per_client = 1").await;
    let (api, caller) = (running.api(), anyone());
    let short = Duration::from_millis(200);
    let granted = api.lock(&caller, &own("1", short)).await.unwrap();
    let long = Some(Duration::from_secs(3600));
    api.renew(&caller, &place("1"), &granted.lock_id, long).await.unwrap();
    tokio::time::sleep(short * 2).await;
    let failure = api.lock(&caller, &own("2", short)).await.unwrap_err();
    assert_eq!(failure.code, Code::LimitReached, "it was renewed");
    api.unlock(&caller, &place("1"), &granted.lock_id).await.unwrap();
    api.lock(&caller, &own("2", short)).await.unwrap();
    let again = async { while api.lock(&caller, &own("3", short)).await.is_err() {} };
    soon(again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_goes_to_whoever_waited_is_a_handoff() {
    let running = start("").await;
    let (api, caller) = (std::sync::Arc::clone(running.api()), anyone());
    let handoffs = || {
        let text = api.metrics(&anyone()).unwrap();
        let line = text.lines().find(|line| line.starts_with("tenure_handoffs_total ")).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let grants = || api.metrics(&anyone()).unwrap().contains("tenure_grants_total 4");
    // One after the other is none.
    for _ in 0..2 {
        let granted = api.lock(&caller, &order("k")).await.unwrap();
        api.unlock(&caller, &place("k"), &granted.lock_id).await.unwrap();
    }
    let granted = api.lock(&caller, &order("k")).await.unwrap();
    let (other, asked) = (std::sync::Arc::clone(&api), order("k"));
    let waiting = tokio::spawn(async move { other.lock(&anyone(), &asked).await.unwrap() });
    let locks = api.rooms().locks("", "default").await.unwrap();
    until(|| locks.waiters("k") == 1).await;
    assert_eq!(handoffs(), 0);
    api.unlock(&caller, &place("k"), &granted.lock_id).await.unwrap();
    soon(waiting).await.unwrap();
    until(grants).await;
    until(|| handoffs() == 1).await;
}

//! What clients do by themselves is counted, told and written down like everything else.

use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tenure::clock::{SystemClock, within};
use tenure::{Event, EventKind, Fence, LostReason};
use tenure_server::api::Place;
use tenure_server::{Caller, Identity};

use crate::stage::Stage;

const SOON: Duration = Duration::from_secs(10);

fn caller() -> Caller {
    Caller { identity: Identity::unrestricted("test"), peer: None }
}

async fn next(events: &mut (impl Stream<Item = Event> + Unpin)) -> (String, EventKind) {
    let event = within(&SystemClock, SOON, events.next()).await.expect("nothing was told").unwrap();
    (event.key.to_string(), event.kind)
}

fn counted(stage: &Stage, name: &str) -> u64 {
    let text = stage.running.api().metrics(&caller()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |number| number.parse().unwrap())
}

#[tokio::test]
async fn what_happens_is_told_and_counted() {
    let stage = Stage::new().await;
    let place = Place { namespace: "jobs".into(), key: "k".into(), ..Place::default() };
    let mut events = pin!(stage.running.api().events(&caller(), &place).await.unwrap());
    let locks = stage.locks_in("jobs").await;
    stage.locks_in("other").await.lock("k").acquire().await.unwrap().release().await.unwrap();
    locks.lock("unheard").acquire().await.unwrap().release().await.unwrap();

    let guard = locks.lock("k").acquire().await.unwrap();
    let fence = guard.fence();
    assert_eq!(next(&mut events).await, ("k".into(), EventKind::Granted { fence, waited: None }));
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    assert!(matches!(next(&mut events).await.1, EventKind::Contended { waited: None, .. }));
    locks.renew("k", guard.owner(), Duration::from_secs(60)).await.unwrap();
    assert!(matches!(next(&mut events).await.1, EventKind::Renewed { .. }));
    locks.force_release("k", "its host is gone").await.unwrap();
    let forced = EventKind::Forced { fence, reason: "its host is gone".into() };
    assert_eq!(next(&mut events).await.1, forced);
    locks.renew("k", guard.owner(), Duration::from_secs(60)).await.unwrap_err();
    let lost = EventKind::Lost { fence: Fence::new(0), reason: LostReason::Refused, held: None };
    assert_eq!(next(&mut events).await.1, lost);
    locks.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert!(matches!(next(&mut events).await.1, EventKind::Granted { .. }));
    assert!(matches!(next(&mut events).await.1, EventKind::Released { held: None, .. }));

    assert_eq!(counted(&stage, "tenure_grants_total"), 4);
    assert_eq!(counted(&stage, "tenure_contended_total"), 1);
    assert_eq!(counted(&stage, "tenure_renewals_total"), 1);
    assert_eq!(counted(&stage, "tenure_forced_total"), 1);
    assert_eq!(counted(&stage, "tenure_releases_total"), 3);
    assert_eq!(counted(&stage, r#"tenure_losses_total{reason="refused"}"#), 1);
    assert_eq!(counted(&stage, "tenure_wait_seconds_count"), 0, "how long is not known here");
}

#[tokio::test]
async fn the_reason_of_a_force_is_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let stage = Stage::with(&format!("[audit]\nfile = '{}'\n", file.display())).await;
    let locks = stage.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    locks.force_release("k", "its host is gone").await.unwrap().unwrap();
    drop(guard);
    let text = std::fs::read_to_string(file).unwrap();
    for call in ["force_release_asked", "force_release"] {
        let line = text.lines().find(|line| line.contains(&format!("\"call\":\"{call}\"")));
        let line = line.unwrap_or_else(|| panic!("{call} is not in {text}"));
        assert!(line.contains(r#""reason":"its host is gone""#), "{line}");
    }
}

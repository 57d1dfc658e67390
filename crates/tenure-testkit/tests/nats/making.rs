//! A bucket that is gone and made again is another bucket.

use async_nats::jetstream::{kv, stream};
use tenure::claim::{Attempt, Claim, Renewal, Renewed};
use tenure::{Fence, Lease, Owner, Store};
use tenure_testkit::servers::nats::Nats;
use tenure_testkit::wait::until;

use crate::raw::{BUCKET, SOON, claim, grant, ms, newest, old, open, raw, take, url};

/// Who makes the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Tenure,
    Someone,
}

impl Maker {
    async fn open(self, server: &Nats) -> std::sync::Arc<dyn Store> {
        if self == Self::Someone {
            let storage = stream::StorageType::Memory;
            let config = kv::Config { bucket: BUCKET.into(), storage, ..Default::default() };
            raw(server).await.create_key_value(config).await.unwrap();
        }
        let in_memory = url(server).replace("&sync=always", "") + "&storage=memory";
        open(&in_memory).await.unwrap()
    }
}

async fn take_as_another(store: &dyn Store) -> Lease {
    let another = Claim { owner: Owner::parse("worker-8").unwrap(), ..claim("k", ms(60_000)) };
    match store.try_acquire(&another).await.unwrap() {
        Attempt::Granted(lease) => lease,
        Attempt::Held(status) => panic!("held: {status:?}"),
    }
}

/// The server dies, and with it a bucket in memory. Where the new one counts from one, the lease of
/// another stands under the very sequence that the first knows as its own.
#[tokio::test]
async fn a_holder_from_before_does_not_write_over_one_of_now() {
    for (server, maker) in
        [(newest(), Maker::Tenure), (newest(), Maker::Someone), (old(), Maker::Tenure)]
    {
        let before = maker.open(&server).await;
        let lost = take(&*before, "k", ms(60_000)).await;
        server.process().kill().unwrap();
        server.process().start_again().unwrap();
        let now = maker.open(&server).await;
        let held = take_as_another(&*now).await;
        let counts_from_one = lost.fence == Fence::new(1);
        assert!(if counts_from_one { held.fence == lost.fence } else { held.fence > lost.fence });
        let renewal = Renewal { grant: grant(&lost), ttl: ms(60_000) };
        until("the first to be refused", SOON, || async {
            // Until it is connected again, nothing is known.
            let Ok(renewed) = before.renew(&renewal).await else { return Ok(false) };
            assert!(matches!(renewed, Renewed::Lost(Some(_))), "{maker:?}: {renewed:?}");
            Ok(true)
        })
        .await
        .unwrap();
        let stands = now.inspect(&held.key).await.unwrap().unwrap();
        assert_eq!((stands.owner, stands.fence), (held.owner, held.fence), "{maker:?}");
    }
}

#[tokio::test]
async fn fences_go_on_where_tenure_makes_the_bucket_again() {
    let server = newest();
    let first = take(&*open(&url(&server)).await.unwrap(), "k", ms(60_000)).await;
    raw(&server).await.delete_stream(format!("KV_{BUCKET}")).await.unwrap();
    let second = take(&*open(&url(&server)).await.unwrap(), "k", ms(60_000)).await;
    assert!(second.fence > first.fence, "{} after {}", second.fence, first.fence);
}

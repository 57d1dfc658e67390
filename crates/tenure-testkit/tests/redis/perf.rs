use crate::stage::*;
use tenure::clock::{Clock, SystemClock};
#[tokio::test]
async fn perf() {
    let server = if std::env::var("SURE").is_ok() { sure() } else { fast() };
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
    let sha: String = ask(&mut raw, &["SCRIPT", "LOAD", script]).await;
    let (c, g) = (
        claim("job", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        grant("job", "0f8fad5b-d9cb-469f-a165-70867728950e"),
    );
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..4000 {
        let t = SystemClock.now();
        let _: redis::Value = ask(
            &mut raw,
            &["SET", "raw", "0f8fad5b-d9cb-469f-a165-70867728950e", "NX", "PX", "30000"],
        )
        .await;
        let _: i64 =
            ask(&mut raw, &["EVALSHA", &sha, "1", "raw", "0f8fad5b-d9cb-469f-a165-70867728950e"])
                .await;
        a.push(SystemClock.now().since(t));
        let t = SystemClock.now();
        store.try_acquire(&c).await.unwrap();
        store.release(&g).await.unwrap();
        b.push(SystemClock.now().since(t));
    }
    a.sort();
    b.sort();
    for p in [10, 50, 90, 99] {
        println!(
            "p{p}: raw {:?} ours {:?} ratio {:.2}",
            a[a.len() * p / 100],
            b[b.len() * p / 100],
            b[b.len() * p / 100].as_secs_f64() / a[a.len() * p / 100].as_secs_f64()
        );
    }
    println!("{}", ask::<String>(&mut raw, &["INFO", "commandstats"]).await);
}

//! Object storage: what is refused, what is counted, and what two clocks make of it.

#![allow(clippy::unwrap_used)]

#[path = "object/damage.rs"]
mod damage;
#[path = "object/probing.rs"]
mod probing;
#[path = "object/standin.rs"]
mod standin;

use std::future::Future;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use damage::what_cannot_be_read_is_replaced_by_force_and_no_fence_goes_back;
use libtest_mimic::{Arguments, Failed, Trial};
use probing::{
    a_server_that_ignores_conditions_is_refused,
    a_server_that_is_too_busy_to_refuse_is_asked_again,
    a_server_that_lets_nobody_race_is_not_said_to_have_been_raced,
    a_server_that_lets_two_through_at_once_is_refused,
};
use standin::{Fate, Standin};
use tenure::claim::{Attempt, Claim, Grant, Reentry, Released};
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure::store::Class;
use tenure::{Error, ErrorKind, Fence, Holder, Key, Lease, Locks, Owner, Store};
use tenure_testkit::faketime;
use tenure_testkit::role::{Process, Role};
use tenure_testkit::servers::{Kind, Program, Server, fresh_room, kinds, place};
use tenure_testkit::wait::sleep;

const TTL: Duration = Duration::from_millis(1500);

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(8));
    macro_rules! trials {
        ($($test:ident),+ $(,)?) => { vec![$(trial(stringify!($test), $test)),+] };
    }
    let trials = trials![
        a_server_that_ignores_conditions_is_refused,
        a_server_that_lets_two_through_at_once_is_refused,
        a_server_that_lets_nobody_race_is_not_said_to_have_been_raced,
        a_server_that_is_too_busy_to_refuse_is_asked_again,
        what_is_wrong_is_told_at_the_start,
        tls_is_told_from_none_and_a_private_ca_is_trusted,
        clocks_an_hour_off_change_nothing,
        fences_grow_through_release_death_and_a_new_process,
        a_transient_conflict_is_tried_again,
        a_write_without_an_answer_is_found_to_be_ones_own,
        what_a_refusal_means_for_the_lock,
        a_takeover_takes_two_looks_a_ttl_apart,
        a_warm_cycle_is_two_writes_and_no_read,
        writes_keep_their_distance,
        google_is_asked_by_generation,
        what_cannot_be_read_is_replaced_by_force_and_no_fence_goes_back,
        no_secret_shows,
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = Result<()>> + 'static,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Runtime::new().map_err(|e| Failed::from(e.to_string()))?;
        runtime.block_on(test()).map_err(|error| Failed::from(format!("{error:?}")))
    })
}

async fn open(url: &str) -> tenure::Result<Arc<dyn Store>> {
    tenure::stores::open(url, Arc::new(SystemClock)).await
}

async fn refusal(url: &str) -> Result<Error> {
    open(url).await.err().context("opened all the same")
}

fn kind(name: &str) -> Result<Kind> {
    kinds().into_iter().find(|kind| kind.name == name).context("no such kind")
}

async fn room(name: &str) -> Result<String> {
    let kind = kind(name)?;
    let service = tokio::task::spawn_blocking(move || kind.shared()).await??;
    Ok(service.url(fresh_room(), None))
}

fn claim(owner: &str) -> tenure::Result<Claim> {
    Ok(Claim {
        key: Key::new("k")?,
        owner: Owner::parse(owner)?,
        ttl: TTL,
        holder: Holder::new("test")?,
        reentry: Reentry::Adopt,
    })
}

async fn acquire(store: &dyn Store, owner: &str) -> Result<Lease> {
    match store.try_acquire(&claim(owner)?).await? {
        Attempt::Granted(lease) => Ok(lease),
        Attempt::Held(status) => bail!("held: {status:?}"),
    }
}

async fn release(store: &dyn Store, lease: &Lease) -> tenure::Result<Released> {
    let Lease { key, owner, fence, .. } = lease.clone();
    store.release(&Grant { key, owner, fence: Some(fence) }).await
}

fn s3rver(tls: Option<&Path>) -> Result<Server> {
    let script = place::node()?.join("node_modules/s3rver/bin/s3rver.js");
    Server::start("s3rver", |port, folder| {
        let mut arguments = vec![script.into(), "-d".into(), folder.into(), "-a".into()];
        let port_text = port.to_string();
        let plain = ["127.0.0.1", "-p", &port_text, "--no-vhost-buckets"];
        arguments.extend(plain.into_iter().chain(["--configure-bucket", "tenure"]).map(Into::into));
        if let Some(folder) = tls {
            arguments.extend(["--key".into(), folder.join("key.pem").into()]);
            arguments.extend(["--cert".into(), folder.join("cert.pem").into()]);
        }
        Ok(Program {
            path: "node".into(),
            arguments,
            environment: Vec::new(),
            user: None,
            last_signal: "KILL",
            is_ready: Box::new(move || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()),
        })
    })
}

fn s3rver_url(scheme: &str, server: &Server, more: &str) -> String {
    let at = server.address();
    format!(
        "s3://tenure/p?endpoint={scheme}://{at}&access_key_id=S3RVER&secret_access_key=S3RVER{more}"
    )
}

async fn what_is_wrong_is_told_at_the_start() -> Result<()> {
    let good = room("object/seaweedfs").await?;
    let azure = room("object/azurite").await?;
    let closed = "endpoint=http://127.0.0.1:9&";
    let start = good.find("endpoint=").context("no endpoint")?;
    let elsewhere =
        format!("{}{closed}{}", &good[..start], &good[good.find("allow_http").unwrap()..]);
    let http_only = good.replace("&allow_http=true", "");
    for (url, kind, text) in [
        (good.replace("s3://tenure/", "s3://missing/"), ErrorKind::Invalid, "does not exist"),
        (good.replace("a-secret-for", "another-for"), ErrorKind::Denied, "secret key does not"),
        (good.replace("_id=tenure", "_id=nobody"), ErrorKind::Denied, "access key is not known"),
        (elsewhere, ErrorKind::Unavailable, "no connection"),
        (good.replace("http://", "https://"), ErrorKind::Unavailable, "does not speak TLS"),
        (http_only, ErrorKind::Invalid, "no TLS: begin it with https"),
        (azure.replace("az://tenure/", "az://missing/"), ErrorKind::Invalid, "does not exist"),
        (azure.replace("access_key=Eby8", "access_key=Abb8"), ErrorKind::Denied, "answered 403"),
        ("s3://tenure?access_key_id=k".into(), ErrorKind::Invalid, "make no client"),
    ] {
        let before = SystemClock.now();
        let error = refusal(&url).await?;
        let took = SystemClock.now().since(before);
        ensure!(error.kind() == kind && error.to_string().contains(text), "{}", Chain(&error));
        ensure!(took < Duration::from_secs(10), "{text}: it took {took:?}");
    }
    open(&good).await?;
    open(&azure).await?;
    Ok(())
}

async fn tls_is_told_from_none_and_a_private_ca_is_trusted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder.path())
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = folder.path().to_owned();
    let server = tokio::task::spawn_blocking(move || s3rver(Some(&path))).await??;
    let unknown = refusal(&s3rver_url("https", &server, "")).await?;
    ensure!(unknown.kind() == ErrorKind::Denied, "{}", Chain(&unknown));
    ensure!(unknown.to_string().contains("give its CA as option ca"), "{}", Chain(&unknown));
    let plain = refusal(&s3rver_url("http", &server, "&allow_http=true")).await?;
    ensure!(plain.kind() == ErrorKind::Unavailable, "{}", Chain(&plain));
    let ca = format!("&ca={}", folder.path().join("cert.pem").display());
    let trusted = refusal(&s3rver_url("https", &server, &ca)).await?;
    ensure!(trusted.to_string().contains("ignores If-None-Match"), "{}", Chain(&trusted));
    let key = format!("&ca={}", folder.path().join("key.pem").display());
    let none = refusal(&s3rver_url("https", &server, &key)).await?;
    ensure!(none.kind() == ErrorKind::Invalid && none.to_string().contains("option ca"), "{none}");
    Ok(())
}

/// A process that lives an hour before or after the others.
fn shifted(role: &Role, by: &str) -> Result<Process> {
    let library = faketime::library()?;
    let library = library.to_str().context("a path that is no text")?;
    Process::start_in(role, [("LD_PRELOAD", library), ("FAKETIME", by)])
}

async fn clocks_an_hour_off_change_nothing() -> Result<()> {
    let url = room("object/seaweedfs").await?;
    let mut hour = shifted(&Role::Hold { url, key: "k".into(), ttl: TTL }, "+1h")?;
    let refused = hour.line("held ").await.err().context("granted")?.to_string();
    ensure!(refused.contains("time of day is too far off"), "{refused}");
    // These two do not look at the date of a request.
    for name in ["object/ministack", "object/folder"] {
        let url = room(name).await?;
        let hold = Role::Hold { url: url.clone(), key: "k".into(), ttl: TTL };
        let mut last = 0;
        for (holder, waiter) in [("+1h", "-1h"), ("-1h", "+1h")] {
            let mut holder = shifted(&hold, holder)?;
            let fence: u64 = holder.line("held ").await?.parse()?;
            ensure!(fence > last, "{fence} after {last}");
            let mut waiter = shifted(&hold, waiter)?;
            let here = Locks::open(&url).await?;
            let granted = tenure_testkit::wait::bounded("nothing", TTL * 2, waiter.next()).await;
            ensure!(granted.is_err(), "two at once: {granted:?}");
            ensure!(here.status("k").await?.is_some_and(|s| s.fence.get() == fence), "{fence}");
            holder.kill()?;
            let killed = SystemClock.now();
            last = waiter.line("held ").await?.parse()?;
            let took = SystemClock.now().since(killed);
            ensure!(last > fence, "{last} after {fence}");
            ensure!(took < TTL * 3, "taken over only {took:?} after the death");
            waiter.kill()?;
        }
    }
    Ok(())
}

async fn fences_grow_through_release_death_and_a_new_process() -> Result<()> {
    let url = room("object/seaweedfs").await?;
    let mut last = Fence::new(0);
    for _ in 0..3 {
        let locks = Locks::open(&url).await?;
        let guard = locks.lock("k").wait(TTL * 4).acquire().await?;
        ensure!(guard.fence() > last, "{} after {last}", guard.fence());
        last = guard.fence();
        guard.release().await?;
        let mut process =
            Process::start(&Role::Hold { url: url.clone(), key: "k".into(), ttl: TTL })?;
        let fence: u64 = process.line("held ").await?.parse()?;
        ensure!(fence > last.get(), "{fence} after {last}");
        last = Fence::new(fence);
        process.kill()?;
    }
    Ok(())
}

async fn a_transient_conflict_is_tried_again() -> Result<()> {
    let server = Standin::start().await?;
    let store = open(&server.s3("")).await?;
    let conflict = Fate::Refused(409, "ConditionalRequestConflict");
    server.next([conflict; 2]);
    let lease = acquire(&*store, "a").await?;
    ensure!(lease.fence == Fence::new(1), "{lease:?}");
    server.next([conflict; 2]);
    ensure!(matches!(release(&*store, &lease).await?, Released::Released(_)));
    Ok(())
}

async fn a_write_without_an_answer_is_found_to_be_ones_own() -> Result<()> {
    let server = Standin::start().await?;
    let locks = Locks::open(&server.s3("")).await?;
    for fate in [Fate::Unanswered, Fate::MadeAnd(500, "InternalError"), Fate::MadeAnd(503, "")] {
        server.next([fate]);
        let guard = locks.lock("k").try_acquire().await?.context("taken for another's")?;
        let seen = locks.status("k").await?.context("not held")?;
        ensure!(seen.fence == guard.fence() && guard.is_held(), "{fate:?}: {seen:?}");
        server.next([fate]);
        let released = guard.release().await;
        ensure!(released.is_err_and(|e| e.kind() == ErrorKind::Unknown), "{fate:?}: said to know");
        locks.flush().await;
        ensure!(!locks.is_locked("k").await?, "{fate:?}: still locked");
    }
    // Met by itself, as when something on the way sends it twice.
    let store = open(&server.s3("")).await?;
    server.next([Fate::MadeAnd(412, "PreconditionFailed")]);
    ensure!(acquire(&*store, "z").await?.fence == Fence::new(1), "granted twice");
    Ok(())
}

async fn what_a_refusal_means_for_the_lock() -> Result<()> {
    let server = Standin::start().await?;
    let store = open(&server.s3("")).await?;
    for (fate, kind) in [
        (Fate::Refused(503, "SlowDown"), ErrorKind::Unavailable),
        (Fate::Refused(429, "rateLimitExceeded"), ErrorKind::Unavailable),
        (Fate::Refused(403, "AccessDenied"), ErrorKind::Denied),
        (Fate::Refused(404, "NoSuchBucket"), ErrorKind::Invalid),
        (Fate::Refused(500, "InternalError"), ErrorKind::Unknown),
        (Fate::Refused(504, ""), ErrorKind::Unknown),
    ] {
        server.next([fate]);
        let error = store.try_acquire(&claim("a")?).await.err().context("granted")?;
        ensure!(error.kind() == kind, "{fate:?}: {}", Chain(&error));
        ensure!(store.inspect(&Key::new("k")?).await?.is_none(), "{fate:?}: held all the same");
    }
    ensure!(acquire(&*store, "a").await?.fence == Fence::new(1), "a refusal took a number");
    Ok(())
}

async fn a_takeover_takes_two_looks_a_ttl_apart() -> Result<()> {
    let server = Standin::start().await?;
    // Long, so that a slow machine is not taken for a takeover that came too soon.
    let ttl = TTL * 4;
    let claim = |owner| Ok::<_, Error>(Claim { ttl, ..claim(owner)? });
    let first = open(&server.s3("")).await?.try_acquire(&claim("a")?).await?;
    let Attempt::Granted(first) = first else { bail!("held: {first:?}") };
    sleep(ttl).await;
    let cold = open(&server.s3("")).await?;
    let tried = cold.try_acquire(&claim("b")?).await?;
    ensure!(matches!(tried, Attempt::Held(_)), "taken over at first sight: {tried:?}");
    sleep(ttl / 3).await;
    let tried = cold.try_acquire(&claim("b")?).await?;
    ensure!(matches!(tried, Attempt::Held(_)), "taken over too soon: {tried:?}");
    sleep(ttl - ttl / 3).await;
    server.asked();
    let second = acquire(&*cold, "b").await?;
    ensure!(second.fence > first.fence, "{second:?}");
    ensure!(server.asked().len() == 1, "what was seen for long enough needs no other look");
    Ok(())
}

async fn a_warm_cycle_is_two_writes_and_no_read() -> Result<()> {
    let server = Standin::start().await?;
    let locks = Locks::open(&server.s3("")).await?;
    locks.lock("k").acquire().await?.release().await?;
    server.asked();
    for _ in 0..10 {
        locks.lock("k").acquire().await?.release().await?;
    }
    let asked = server.asked();
    let puts = asked.iter().filter(|asked| asked.method == "PUT" && asked.status == 200).count();
    ensure!(asked.len() == 20 && puts == 20, "{} requests, {puts} writes", asked.len());
    Ok(())
}

async fn writes_keep_their_distance() -> Result<()> {
    let server = Standin::start().await?;
    let interval = Duration::from_millis(300);
    let store = open(&server.s3("&write_interval_ms=300")).await?;
    ensure!(store.info().capabilities.ttl_min == interval * 3);
    let locks = Locks::builder().open_on(store).await?;
    server.asked();
    for _ in 0..3 {
        let other = locks.lock("other").acquire().await?;
        locks.lock("k").acquire().await?.release().await?;
        drop(other);
    }
    let writes: Vec<_> = server
        .asked()
        .into_iter()
        .filter(|asked| asked.method == "PUT" && asked.path.ends_with("-2Fk"))
        .map(|asked| asked.at)
        .collect();
    ensure!(writes.len() == 6, "{writes:?}");
    // The server notes a write a little before the client does.
    let bound = interval - Duration::from_millis(5);
    ensure!(writes.windows(2).all(|w| w[1].since(w[0]) >= bound), "{writes:?}");
    Ok(())
}

async fn google_is_asked_by_generation() -> Result<()> {
    let server = Standin::start().await?;
    let quick = "&write_interval_ms=0&probe=full";
    let store = open(&server.gs(quick)).await?;
    let first = acquire(&*store, "a").await?;
    release(&*store, &first).await?;
    let other = open(&server.gs(quick)).await?;
    let second = acquire(&*other, "b").await?;
    ensure!(second.fence > first.fence);
    let held = store.try_acquire(&claim("a")?).await?;
    ensure!(matches!(held, Attempt::Held(_)), "{held:?}");
    let racy = Standin::with_gap(Duration::from_millis(2)).await?;
    let error = refusal(&racy.gs(quick)).await?;
    ensure!(error.to_string().contains("not atomically"), "{error}");
    let paced = open(&server.gs("")).await?.info().clone();
    ensure!(paced.capabilities.ttl_min == Duration::from_secs(3));
    ensure!(paced.class == Class::Fenced, "another's endpoint is raced, too: {:?}", paced.findings);
    let unraced = open(&server.gs("&write_interval_ms=0&probe=quick")).await?.info().clone();
    ensure!(unraced.class == Class::Efficiency, "{:?}", unraced.findings);
    Ok(())
}

async fn no_secret_shows() -> Result<()> {
    let server = Standin::start().await?;
    let store = open(&server.s3("")).await?;
    let owner = "an owner's secret";
    let lease = acquire(&*store, owner).await?;
    let mut shown = format!("{store:?} {:?}", store.info());
    for fate in [
        Fate::Refused(403, "SignatureDoesNotMatch"),
        Fate::Refused(500, "InternalError"),
        Fate::Unanswered,
    ] {
        server.next([fate]);
        let error = release(&*store, &lease).await.err().context("released")?;
        shown.push_str(&format!("{error:?} {}", Chain(&error)));
    }
    let away = server.s3("");
    drop(server);
    sleep(Duration::from_millis(50)).await;
    let error = refusal(&away).await?;
    shown.push_str(&format!("{error:?} {}", Chain(&error)));
    let as_bytes = format!("{:?}", owner.as_bytes());
    for secret in ["hush", owner, as_bytes.trim_matches(['[', ']'])] {
        ensure!(!shown.contains(secret), "{shown}");
    }
    Ok(())
}

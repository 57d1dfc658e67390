//! What comes in with a call of Forrst's, under a lock and without one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{OWNER, TOKEN, is_silent, server, server_with, written};

/// A Forrst server in Python, which ends with this.
struct Upstream(Child);

impl Upstream {
    /// It, and where it listens.
    fn start() -> (Self, String) {
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tenure-forrst/tests/gateway/upstream.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Self(child), format!("http://127.0.0.1:{}/rpc", line.trim()))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A call of Forrst's under a lock, with these options for its owner and besides.
fn locked(options: &str) -> String {
    format!(
        r#"{{"protocol": {{"name": "forrst", "version": "0.1.0"}}, "id": "1", "call": {{
        "function": "test.echo", "arguments": {{}}}}, "extensions": [{{
        "urn": "urn:forrst:ext:atomicLock", "options": {{"key": "k", {options}}}}}]}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_owner_of_a_call_of_forrst_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, url) = Upstream::start();
    let server = server_with(folder.path(), &format!("[forrst]\nupstream = '{url}'"));
    server.channel().await;
    let ttl = r#""ttl": {"value": 30, "unit": "second"}"#;
    let release = "urn:cline:forrst:ext:atomic-lock:fn:release";
    let release = forrst(release, r#""key": "lock:test.echo:k","#);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let mut said = String::new();
    for (body, told) in [
        (locked(&format!(r#""owner": "{OWNER}", "auto_release": false, {ttl}"#)), "granted"),
        (locked(&format!(r#""owner": "{OWNER}", {ttl}"#)), "LOCK_ACQUISITION_FAILED"),
        (locked(&format!(r#""owner": "canary-other-owner", {ttl}"#)), "LOCK_ACQUISITION_FAILED"),
        (
            locked(&format!(
                r#""owner": "{OWNER}", "block": {{"value": 500, "unit": "millisecond"}}, {ttl}"#
            )),
            "LOCK_TIMEOUT",
        ),
        (locked(&format!(r#""owner": "{OWNER}", "ttl": 30"#)), "INVALID_ARGUMENTS"),
        (locked(&format!(r#""owner": ["{OWNER}"], {ttl}"#)), "INVALID_ARGUMENTS"),
        (locked(&format!(r#""owner": "{}", {ttl}"#, OWNER.repeat(99))), "INVALID_ARGUMENTS"),
        (locked(&format!(r#""owner": "{OWNER}", "owner": "x", {ttl}"#)), "INVALID_REQUEST"),
        (release, "released"),
    ] {
        let json = "content-type: application/json";
        let answer = server.curl("/forrst", &["-H", &bearer, "-H", json, "--data", &body]);
        // Whoever chose the owner is told it back with the grant, and only there.
        let answer = answer.replacen(&format!(r#""owner":"{OWNER}""#), "granted", 1);
        assert!(answer.contains(told), "{told} in {answer}");
        said += &answer;
        said.push('\n');
    }
    assert_eq!(said.matches("granted").count(), 1, "{said}");
    is_silent(&(said + &written(&server, folder.path())));
}

/// A call of Forrst's, with an owner among its arguments as a client sends it.
fn forrst(function: &str, arguments: &str) -> String {
    format!(
        r#"{{"protocol": {{"name": "forrst", "version": "0.1.0"}}, "id": "1", "call": {{
        "function": "{function}", "arguments": {{{arguments} "owner": "{OWNER}"}}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_client_of_forrst_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    server.channel().await;
    let release = forrst("urn:cline:forrst:ext:atomic-lock:fn:release", r#""key": "lock:x","#);
    let status = forrst("urn:cline:forrst:ext:atomic-lock:fn:status", r#""key": "lock:x","#);
    let nothing = forrst("nothing.here", "");
    let cut = &release[..release.len() - 4];
    let (right, wrong) = (TOKEN.to_owned(), format!("{TOKEN}x"));
    let mut said = String::new();
    for (token, body) in [
        (&right, &*release),
        (&right, &status),
        (&right, &nothing),
        (&right, cut),
        (&wrong, &release),
    ] {
        let bearer = format!("authorization: Bearer {token}");
        let json = "content-type: application/json";
        said += &server.curl("/forrst", &["-H", &bearer, "-H", json, "--data", body]);
        said.push('\n');
    }
    let parts = ["LOCK_NOT_FOUND", "locked", "FUNCTION_NOT_FOUND", "PARSE_ERROR"];
    for part in parts.into_iter().chain(["unauthenticated"]) {
        assert!(said.contains(part), "{part} in {said}");
    }
    is_silent(&(said + &written(&server, folder.path())));
}

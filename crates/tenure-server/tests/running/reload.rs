//! A configuration that is read anew never opens a door that was closed.

use tenure_server::Running;
use tenure_server::config::Config;

use super::stage::{DIGEST, ask, config, guarded, start};

async fn status(running: &Running, token: &str) -> u16 {
    let headers = format!("host: x\r\n{token}");
    let reply = ask(running, "POST /v1/locks/k", &headers, r#"{"wait": "0s"}"#).await;
    reply.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_token_is_not_taken_away() {
    let running = start(&guarded("['acquire']")).await;
    assert_eq!(status(&running, "").await, 401);
    for broken in ["", "[log]\nformat = 'json'"] {
        let failure = running.reload(&config(broken)).unwrap_err();
        assert!(failure.message.contains("let everybody in"), "{failure}");
    }
    assert_eq!(status(&running, "").await, 401);
    assert_eq!(status(&running, "authorization: Bearer s3cret\r\n").await, 201);
    let open = "[anonymous]\ngrants = [{ namespace = '*', verbs = ['acquire'] }]";
    running.reload(&config(open)).unwrap();
    assert_eq!(status(&running, "").await, 409, "what is said is meant");
    assert!(running.reload(&config("")).is_err(), "what was said is not forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_open_may_stay_open_or_be_closed() {
    let running = start("").await;
    running.reload(&config("")).unwrap();
    running.reload(&config(&guarded("['acquire']"))).unwrap();
    assert_eq!(status(&running, "").await, 401);
    assert!(running.reload(&config("")).is_err(), "it is closed now");
}

/// The address is checked as it is, also when the file says nothing about it any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_started_cannot_be_read_anew() {
    let text = format!(
        "listen = '0.0.0.0:0'\nstores.main.url = 'memory:'\ninsecure = true\n[[tokens]]\n\
         name = 'a'\nsha256 = '{DIGEST}'\n"
    );
    let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
    let broken = text.replace("insecure = true\n", "").replace("listen = '0.0.0.0:0'\n", "");
    let failure = running.reload(&Config::parse(&broken).unwrap()).unwrap_err();
    assert!(failure.message.contains("which others can reach"), "{failure}");
    let certificate = format!("{text}[[certificates]]\nname = 'a'\n");
    let failure = running.reload(&Config::parse(&certificate).unwrap()).unwrap_err();
    assert!(failure.message.contains("client_ca"), "{failure}");
    running.reload(&Config::parse(&text).unwrap()).unwrap();
}

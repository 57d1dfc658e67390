//! `tenure serve`: what it is told, and what it makes of that before it serves.

use rustix::process::Signal;

use crate::sandbox::{Ran, Sandbox, send, until_said};

#[tokio::test]
async fn a_check_is_not_in_the_way_of_a_server() {
    let sandbox = Sandbox::new();
    let mut server = sandbox.tenure(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let said = until_said(&mut server, "serving on http://").await;
    let address = said.split("http://").nth(1).unwrap().trim();
    let ran = sandbox.run(&["serve", "--check", "--listen", address]).await;
    ran.expect(0, &["the configuration is good"]);
    assert!(!ran.stderr.contains("serving"), "{ran:?}");
    let ran = sandbox.run(&["serve", "--listen", address]).await;
    ran.expect(64, &["cannot be listened on"]);
    send(&server, Signal::TERM);
    Ran::of(server).await.expect(0, &[]);
}

#[tokio::test]
async fn a_check_finds_what_is_wrong() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["serve", "--check", "--listen", "0.0.0.0:1"]).await;
    ran.expect(64, &["which others can reach"]);
    let lost = "file:/no/such/folder/locks.db";
    let ran = sandbox.run(&["serve", "--check", "--store", lost]).await;
    ran.expect(69, &["lockstore"]);
}

/// Two that each name a store do not agree where the locks are.
#[tokio::test]
async fn a_store_is_named_once() {
    let sandbox = Sandbox::new();
    let config = sandbox.path("tenure.toml");
    std::fs::write(&config, "stores.main.url = 'memory:'\n").unwrap();
    let check = ["serve", "--check", "--config", config.to_str().unwrap()];
    let said = ["[stores]", "TENURE_STORE", "leave one of them out"];
    sandbox.run(&check).await.expect(64, &said);
    let by_flag = [&check[..], &["--store", "memory:"]].concat();
    let mut without = sandbox.tenure(&by_flag);
    let child = without.env_remove("TENURE_STORE").spawn().unwrap();
    Ran::of(child).await.expect(64, &said);
    let child = sandbox.tenure(&check).env_remove("TENURE_STORE").spawn().unwrap();
    Ran::of(child).await.expect(0, &["the configuration is good"]);
    std::fs::write(&config, "limits.ping = '1s'\n").unwrap();
    sandbox.run(&check).await.expect(0, &["the configuration is good"]);
}

#[tokio::test]
async fn every_flag_and_variable_is_documented() {
    let document = include_str!("../../../../deploy/tenure.toml");
    let (head, _) = document.split_once("\n\n").unwrap();
    let ran = Sandbox::new().run(&["serve", "--help"]).await;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words = ran.stdout.split(|c: char| !is_name(c)).map(|word| word.trim_end_matches('-'));
    let told = words.filter(|word| word.starts_with("--") && *word != "--help");
    let variables =
        ran.stdout.split("[env: ").skip(1).filter_map(|text| text.split(['=', ']']).next());
    let all: Vec<_> = told.chain(variables).collect();
    assert!(all.contains(&"--listen") && all.contains(&"TENURE_LISTEN"), "{ran:?}");
    for name in all {
        assert!(head.contains(&format!("| {name} ")), "{name} is missing");
    }
}

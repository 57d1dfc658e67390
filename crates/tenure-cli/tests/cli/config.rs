//! `tenure config`: which settings are in force.

use crate::sandbox::{Ran, Sandbox, json};

#[tokio::test]
async fn the_default_store_is_named_and_not_made() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["config"]);
    let ran = Ran::of(command.env_remove("TENURE_STORE").spawn().unwrap()).await;
    ran.expect(0, &[]);
    let folder = sandbox.path(".local/share/tenure");
    let url = format!("file:{}", folder.join("locks.db").display());
    assert_eq!(
        ran.stdout,
        format!(
            "store          {url} (the default store)\n\
             namespace      default (the default)\n\
             data_folder    {} (HOME)\n\
             default_store  {url} (the data folder)\n",
            folder.display()
        )
    );
    assert!(!sandbox.path(".local").exists());
}

#[tokio::test]
async fn each_setting_says_where_it_comes_from() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["config", "--json", "--namespace", "team"]);
    command.env("XDG_DATA_HOME", sandbox.path("data")).env("TENURE_LOG", "debug");
    let ran = Ran::of(command.spawn().unwrap()).await;
    ran.expect(0, &[]);
    let config = json(&ran.stdout);
    let setting = |name: &str| {
        let text = |member: &str| config[name][member].as_str().map(str::to_owned);
        (text("value"), text("from"))
    };
    let is = |value: &str, from: &str| (Some(value.to_owned()), Some(from.to_owned()));
    assert_eq!(setting("store"), is(&sandbox.url(), "TENURE_STORE"));
    assert_eq!(setting("namespace"), is("team", "--namespace"));
    let folder = sandbox.path("data/tenure").display().to_string();
    assert_eq!(setting("data_folder"), is(&folder, "XDG_DATA_HOME"));
    assert_eq!(setting("TENURE_LOG"), is("debug", "the environment"));
    assert_eq!(setting("TENURE_LISTEN"), (None, None));
}

#[tokio::test]
async fn no_secret_is_shown() {
    let sandbox = Sandbox::new();
    for words in [&["config"][..], &["config", "--json"]] {
        let mut command = sandbox.tenure(words);
        for name in ["TENURE_OWNER", "TENURE_TOKEN"] {
            command.env(name, "hunter2");
        }
        command.env("TENURE_STORE", "redis://me:hunter2@host/?password=hunter2");
        let ran = Ran::of(command.spawn().unwrap()).await;
        ran.expect(0, &[]);
        assert!(ran.stdout.contains("redis") && ran.stdout.contains("TENURE_TOKEN"), "{ran:?}");
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
    }
    sandbox.run(&["config", "--store", "hunter2"]).await.expect(64, &["must be a URL"]);
}

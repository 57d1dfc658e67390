//! With no store named, one of the user's own is used.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Ran, Sandbox};

#[tokio::test]
async fn the_store_is_made_in_the_data_folder_for_this_user_alone() {
    let sandbox = Sandbox::new();
    for (variable, folder, made) in
        [("XDG_DATA_HOME", "data", "data/tenure"), ("HOME", "home", "home/.local/share/tenure")]
    {
        let mut command = sandbox.tenure(&["run", "k", "-v", "--", "true"]);
        command.env_remove("TENURE_STORE").env(variable, sandbox.path(folder));
        let file = sandbox.path(made).join("locks.db");
        let said = format!("store file:{}\n", file.display());
        Ran::of(command.spawn().unwrap()).await.expect(0, &[&said, "holding \"k\" (fence 1)"]);
        assert!(file.is_file());
        let mode = std::fs::metadata(sandbox.path(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{made}");
    }
}

#[tokio::test]
async fn without_a_home_a_store_must_be_named() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["run", "k", "--", "true"]);
    command.env_remove("TENURE_STORE").env_remove("HOME");
    Ran::of(command.spawn().unwrap()).await.expect(64, &["HOME is not set", "--store"]);
}

#[tokio::test]
async fn an_option_comes_before_the_variable_and_the_variable_before_the_default() {
    let sandbox = Sandbox::new();
    let other = format!("file:{}", sandbox.path("other.db").display());
    sandbox.run(&["run", "k", "--store", &other, "--", "true"]).await.expect(0, &[]);
    assert!(sandbox.path("other.db").exists() && !sandbox.path("locks.db").exists());
    sandbox.run(&["run", "k", "--", "true"]).await.expect(0, &[]);
    assert!(sandbox.path("locks.db").exists() && !sandbox.path(".local").exists());
}

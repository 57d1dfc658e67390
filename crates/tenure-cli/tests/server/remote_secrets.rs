//! The same of a client by `tenure://`, whose calls share a stream: neither the server nor the
//! client's own errors tell what it keeps.

use tenure::{ErrorKind, Locks, Owner};

use super::secrets::{OWNER, TOKEN, is_silent, server, written};

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_client_of_the_store_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    server.channel().await;
    // The server hashes the keys of its own namespace; this client's are plain.
    let open = async |token: &str| {
        let url = format!("tenure://127.0.0.1:{}?token={token}", server.port);
        Locks::builder().namespace("plain").open(&url).await
    };
    let locks = open(TOKEN).await.unwrap();
    let (owner, wrong) = (Owner::parse(OWNER).unwrap(), Owner::parse("canary-wrong").unwrap());
    let guard = locks.lock("k").owner(owner.clone()).acquire().await.unwrap();
    let mut said = format!("{locks:?} {guard:?}");
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    said += &format!("{:?} {:?}", locks.status("k").await, locks.inspect("k").await);
    let refused = locks.release("k", &wrong).await.unwrap_err();
    guard.release().await.unwrap();
    let gone = locks.release("k", &owner).await.unwrap_err();
    let stranger = open(&format!("{TOKEN}x")).await.unwrap_err();
    let errors = [refused, gone, stranger];
    let kinds = [ErrorKind::WrongOwner, ErrorKind::NotFound, ErrorKind::Denied];
    assert_eq!(errors.each_ref().map(tenure::Error::kind), kinds, "{errors:?}");
    said += &format!("{errors:?} {}", errors.each_ref().map(ToString::to_string).join(" "));
    is_silent(&(said + &written(&server, folder.path())));
}

use super::super::boot::Boot;
use super::*;
use crate::ErrorKind;

fn boot(id: &str, time_namespace: &str) -> Boot {
    Boot { id: id.into(), time_namespace: time_namespace.into() }
}

async fn open_in(path: &Path, boot: Boot) -> crate::Result<FileStore> {
    FileStore::open_with(path.to_str().unwrap(), boot).await
}

#[tokio::test]
async fn another_boot_gives_every_lease_its_full_ttl_again() {
    let (_folder, path) = temporary();
    let store = open_in(&path, boot("one", "time:[1]")).await.unwrap();
    granted(&store, &claim("gone", "a", 500)).await;
    pause(300).await;
    close(store).await;

    let same = open_in(&path, boot("one", "time:[1]")).await.unwrap();
    let left = same.inspect(&key("gone")).await.unwrap().unwrap().remaining;
    assert!(left <= Duration::from_millis(200), "not re-armed within one boot: {left:?}");
    close(same).await;

    let next = open_in(&path, boot("two", "time:[2]")).await.unwrap();
    let left = next.inspect(&key("gone")).await.unwrap().unwrap().remaining;
    assert!(left > Duration::from_millis(250), "re-armed after a reboot: {left:?}");
    assert!(is_held(&next, &claim("gone", "b", 500)).await);
    close(next).await;

    pause(250).await;
    let again = open_in(&path, boot("two", "time:[2]")).await.unwrap();
    let left = again.inspect(&key("gone")).await.unwrap().map(|lease| lease.remaining);
    assert!(left.is_none_or(|left| left < Duration::from_millis(250)), "once only: {left:?}");
}

#[tokio::test]
async fn two_time_namespaces_of_one_boot_are_refused() {
    let (_folder, path) = temporary();
    let store = open_in(&path, boot("one", "time:[1]")).await.unwrap();
    let error = open_in(&path, boot("one", "time:[2]")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("time namespaces"), "{error}");
    granted(&store, &claim("k", "a", 1000)).await;
}

#[test]
fn this_boot_has_an_id() {
    assert_eq!(Boot::current().unwrap().id.len(), 36);
}

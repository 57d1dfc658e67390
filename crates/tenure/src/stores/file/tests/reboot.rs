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
    let ttl = Duration::from_secs(20);
    granted(&store, &claim("gone", "a", 20_000)).await;
    pause(500).await;
    close(store).await;

    let left =
        async |store: &FileStore| store.inspect(&key("gone")).await.unwrap().unwrap().remaining;
    let same = open_in(&path, boot("one", "time:[1]")).await.unwrap();
    let before = left(&same).await;
    assert!(before <= ttl - Duration::from_millis(500), "re-armed within one boot: {before:?}");
    close(same).await;

    let next = open_in(&path, boot("two", "time:[2]")).await.unwrap();
    let after = left(&next).await;
    assert!(after > before, "not re-armed after a reboot: {after:?} after {before:?}");
    assert!(is_held(&next, &claim("gone", "b", 500)).await);
    pause(500).await;
    close(next).await;

    let again = open_in(&path, boot("two", "time:[2]")).await.unwrap();
    let last = left(&again).await;
    assert!(last <= after - Duration::from_millis(500), "re-armed twice: {last:?}");
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

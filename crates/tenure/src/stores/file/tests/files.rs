use std::fs;
use std::process::Command;

use rusqlite::Connection;

use super::super::schema::APPLICATION_ID;
use super::*;
use crate::claim::ListQuery;
use crate::{ErrorKind, Retry};

async fn refused(path: &Path) -> crate::Error {
    FileStore::open(path.to_str().unwrap()).await.unwrap_err()
}

#[tokio::test]
async fn a_path_that_cannot_be_ours_is_refused() {
    let (folder, _) = temporary();
    assert_eq!(FileStore::open("").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(refused(folder.path()).await.kind(), ErrorKind::Invalid);
    let error = refused(&folder.path().join("no/such/locks.db")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("no/such does not exist: create it"), "{error}");
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let (_folder, path) = temporary();
    close(open(&path).await).await;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("newer tenure"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_as_it_was() {
    let table = "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);";
    let numbered = format!("PRAGMA application_id = {}; ", APPLICATION_ID + 1);
    for (mode, sql) in [
        ("DELETE", table.to_owned()),
        ("DELETE", format!("{numbered}{table}")),
        ("WAL", table.to_owned()),
    ] {
        let (_folder, path) = temporary();
        let theirs = Connection::open(&path).unwrap();
        theirs.pragma_update(None, "journal_mode", mode).unwrap();
        theirs.execute_batch(&sql).unwrap();
        drop(theirs);
        let before = fs::read(&path).unwrap();
        assert_eq!(refused(&path).await.kind(), ErrorKind::Invalid, "{mode} {sql}");
        assert!(fs::read(&path).unwrap() == before, "{mode} {sql}");
    }
}

#[tokio::test]
async fn garbage_is_damaged_and_left_as_it_was() {
    let (_folder, path) = temporary();
    let garbage: Vec<u8> = (0..20_000_u32).map(|n| (n * 31 % 251) as u8).collect();
    fs::write(&path, &garbage).unwrap();
    let error = refused(&path).await;
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("fences"), "{error}");
    assert!(fs::read(&path).unwrap() == garbage);
}

/// In another process: closing a descriptor of the file here would drop SQLite's locks on it.
fn overwrite_page(path: &Path, page: u64, with: &str) {
    let status = Command::new("dd")
        .args([&format!("if={with}"), &format!("of={}", path.display())])
        .args(["bs=4096", "count=1", "conv=notrunc", "status=none", &format!("seek={page}")])
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
async fn a_broken_page_never_becomes_a_grant() {
    let (folder, path) = temporary();
    let store = open(&path).await;
    for number in 0..300 {
        granted(&store, &claim(&format!("k{number:03}"), "a", 600_000)).await;
    }
    close(store).await;
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    assert!(pages > 8, "{pages}");
    let mut found = 0;
    for (page, with) in (0..pages).flat_map(|page| [(page, "/dev/zero"), (page, "/dev/urandom")]) {
        let copy = folder.path().join(format!("copy-{page}-{}.db", &with[5..]));
        fs::copy(&path, &copy).unwrap();
        overwrite_page(&copy, page, with);
        let Ok(store) = FileStore::open(copy.to_str().unwrap()).await else {
            found += 1;
            continue;
        };
        for number in 0..300 {
            match store.try_acquire(&claim(&format!("k{number:03}"), "b", 1000)).await {
                Ok(Attempt::Held(_)) => {}
                Ok(Attempt::Granted(lease)) => panic!("page {page} {with}: granted {lease:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                    found += 1;
                    break;
                }
            }
        }
    }
    assert!(found > pages, "{found} of {pages} broken pages were found");
}

#[tokio::test]
async fn a_live_file_that_breaks_is_refused_for_good() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    granted(&store, &claim("k", "a", 600_000)).await;
    // What the open connection has read already it does not read again, so a new one writes.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE leases SET holder = char(1)").unwrap();
    let error = store.try_acquire(&claim("k", "b", 1000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(store.inspect(&key("k")).await.is_err());
    let query = ListQuery { prefix: String::new(), after: None, limit: 9 };
    assert!(store.list(&query).await.is_err());
    other.execute_batch("DROP TABLE pledges; DROP TABLE leases").unwrap();
    let error = store.try_acquire(&claim("l", "b", 1000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn a_fence_counter_that_fell_behind_is_refused() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    granted(&store, &claim("k", "a", 1)).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE meta SET value = 0 WHERE name = 'fence'").unwrap();
    pause(3).await;
    let error = store.try_acquire(&claim("k", "b", 1000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let top = format!("UPDATE meta SET value = {} WHERE name = 'fence'", i64::MAX);
    other.execute_batch(&top).unwrap();
    let error = store.try_acquire(&claim("k", "b", 1000)).await.unwrap_err();
    assert!(error.to_string().contains("used up"), "{error}");
}

#[tokio::test]
async fn nothing_is_granted_on_a_file_that_was_removed_or_replaced() {
    for what in ["removed", "replaced", "log removed", "shared memory removed"] {
        let (folder, path) = temporary();
        let store = open(&path).await;
        granted(&store, &claim("k", "a", 600_000)).await;
        match what {
            "removed" => fs::remove_file(&path).unwrap(),
            "log removed" => fs::remove_file(path.with_extension("db-wal")).unwrap(),
            "shared memory removed" => fs::remove_file(path.with_extension("db-shm")).unwrap(),
            _ => {
                let other = folder.path().join("other.db");
                close(open(&other).await).await;
                fs::rename(&other, &path).unwrap();
            }
        }
        assert!(store.inspect(&key("k")).await.is_err(), "{what}: a failed read is not free");
        for name in ["k", "l"] {
            let error = store.try_acquire(&claim(name, "b", 1000)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{what}");
            assert!(error.to_string().contains("reopen the store"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_file_that_comes_back_is_refused_until_the_store_is_reopened() {
    let (folder, path) = temporary();
    let store = open(&path).await;
    granted(&store, &claim("k", "a", 600_000)).await;
    fs::rename(&path, folder.path().join("away.db")).unwrap();
    assert!(store.try_acquire(&claim("l", "a", 1000)).await.is_err());
    fs::rename(folder.path().join("away.db"), &path).unwrap();
    assert!(store.try_acquire(&claim("l", "a", 1000)).await.is_err());
    assert!(is_held(&open(&path).await, &claim("k", "b", 1000)).await);
}

#[tokio::test]
async fn a_link_that_is_turned_elsewhere_is_a_replaced_file() {
    let (folder, path) = temporary();
    let (link, other) = (folder.path().join("link.db"), folder.path().join("other.db"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    close(open(&path).await).await;
    let store = open(&link).await;
    granted(&store, &claim("k", "a", 600_000)).await;
    assert!(is_held(&open(&path).await, &claim("k", "b", 1000)).await);
    close(open(&other).await).await;
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert!(store.try_acquire(&claim("l", "a", 1000)).await.is_err());
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_ends_as_unavailable() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.try_acquire(&claim("k", "a", 1000)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Safe));
    assert_eq!(store.inspect(&key("k")).await.unwrap(), None, "reads need no write lock");
    other.execute_batch("ROLLBACK").unwrap();
    granted(&store, &claim("k", "a", 1000)).await;
}

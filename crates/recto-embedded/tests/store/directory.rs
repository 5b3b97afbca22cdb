//! Tests of the directories that can be opened as a store, and of those that are rejected and stay unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::{done, fill, numbers, open, put, read_only, runtime, table, write};
use recto_embedded::{EmbeddedOptions, EmbeddedStore, store_holder};
use recto_model::Environment;
use recto_store::{Store, StoreErrorKind, WriteOptions, WriteOutcome};

fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(path)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn refused(path: &Path, kind: StoreErrorKind) -> String {
    let before = contents(path);
    let error = open(path).map(drop).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.hint().is_some(), "{error}");
    assert_eq!(contents(path), before, "what is refused stays as it is");
    error.to_string()
}

fn filled(path: &Path) {
    runtime().block_on(async {
        let store = open(path).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..2_000).await;
    });
}

#[test]
fn a_second_opener_is_told_who_holds_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let error = open(directory.path()).map(drop).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    let holder = format!("process {} on ", std::process::id());
    assert!(error.to_string().contains(&holder), "{error}");
    assert!(error.hint().unwrap().contains("wait until that process"));
    store.announce("http://127.0.0.1:9\n000").unwrap();
    let error = open(directory.path()).map(drop).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("which serves it at http://127.0.0.1:9000"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("that server"), "{error:?}");
    let found = store_holder(directory.path()).unwrap();
    assert!(found.process.starts_with(&holder), "{found:?}");
    assert_eq!(found.url.as_deref(), Some("http://127.0.0.1:9000"));
    let reader = EmbeddedStore::open(directory.path(), read_only(), Environment::system()).map(drop);
    assert_eq!(reader.unwrap_err().kind(), StoreErrorKind::Conflict);
    drop(store);
    assert_eq!(store_holder(directory.path()), None);
    let store = open(directory.path()).unwrap();
    let next = store_holder(directory.path()).unwrap();
    assert_eq!(next.url, None, "the address of an earlier process is gone");
    drop(store);
}

#[test]
fn readers_share_a_store_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let before = contents(directory.path());
    runtime().block_on(async {
        let one = EmbeddedStore::open(directory.path(), read_only(), Environment::system()).unwrap();
        let two = EmbeddedStore::open(directory.path(), read_only(), Environment::system()).unwrap();
        assert_eq!(numbers(&one, &table(), "AA").await.len(), 2_000);
        assert_eq!(numbers(&two, &table(), "AA").await.len(), 2_000);
        let refused = one
            .write(write(&table(), "AA", vec![put(1, 9)]), WriteOptions::default())
            .await;
        assert!(refused.is_err() || matches!(refused, Ok(WriteOutcome::Refused(_))));
        assert!(two.check(|_| ()).await.unwrap().is_sound());
        assert_eq!(
            open(directory.path()).map(drop).unwrap_err().kind(),
            StoreErrorKind::Conflict
        );
    });
    assert_eq!(contents(directory.path()), before);
    let missing = directory.path().join("missing");
    assert!(EmbeddedStore::open(&missing, read_only(), Environment::system()).is_err());
    assert!(!missing.exists());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let format = directory.path().join("format");
    assert_eq!(
        fs::read_to_string(&format).unwrap(),
        include_str!("../golden/store-v2.txt")
    );
    fs::write(format, "recto-embedded 3\n").unwrap();
    assert!(refused(directory.path(), StoreErrorKind::Version).contains("format 3"));
}

#[test]
fn rejects_paths_without_a_valid_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    let data = path.join("data.redb");
    let whole = fs::read(&data).unwrap();
    fs::write(&data, b"SQLite format 3\0 and more").unwrap();
    refused(&path, StoreErrorKind::Corrupt);
    fs::write(&data, vec![0; 1 << 20]).unwrap();
    refused(&path, StoreErrorKind::Corrupt);
    fs::remove_file(&data).unwrap();
    assert!(refused(&path, StoreErrorKind::Corrupt).contains("is missing"));
    fs::write(&data, &whole).unwrap();
    fs::write(path.join("format"), "something else").unwrap();
    refused(&path, StoreErrorKind::Corrupt);
    fs::remove_file(path.join("format")).unwrap();
    refused(&path, StoreErrorKind::Corrupt);
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    assert_eq!(open(&file).map(drop).unwrap_err().kind(), StoreErrorKind::Corrupt);
}

#[test]
fn no_store_is_made_between_the_files_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("documents");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter.txt"), "text").unwrap();
    assert!(refused(&path, StoreErrorKind::Invalid).contains("letter.txt"));
    let names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["letter.txt"], "nothing was made there");
    fs::rename(path.join("letter.txt"), path.join(".hidden")).unwrap();
    fs::create_dir(path.join("lost+found")).unwrap();
    drop(open(&path).unwrap());
}

#[test]
fn making_a_store_goes_on_after_a_crash_at_any_point() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    // Simulate a crash after the data file and the format file were written, and before the data
    // file got its final name.
    fs::rename(path.join("data.redb"), path.join("data.redb.new")).unwrap();
    runtime().block_on(async {
        let store = open(&path).unwrap();
        assert_eq!(numbers(&store, &table(), "AA").await.len(), 2_000);
    });
    // Simulate a crash before the data file was complete.
    let path = directory.path().join("other");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("data.redb.new"), b"half").unwrap();
    runtime().block_on(async {
        let store = open(&path).unwrap();
        assert!(store.list_tables().await.unwrap().is_empty());
    });
}

/// Opening with read-only options creates no store. An incomplete store does not count as an existing store.
#[test]
fn only_what_is_to_make_a_store_makes_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut writing = EmbeddedOptions::default();
    writing.create = false;
    let refused = |path: &Path| {
        let before = path.exists().then(|| contents(path));
        let errors = [writing, read_only()].map(|options| {
            let opened = EmbeddedStore::open(path, options, Environment::system());
            opened.map(drop).unwrap_err()
        });
        assert_eq!(path.exists().then(|| contents(path)), before, "it stays as it is");
        let [error, other] = errors;
        assert_eq!(error.to_string(), other.to_string());
        error
    };
    let missing = directory.path().join("missing");
    assert_eq!(refused(&missing).kind(), StoreErrorKind::Table);
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(refused(&empty).kind(), StoreErrorKind::Table);
    for (file, what, kind) in [
        (
            "data.redb.new",
            "unfinished store or backup",
            StoreErrorKind::Table,
        ),
        ("backup.redb.new", "unfinished backup", StoreErrorKind::Corrupt),
    ] {
        let path = directory.path().join(file);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(file), b"").unwrap();
        fs::write(path.join("lock"), b"process 1").unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(what), "{error}");
    }
    // Opening a new store does not overwrite an unfinished backup, either.
    let error = open(&directory.path().join("backup.redb.new"))
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("unfinished backup"), "{error}");
}

/// The first of several readers that open a store after a crash repairs it, and then all can read it.
#[test]
fn opens_read_only_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copied) = (directory.path().join("store"), directory.path().join("copied"));
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..2_000).await;
        // Copy the files that a crash leaves.
        fs::create_dir(&copied).unwrap();
        for name in ["format", "data.redb", "log.0", "log.1"] {
            if path.join(name).exists() {
                fs::copy(path.join(name), copied.join(name)).unwrap();
            }
        }
        drop(store);
        let reader = || EmbeddedStore::open(&copied, read_only(), Environment::system()).unwrap();
        // Open all readers at once, as after a crash of the machine.
        let readers = std::thread::scope(|scope| {
            let opening = [(); 8].map(|()| scope.spawn(reader));
            opening.map(|reader| reader.join().unwrap())
        });
        for reader in &readers {
            assert_eq!(numbers(reader, &table(), "AA").await.len(), 2_000);
        }
        let writer = open(&copied).map(drop).unwrap_err();
        assert!(writer.to_string().contains("open for reading"), "{writer}");
    });
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn relaxed_writes_are_there_after_closing() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        done(&store, vec![write(&table(), "AA", vec![put(1, 1)])]).await;
        let options = WriteOptions {
            relaxed: true,
            ..WriteOptions::default()
        };
        let outcome = store.write(write(&table(), "AA", vec![put(2, 1)]), options).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)));
        drop(store);
        let store = open(directory.path()).unwrap();
        assert_eq!(numbers(&store, &table(), "AA").await, [1, 2]);
    });
}

#[test]
fn a_closed_store_opens_while_a_read_ends() {
    const ROUNDS: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path);
    for round in 0..ROUNDS {
        runtime().block_on(async {
            let store = open(&path).unwrap();
            let snapshot = store.snapshot().unwrap();
            let read = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(round * 5));
                drop(snapshot);
            });
            store.close().await.unwrap();
            let opened = open(&path);
            read.join().unwrap();
            assert!(opened.is_ok(), "round {round}: {:?}", opened.err());
        });
    }
}

//! A disk that fails: writes are errors, nothing acknowledged is lost, and the store goes on by itself
//! when the disk does.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::Environment;
use recto_store::{Store, StoreErrorKind, WriteOptions, WriteOutcome};
use redb::StorageBackend;
use support::{done, numbers, put, runtime, table, write};

/// A disk in memory that survives the store, and fails after so many writes.
#[derive(Debug, Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// How many more writes and syncs are done; negative: all fail.
    left: Arc<AtomicI64>,
}

impl Disk {
    fn new() -> Self {
        Self {
            bytes: Arc::default(),
            left: Arc::new(AtomicI64::new(i64::MAX)),
        }
    }

    fn fail_after(&self, operations: i64) {
        self.left.store(operations, Ordering::Relaxed);
    }

    fn spend(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.left.store(0, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.bytes.lock().unwrap();
        let found = bytes.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.bytes
            .lock()
            .unwrap()
            .resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        let start = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn open(disk: &Disk) -> Arc<EmbeddedStore> {
    let disk = disk.clone();
    EmbeddedStore::open_with_backend(
        move || disk.clone(),
        EmbeddedOptions::default(),
        Environment::system(),
    )
    .unwrap()
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    for operations in 0..40 {
        runtime().block_on(async {
            let disk = Disk::new();
            let store = open(&disk);
            store.create_table(&table()).await.unwrap();
            done(&store, vec![write(&table(), "AA", vec![put(0, 1)])]).await;
            disk.fail_after(operations);
            let (mut acknowledged, mut unknown) = (BTreeSet::from([0]), BTreeSet::new());
            for number in 1..20 {
                match store
                    .write(
                        write(&table(), "AA", vec![put(number, 1)]),
                        WriteOptions::default(),
                    )
                    .await
                {
                    Ok(WriteOutcome::Done) => acknowledged.insert(number),
                    Ok(WriteOutcome::Unknown(error)) => {
                        assert!(error.hint().is_some(), "{error}");
                        unknown.insert(number)
                    }
                    Ok(WriteOutcome::Refused(error)) => panic!("{error}"),
                    Err(error) => {
                        assert_eq!(error.kind(), StoreErrorKind::Storage, "{error}");
                        false
                    }
                };
            }
            // The disk has room again: the next write is done, without anybody's help.
            disk.fail_after(i64::MAX);
            done(&store, vec![write(&table(), "AA", vec![put(100, 1)])]).await;
            acknowledged.insert(100);
            let found: BTreeSet<i64> = numbers(&store, &table(), "AA").await.into_iter().collect();
            assert!(
                acknowledged.is_subset(&found),
                "{operations}: {acknowledged:?} {found:?}"
            );
            let extra: BTreeSet<i64> = found.difference(&acknowledged).copied().collect();
            assert!(extra.is_subset(&unknown), "{operations}: {extra:?} {unknown:?}");
            assert!(store.check(|_| ()).await.unwrap().is_sound());
            drop(store);
            let store = open(&disk);
            let again: BTreeSet<i64> = numbers(&store, &table(), "AA").await.into_iter().collect();
            assert_eq!(again, found);
        });
    }
}

#[test]
fn lost_relaxed_writes_are_not_passed_over() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = open(&disk);
        store.create_table(&table()).await.unwrap();
        let relaxed = WriteOptions {
            relaxed: true,
            ..WriteOptions::default()
        };
        let outcome = store.write(write(&table(), "AA", vec![put(1, 1)]), relaxed).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)));
        disk.fail_after(0);
        let last = write(&table(), "AA", vec![put(2, 1)]);
        let outcome = store.write(last.clone(), WriteOptions::default()).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Unknown(_)) | Err(_)));
        disk.fail_after(i64::MAX);
        // Acknowledging this would tell the bulk load that row 1 is on disk.
        let error = store
            .write(last.clone(), WriteOptions::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("relaxed writes"), "{error}");
        drop(store);
        let store = open(&disk);
        done(&store, vec![last]).await;
        assert_eq!(numbers(&store, &table(), "AA").await, [2]);
    });
}

//! Data file: creating it and opening it, with verification of its pages.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};
use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend as _};

use crate::catalog::CATALOG;
use crate::directory::{Directory, open_private};
use crate::error::{corrupt, engine, file, guarded};
use crate::meta::META;
use crate::options::EmbeddedOptions;
use crate::state::Engine;
use crate::verified::{Met, Verified};

/// Opens a data file for the engine, with verification of its pages.
fn backend(path: &Path, is_writable: bool, met: &Arc<Met>) -> Result<Verified<FileBackend>, StoreError> {
    let opening = |error| file("cannot open the data file", error);
    let data = OpenOptions::new().read(true).write(is_writable).open(path);
    let data = data.map_err(opening)?;
    let file = FileBackend::new(data).map_err(engine)?;
    Ok(Verified::new(file, Arc::clone(met)))
}

/// Opens the data file of a store for writing. The engine repairs the file if it was not closed properly.
pub(crate) fn open_data(
    path: &Path,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Database, StoreError> {
    guarded(|| {
        let backend = backend(path, true, met)?;
        // Report an empty file as damage here, because the engine would create a new database in
        // it.
        if backend
            .len()
            .map_err(|error| file("cannot read the size of the data file", error))?
            == 0
        {
            return Err(corrupt("the store's data file is empty"));
        }
        Builder::new()
            .set_cache_size(options.cache_bytes)
            .create_with_backend(backend)
            .map_err(engine)
    })
}

/// Returns whether a read-only open failed because the data file was not closed properly, and needs a repair.
pub(crate) fn is_unclean(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(redb::DatabaseError::RepairAborted))
}

pub(crate) fn open_read_only(
    directory: &Directory,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Engine, StoreError> {
    let opened = guarded(|| {
        let backend = backend(&directory.data_file(), false, met)?;
        Builder::new()
            .set_cache_size(options.cache_bytes)
            .open_read_only_with_backend(backend)
            .map_err(|error| match error {
                redb::DatabaseError::RepairAborted => {
                    StoreError::new(StoreErrorKind::Storage, "the store was not closed properly")
                        .with_hint("open it for writing once, which repairs it")
                        .with_source(error)
                }
                error => engine(error),
            })
    });
    Ok(Engine::read_only_of(opened?))
}

/// Creates and opens a data file without tables at `path`.
pub(crate) fn create_data(path: &Path, cache_bytes: usize, met: &Arc<Met>) -> Result<Database, StoreError> {
    drop(open_private(path).map_err(|error| file("cannot create the data file", error))?);
    Builder::new()
        .set_cache_size(cache_bytes)
        .create_with_backend(backend(path, true, met)?)
        .map_err(engine)
}

/// Creates the data file of a new store, under a temporary name until it is complete.
pub(crate) fn make_data(
    directory: &Directory,
    options: EmbeddedOptions,
    met: &Arc<Met>,
) -> Result<Database, StoreError> {
    let database = guarded(|| {
        let database = create_data(&directory.new_data_file(), options.cache_bytes, met)?;
        prepare(&database)?;
        Ok(database)
    })?;
    directory.publish_first()?;
    Ok(database)
}

/// Returns whether the engine's tables that every store has exist.
#[cfg(feature = "testing")]
pub(crate) fn has_tables(database: &Database) -> Result<bool, StoreError> {
    let transaction = redb::ReadableDatabase::begin_read(database).map_err(engine)?;
    match transaction.open_table(META) {
        Ok(_) => Ok(true),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(false),
        Err(error) => Err(engine(error)),
    }
}

/// Creates the engine's tables that every store has: the catalog and the single values.
pub(crate) fn prepare(database: &Database) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().map_err(engine)?;
    transaction.set_quick_repair(true);
    transaction.open_table(CATALOG).map_err(engine)?;
    transaction.open_table(META).map_err(engine)?;
    transaction.commit().map_err(engine)
}

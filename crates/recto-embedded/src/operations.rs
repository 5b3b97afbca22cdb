//! What an operator does with a store: backup, compaction, check, figures.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recto_store::{StoreError, StoreErrorKind};
use redb::ReadableTableMetadata as _;

use crate::check::{self, CheckReport};
use crate::copy::{self, Progress, Report, Rows};
use crate::data::open_data;
use crate::directory::{Directory, Purpose, make_directory, parent, refuse_occupied};
use crate::error::{engine, file, guarded};
use crate::shared::Shared;
use crate::state::{Engine, State, blocking};
use crate::store::EmbeddedStore;
use crate::work::{Exclusive, Reply, Work};

/// How long compaction and checks may take: a day.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(86_400);

/// The cache a copy is written through, whatever the store's is.
const COPY_CACHE_BYTES: usize = 64 << 20;

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Its rows.
    pub rows: u64,
    /// The bytes of its data file.
    pub bytes: u64,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// The bytes of the data file before.
    pub bytes_before: u64,
    /// The bytes of the data file after.
    pub bytes_after: u64,
}

/// Figures of a store that are cheap to have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The bytes of the data file.
    pub file_bytes: u64,
    /// The tables, sorted by name.
    pub tables: Vec<TableStatistics>,
}

/// Figures of a table that are cheap to have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Its name.
    pub name: String,
    /// Its stored rows; those of statics and those that have ended included.
    pub rows: u64,
}

impl EmbeddedStore {
    /// Waits until all that was written before is on disk, relaxed writes too.
    ///
    /// # Errors
    /// `Storage`: the file system refused. `Timeout`.
    pub async fn sync(&self, timeout: Duration) -> Result<(), StoreError> {
        match self.queue.ask(Work::Sync, 0, false, timeout).await? {
            Reply::Unknown(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Copies the store, as it is now, into the directory `to`, which then is a store like any
    /// other: opened, it is the backup.
    ///
    /// Readers and writers go on meanwhile; what they write is not in the backup. The snapshot that is
    /// copied pins the pages that are written over meanwhile, so the data file may grow. Every row is
    /// checked as it is copied.
    ///
    /// # Errors
    /// `Conflict`: there is something at `to` already. `Corrupt`: a row is damaged; run a check.
    /// `Storage`: the file system refused. Nothing is left at `to` then.
    pub async fn backup(
        &self,
        to: impl AsRef<Path>,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<BackupReport, StoreError> {
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let to = to.as_ref().to_owned();
        blocking(move || backup(&state, &to, Box::new(progress))).await
    }

    /// Copies this store, which is a backup, into the folder `to`. The copy is made in a hidden folder next to `to`, is on
    /// disk whole, and then gets the name `to`: a crash leaves no half store there. Every row is checked as it is copied.
    ///
    /// # Errors
    /// `Conflict`: there is something at `to` already, or another process has the store there open. `Corrupt`: a row is
    /// damaged. `Storage`: the file system refused. Nothing is left at `to` then.
    pub async fn restore(
        &self,
        to: impl AsRef<Path>,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<BackupReport, StoreError> {
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let to = to.as_ref().to_owned();
        blocking(move || restore(&state, &to, Box::new(progress))).await
    }

    /// Writes the address at which this process serves the store into the store's lock file, so that refusals in other
    /// processes name it. Does nothing for a store that is open read-only.
    ///
    /// # Errors
    /// `Storage`: the file system refused.
    pub fn announce(&self, url: &str) -> Result<(), StoreError> {
        match &self.shared.directory {
            Some(directory) if !self.shared.options.read_only => directory.announce(url),
            _ => Ok(()),
        }
    }

    /// Writes the data file anew, without the space that deleted, ended and replaced rows take, its
    /// pages full and in key order.
    ///
    /// Readers go on meanwhile. Writers wait: about a second per million rows; those whose timeout
    /// passes meanwhile get an error. It takes as much free disk space as the new file has; the old
    /// one is given back when the last snapshot of the store is dropped. A crash leaves the old file or the new.
    ///
    /// # Errors
    /// `Corrupt`: a row is damaged; run a check. `Storage`: the file system refused. `Invalid`: the store is
    /// open read-only. The store is as before then.
    pub async fn compact(
        &self,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<CompactReport, StoreError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work: Exclusive = Box::new(move |shared| {
            // The caller may have given up; the store is compacted all the same.
            let _ = sender.send(compact(shared, Box::new(progress))?);
            Ok(())
        });
        self.ask_exclusive(work).await?;
        receiver
            .await
            .map_err(|_| StoreError::new(StoreErrorKind::Other, "the compaction ended without a report"))
    }

    /// Reads everything and says what is damaged: every page of the file as it is on disk, then every row.
    ///
    /// Readers go on meanwhile. Writers wait while the pages are read, about as long as reading the
    /// file takes; those whose timeout passes meanwhile get an error. Then they go on too.
    ///
    /// # Errors
    /// `Storage`: the file system refused. Damage is no error but in the report.
    pub async fn check(
        &self,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<CheckReport, StoreError> {
        let pages = self.check_pages().await?;
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let report: Report = Box::new(progress);
        let mut checked = blocking(move || guarded(|| check::rows(&state, report))).await?;
        checked.page_damage = pages;
        Ok(checked)
    }

    async fn check_pages(&self) -> Result<Option<String>, StoreError> {
        let Some(path) = self.shared.data_file() else {
            return Ok(None);
        };
        if self.shared.options.read_only {
            return blocking(move || check::pages(&path)).await;
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work: Exclusive = Box::new(move |shared| {
            settle(shared)?;
            let _ = sender.send(check::pages(&path)?);
            Ok(())
        });
        self.ask_exclusive(work).await?;
        receiver
            .await
            .map_err(|_| StoreError::new(StoreErrorKind::Other, "the check ended without a report"))
    }

    /// Figures that are cheap to have.
    ///
    /// # Errors
    /// `Storage`: the file system refused. `Corrupt`: a table is damaged.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let mut tables = Vec::new();
        for stored in state.catalog.iter() {
            let rows = guarded(|| state.open_stored(stored)?.rows.len().map_err(engine))?;
            tables.push(TableStatistics {
                name: stored.definition.name().to_owned(),
                rows,
            });
        }
        let file_bytes = self.shared.data_file().map_or(Ok(0), |path| length(&path))?;
        Ok(Statistics { file_bytes, tables })
    }

    pub(crate) async fn ask_exclusive(&self, work: Exclusive) -> Result<(), StoreError> {
        match self
            .queue
            .ask(Work::Exclusive(work), 0, false, OPERATION_TIMEOUT)
            .await?
        {
            Reply::Unknown(error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes everything durable, with a commit that is whole on disk before it counts.
fn settle(shared: &Shared) -> Result<(), StoreError> {
    let (current, _) = shared.engine_and_catalog();
    if let Some(database) = current.writable() {
        let mut transaction = database.begin_write().map_err(engine)?;
        transaction.set_quick_repair(true);
        shared.commit(transaction, None)?;
    }
    Ok(())
}

fn length(path: &Path) -> Result<u64, StoreError> {
    let metadata = std::fs::metadata(path).map_err(|error| file("measuring the data file", error))?;
    Ok(metadata.len())
}

fn backup(state: &State, to: &Path, report: Report) -> Result<BackupReport, StoreError> {
    refuse_occupied(to)?;
    let existed = to.exists();
    let (directory, _) = Directory::take(to, Purpose::Backup)?;
    let made = copy_into(&directory, state, report);
    if made.is_err() {
        directory.abandon(existed);
    }
    made
}

/// Makes the directory, which has no data file, a store with the rows of the snapshot.
fn copy_into(directory: &Directory, state: &State, report: Report) -> Result<BackupReport, StoreError> {
    let rows = copy::copy(
        state,
        &directory.backup_file(),
        COPY_CACHE_BYTES,
        &Arc::default(),
        Rows::All,
        report,
    )?;
    directory.publish_backup()?;
    let bytes = length(&directory.data_file())?;
    Ok(BackupReport { rows, bytes })
}

fn restore(state: &State, to: &Path, report: Report) -> Result<BackupReport, StoreError> {
    refuse_occupied(to)?;
    let Some(name) = to.file_name() else {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            format!("{} names no folder that could be made", to.display()),
        )
        .with_hint("name the folder that is to be the store"));
    };
    let folder = parent(to);
    make_directory(folder)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".restoring");
    let directory = Directory::take_restoring(&folder.join(hidden))?;
    let made = copy_into(&directory, state, report).and_then(|made| {
        directory.rename(to)?;
        Ok(made)
    });
    if made.is_err() {
        directory.abandon(false);
    }
    made
}

fn compact(shared: &Shared, report: Report) -> Result<CompactReport, StoreError> {
    let directory = shared.directory.as_ref().ok_or_else(|| {
        StoreError::new(
            StoreErrorKind::Invalid,
            "a store without a directory is not compacted",
        )
    })?;
    let data: PathBuf = directory.data_file();
    let bytes_before = length(&data)?;
    let state = Arc::clone(&shared.snapshot()?.state);
    let copy = directory.new_data_file();
    copy::copy(
        &state,
        &copy,
        shared.options.cache_bytes,
        &shared.met,
        Rows::Living,
        report,
    )?;
    // Before it takes the place of the other, which is as good as before if this fails.
    let database = open_data(&copy, shared.options, &shared.met)?;
    directory.publish()?;
    shared.replace_engine(Engine::writable_of(database));
    Ok(CompactReport {
        bytes_before,
        bytes_after: length(&data)?,
    })
}

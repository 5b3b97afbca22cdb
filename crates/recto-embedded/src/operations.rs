//! Operations of an operator: backup, compaction, check, statistics.

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
#[cfg(feature = "testing")]
use crate::expired;
use crate::log::LogStatistics;
use crate::shared::{Durable, Shared};
use crate::state::{Engine, State, blocking};
use crate::store::{EmbeddedStore, folder_of};
use crate::work::{Exclusive, Reply, Work};

/// Maximum duration of compaction and of checks: a day.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Size of the cache for writing a copy, in bytes. It does not depend on the cache of the store.
const COPY_CACHE_BYTES: usize = 64 << 20;

/// Size of a backup that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Number of rows that were copied, including static rows and expired rows.
    pub rows: u64,
    /// Size of the data file, in bytes.
    pub bytes: u64,
}

/// Effect of a compaction on the size of the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Size of the data file before the compaction, in bytes.
    pub bytes_before: u64,
    /// Size of the data file after the compaction, in bytes.
    pub bytes_after: u64,
}

/// Statistics of a store that can be read quickly.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Size of the data file, in bytes.
    pub file_bytes: u64,
    /// Tables, sorted by name.
    pub tables: Vec<TableStatistics>,
    /// State of the commit log.
    pub log: LogStatistics,
}

/// Statistics of one table that can be read quickly.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Name of the table.
    pub name: String,
    /// Number of stored rows, including static rows and expired rows.
    pub rows: u64,
}

impl EmbeddedStore {
    /// Waits until all earlier writes are on disk, including relaxed writes.
    ///
    /// # Errors
    /// `Storage`: the file system failed. `Timeout`: the writes were not on disk in time.
    pub async fn sync(&self, timeout: Duration) -> Result<(), StoreError> {
        match self.queue.ask(Work::Sync, 0, false, timeout).await? {
            Reply::Unknown(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Copies the current content of the store into the directory `to`. The directory is then a normal store: open it
    /// to read the backup.
    ///
    /// Readers and writers continue during the backup. Their writes are not in the backup. The copied
    /// snapshot keeps pages that writers replace, so the data file of this store may grow. Every row is
    /// verified when it is copied.
    ///
    /// # Errors
    /// `Invalid`: there is something at `to` already. `Conflict`: another process has the store at `to` open.
    /// `Corrupt`: a row is damaged; run a check. `Storage`: the file system failed. After these errors nothing of the
    /// copy is left at `to`.
    pub async fn backup(
        &self,
        to: impl AsRef<Path>,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<BackupReport, StoreError> {
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let to = to.as_ref().to_owned();
        blocking(move || backup(&state, &to, Box::new(progress))).await
    }

    /// Copies this store, which is a backup, into the folder `to`. The copy is made in a hidden folder next
    /// to `to`, which is renamed to `to` when the copy is complete and on disk. A crash therefore leaves no
    /// incomplete store at `to`. Every row is verified when it is copied.
    ///
    /// # Errors
    /// `Invalid`: there is something at `to` already. `Conflict`: another process has the store at `to` open.
    /// `Corrupt`: a row is damaged. `Storage`: the file system failed. After these errors nothing of the copy is left
    /// at `to`.
    pub async fn restore(
        &self,
        to: impl AsRef<Path>,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<BackupReport, StoreError> {
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let to = to.as_ref().to_owned();
        blocking(move || restore(&state, &to, Box::new(progress))).await
    }

    /// Writes the address at which this process serves the store into the store's lock file, so that errors in other
    /// processes contain it. Does nothing for a store that is open read-only.
    ///
    /// # Errors
    /// `Storage`: the file system failed.
    pub fn announce(&self, url: &str) -> Result<(), StoreError> {
        match &self.shared.directory {
            Some(directory) if !self.shared.options.read_only => directory.announce(url),
            _ => Ok(()),
        }
    }

    /// Writes the data file again, without the space of deleted, expired and replaced rows. The pages of the
    /// new file are full and in key order.
    ///
    /// Readers continue during the compaction. Writers wait, for about a second per million rows. A write
    /// that reaches its timeout gets an error. The compaction needs free disk space of the size of the new
    /// file. The space of the old file becomes free when the last snapshot of the store is dropped. If the
    /// process crashes, either the complete old file or the complete new file remains.
    ///
    /// # Errors
    /// `Corrupt`: a row is damaged; run a check. `Storage`: the file system failed. `Invalid`: the store is open
    /// read-only. After these errors the store is unchanged.
    pub async fn compact(
        &self,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<CompactReport, StoreError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work: Exclusive = Box::new(move |shared| {
            // Ignore a send error: if the caller has given up, the compaction of the store is valid
            // nevertheless.
            let _ = sender.send(compact(shared, Box::new(progress))?);
            Ok(())
        });
        self.ask_exclusive(work).await?;
        receiver
            .await
            .map_err(|_| StoreError::new(StoreErrorKind::Other, "the compaction ended without a report"))
    }

    /// Reads the whole store, and reports the damage: first of every page of the file on disk, then of every row.
    ///
    /// Readers continue during the check. Writers wait while the pages are read, about as long as reading the
    /// file takes. A write that reaches its timeout gets an error. Writers continue while the rows are read.
    ///
    /// # Errors
    /// `Storage`: the file system failed. Damage is not an error; it is in the report.
    pub async fn check(
        &self,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<CheckReport, StoreError> {
        let (pages, log) = self.check_files().await?;
        let state = Arc::clone(&self.shared.snapshot()?.state);
        let report: Report = Box::new(progress);
        let mut checked = blocking(move || guarded(|| check::rows(&state, report))).await?;
        checked.page_damage = pages;
        checked.log_damage = log;
        Ok(checked)
    }

    /// Checks the pages of the data file, and the log. Returns descriptions of their damage.
    async fn check_files(&self) -> Result<(Option<String>, Option<String>), StoreError> {
        let path = self.shared.data_file();
        let pages = move || path.as_deref().map_or(Ok(None), check::pages);
        if self.shared.options.read_only {
            // A store that is open read-only has no records after its last checkpoint.
            return blocking(move || Ok((pages()?, None))).await;
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work: Exclusive = Box::new(move |shared| {
            let log = settle(shared)?;
            let _ = sender.send((pages()?, log));
            Ok(())
        });
        self.ask_exclusive(work).await?;
        receiver
            .await
            .map_err(|_| StoreError::new(StoreErrorKind::Other, "the check ended without a report"))
    }

    /// Returns statistics that can be read quickly.
    ///
    /// # Errors
    /// `Storage`: the file system failed. `Corrupt`: a table is damaged.
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
        let log = self.log_statistics();
        Ok(Statistics {
            file_bytes,
            tables,
            log,
        })
    }

    /// Returns the state of the commit log.
    pub fn log_statistics(&self) -> LogStatistics {
        let mut log = self.shared.log_counters.read();
        if let (true, Some(directory)) = (self.shared.options.read_only, &self.shared.directory) {
            // A store that is open read-only does not open its log.
            log.file_bytes = folder_of(directory).bytes();
        }
        log
    }

    /// Deletes the expired rows of the whole store now. Without this call, the writer deletes them in the
    /// background.
    ///
    /// # Errors
    /// The errors of a write.
    #[cfg(feature = "testing")]
    pub async fn delete_expired(&self) -> Result<(), StoreError> {
        let work: Exclusive = Box::new(|shared| {
            let mut position = Some(expired::Position::default());
            while let Some(from) = position {
                position = expired::step(shared, from)?;
            }
            Ok(())
        });
        self.ask_exclusive(work).await
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

/// Checks the log, and then makes all writes durable. Returns a description of the log's damage. If a record
/// could not be applied, the log stays as it is.
fn settle(shared: &Shared) -> Result<Option<String>, StoreError> {
    let damage = shared.log().check()?;
    if let Err(unapplied) = shared.log().check_applied() {
        return Ok(Some(unapplied.to_string()));
    }
    shared.checkpoint(Durable::Now)?;
    Ok(damage)
}

fn length(path: &Path) -> Result<u64, StoreError> {
    let metadata =
        std::fs::metadata(path).map_err(|error| file("cannot read the size of the data file", error))?;
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

/// Copies all rows of the snapshot `state` into a directory without a data file. The directory is then a
/// store.
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
            format!("{} does not name a folder that can be created", to.display()),
        )
        .with_hint("give the path of the store's folder"));
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
            "a store without a directory cannot be compacted",
        )
    })?;
    shared.log().check_applied()?;
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
    // Open the copy before it replaces the old file. If this fails, the store is unchanged.
    let database = open_data(&copy, shared.options, &shared.met)?;
    directory.rename_new_data()?;
    // From here on, the old file has no name, so the engine must use the new one in any case.
    shared.replace_engine(Engine::writable_of(database));
    directory.sync()?;
    Ok(CompactReport {
        bytes_before,
        bytes_after: length(&data)?,
    })
}

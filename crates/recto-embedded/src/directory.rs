//! Directory of a store: its files, its lock, and the check whether a process may open it.
//!
//! | file | content |
//! |---|---|
//! | `format` | text: the kind of this directory, and the version of its format; read before all other files |
//! | `lock` | text: the process that has the store open, and its address if it serves the store; locked while open |
//! | `data.redb` | data |
//! | `log.0`, `log.1` | commit log (module `log`) |
//! | `data.redb.new` | data file that is being created; not valid until it is renamed |
//! | `backup.redb.new` | data file of a backup that is being made; until it is complete, the directory is not a store |
//!
//! A directory that is rejected is not changed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use recto_store::{StoreError, StoreErrorKind};

use crate::error::{corrupt, file};

/// Version of the directory's format, and of all its content that has no own version. Version 2 has a commit
/// log. A store of version 1 gets version 2 before its first log file.
pub const STORE_FORMAT_VERSION: u32 = 2;
/// Oldest version of the directory's format that this release reads.
const OLDEST_STORE_FORMAT: u32 = 1;

/// First words of the `format` file, which show that the directory is a store.
const FORMAT_WORDS: &str = "recto-embedded";
const FORMAT_FILE: &str = "format";
const NEW_FORMAT_FILE: &str = "format.new";
const LOCK_FILE: &str = "lock";
const DATA_FILE: &str = "data.redb";
const NEW_DATA_FILE: &str = "data.redb.new";
const BACKUP_FILE: &str = "backup.redb.new";

/// Start of the line of a lock file that contains the address at which the process serves the store.
const SERVES: &str = "serves ";

/// Maximum bytes that are read of a `format` or `lock` file.
const MAX_TEXT_BYTES: u64 = 4_096;

/// Purpose for which a directory is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Read an existing store, concurrently with other readers.
    Read,
    /// Write an existing store.
    Write,
    /// Write a store, which is created if it does not exist.
    Create,
    /// Copy another store into the directory, which must not contain a store yet.
    Backup,
}

impl Purpose {
    fn makes(self) -> bool {
        matches!(self, Self::Create | Self::Backup)
    }
}

/// Directory that is a store, or will become one. The lock is held as long as this value exists.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Locked file. The lock is released when the file is closed or the process ends.
    lock: File,
}

/// Kind of content of a directory that is to be opened as a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A store: the directory has a valid `format` file.
    Store,
    /// There is no directory.
    Nothing,
    /// A directory in which a store can be created.
    Empty,
    /// A store or a backup whose data file was never complete.
    Unfinished,
}

/// Process that has a store open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreHolder {
    /// Process, with its id, its machine and its command: `process 123 on host: recto load`.
    pub process: String,
    /// Address at which the process serves the store, if it is a server: `http://127.0.0.1:8080`.
    pub url: Option<String>,
}

impl StoreHolder {
    /// Reads the text of a lock file; `None` if the file names no process.
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let process = lines.next().filter(|line| !line.is_empty())?.to_owned();
        let url = lines.rev().find_map(|line| line.strip_prefix(SERVES));
        Some(Self {
            process,
            url: url.map(str::to_owned),
        })
    }
}

/// Returns the process that has the store in the directory `path` open for writing. Returns `None` if no process has,
/// or if the process did not write its description into the lock file. Processes that only read a store do not write
/// one.
pub fn store_holder(path: impl AsRef<Path>) -> Option<StoreHolder> {
    let place = path.as_ref().join(LOCK_FILE);
    let lock = File::open(&place).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => StoreHolder::read(&read_text(&place).ok()?),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

impl Directory {
    /// Locks the folder `path`, into which a backup is restored before the folder gets its final name.
    /// Creates the folder, and removes the files of an interrupted restore.
    pub(crate) fn take_restoring(path: &Path) -> Result<Self, StoreError> {
        make_directory(path)?;
        let lock = lock(path, false)?;
        for name in [
            BACKUP_FILE,
            NEW_DATA_FILE,
            DATA_FILE,
            NEW_FORMAT_FILE,
            FORMAT_FILE,
        ] {
            match fs::remove_file(path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file("cannot remove the files of an interrupted restore", error));
                }
                _ => {}
            }
        }
        check_own(path)?;
        let path = path.to_owned();
        Ok(Self { path, lock })
    }

    /// Renames the folder to its final name `to`. Its content must be complete and on disk.
    pub(crate) fn rename(&self, to: &Path) -> Result<(), StoreError> {
        match fs::rename(&self.path, to) {
            Ok(()) => sync_directory(parent(to)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Err(occupied(to, "a file or folder"))
            }
            Err(error) => Err(file(
                &format!("cannot rename the folder to {}", to.display()),
                error,
            )),
        }
    }

    /// Writes the address at which this process serves the store into the lock file.
    pub(crate) fn announce(&self, url: &str) -> Result<(), StoreError> {
        let mut lock = &self.lock;
        let url: String = url.chars().filter(|c| !c.is_control()).collect();
        lock.seek(SeekFrom::End(0))
            .and_then(|_| writeln!(lock, "{SERVES}{url}"))
            .map_err(|error| file("cannot write the lock file", error))
    }

    /// Locks the directory at `path` for this process. Creates the directory if it does not exist and the
    /// purpose allows it.
    pub(crate) fn take(path: &Path, purpose: Purpose) -> Result<(Self, Contents), StoreError> {
        // Check the content before creating the lock file, so that a rejected directory stays
        // unchanged.
        match check_contents(path)? {
            Contents::Store => {}
            Contents::Nothing | Contents::Empty if !purpose.makes() => return Err(no_store(path)),
            Contents::Unfinished if !purpose.makes() => return Err(unfinished_store(path)),
            Contents::Nothing => make_directory(path)?,
            Contents::Empty | Contents::Unfinished => check_own(path)?,
        }
        let lock = lock(path, purpose == Purpose::Read)?;
        let directory = Self {
            path: path.to_owned(),
            lock,
        };
        let contents = directory.settle(purpose)?;
        Ok((directory, contents))
    }

    /// Releases the lock of a closed store, so that another process can open the store before this value is
    /// dropped.
    pub(crate) fn give_up(&self) -> Result<(), StoreError> {
        self.lock
            .unlock()
            .map_err(|error| file("cannot release the lock", error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }

    pub(crate) fn new_data_file(&self) -> PathBuf {
        self.path.join(NEW_DATA_FILE)
    }

    /// Replaces the exclusive lock by a shared lock, so that other processes can read the store. This process
    /// must only read the store from now on.
    pub(crate) fn share(&self) -> Result<(), StoreError> {
        match self.lock.try_lock_shared() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(held(&self.path, None)),
            Err(TryLockError::Error(error)) => Err(file("cannot lock the store", error)),
        }
    }

    /// Returns the path of the data file of an incomplete backup.
    pub(crate) fn backup_file(&self) -> PathBuf {
        self.path.join(BACKUP_FILE)
    }

    /// Checks the content of the directory again, because another process may have changed it before this
    /// process took the lock. Completes an operation that a crash interrupted.
    fn settle(&self, purpose: Purpose) -> Result<Contents, StoreError> {
        let contents = check_contents(&self.path)?;
        let (data, new) = (self.data_file(), self.new_data_file());
        if contents == Contents::Store && !is_there(&data)? {
            // A new store writes its first data file, then the format file, and then renames the
            // data file. If a crash came before the rename, only the rename is missing.
            if purpose == Purpose::Read {
                return Err(unfinished_store(&self.path)
                    .with_hint("open the store for writing once, which completes it"));
            }
            fs::rename(&new, &data).map_err(|error| file("cannot rename the data file", error))?;
            sync_directory(&self.path)?;
        } else if purpose != Purpose::Read && is_there(&new)? {
            fs::remove_file(&new).map_err(|error| file("cannot remove an unfinished data file", error))?;
        }
        Ok(contents)
    }

    /// Renames the data file of a backup, so that the directory becomes a store. The file must be complete
    /// and on disk.
    pub(crate) fn publish_backup(&self) -> Result<(), StoreError> {
        fs::rename(self.backup_file(), self.new_data_file())
            .map_err(|error| file("cannot rename the data file", error))?;
        self.publish_first()
    }

    /// Writes the format file of a new store, and renames its first data file to the final name. The
    /// directory is then a store.
    pub(crate) fn publish_first(&self) -> Result<(), StoreError> {
        write_format(&self.path)?;
        self.publish()
    }

    /// Removes the files of a store that is not completed. Removes the directory too, unless it `existed` before.
    pub(crate) fn abandon(self, existed: bool) {
        for name in [BACKUP_FILE, NEW_DATA_FILE, DATA_FILE, FORMAT_FILE, LOCK_FILE] {
            let _ = fs::remove_file(self.path.join(name));
        }
        if !existed {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Replaces the data file of the store by the new data file, which must be complete and on disk.
    pub(crate) fn publish(&self) -> Result<(), StoreError> {
        self.rename_new_data()?;
        self.sync()
    }

    /// Renames the new data file, as [`publish`](Self::publish) does, and does not wait until the name is on disk.
    pub(crate) fn rename_new_data(&self) -> Result<(), StoreError> {
        fs::rename(self.new_data_file(), self.data_file())
            .map_err(|error| file("cannot rename the data file", error))
    }

    /// Waits until the names of the directory's files are on disk.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        sync_directory(&self.path)
    }
}

/// Creates an empty directory that only its owner can access.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(|error| file(&format!("cannot create the directory {}", path.display()), error))
}

/// Opens a file that only its owner can access. Creates the file if it does not exist.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes the `format` file of a new store, completely or not at all.
pub(crate) fn write_format(path: &Path) -> Result<(), StoreError> {
    let what = |error| file("cannot write the format file", error);
    let unfinished = path.join(NEW_FORMAT_FILE);
    let mut format = open_private(&unfinished).map_err(what)?;
    format.set_len(0).map_err(what)?;
    writeln!(format, "{FORMAT_WORDS} {STORE_FORMAT_VERSION}").map_err(what)?;
    format.sync_all().map_err(what)?;
    fs::rename(&unfinished, path.join(FORMAT_FILE)).map_err(what)?;
    sync_directory(path)
}

/// Stores the current format version in the `format` file of a store that has an older one.
pub(crate) fn raise_format(path: &Path) -> Result<(), StoreError> {
    let format = read_text(&path.join(FORMAT_FILE));
    let format = format.map_err(|error| file("cannot read the format file", error))?;
    if format.trim_end() == format!("{FORMAT_WORDS} {STORE_FORMAT_VERSION}") {
        return Ok(());
    }
    write_format(path)
}

/// Syncs a directory, so that created and renamed files keep their names after a crash.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| file("cannot sync the directory", error))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Returns whether a file exists. Returns an error if the permission to check is missing.
fn is_there(path: &Path) -> Result<bool, StoreError> {
    path.try_exists()
        .map_err(|error| file(&format!("cannot look for {}", path.display()), error))
}

#[cold]
fn no_store(path: &Path) -> StoreError {
    StoreError::new(
        StoreErrorKind::Table,
        format!("there is no store at {}", path.display()),
    )
    .with_hint("check the address, or open the store with the option `create` and apply a schema")
}

#[cold]
fn unfinished(path: &Path, kind: StoreErrorKind, what: &str) -> StoreError {
    let message = format!("{} is {what}: its creation was interrupted", path.display());
    StoreError::new(kind, message)
        .with_hint("delete the folder, and repeat the backup or create the store again")
}

/// Returns the error for an incomplete store. Its kind is `Table`, as for a missing store, so that a process
/// that creates stores creates this one again.
#[cold]
fn unfinished_store(path: &Path) -> StoreError {
    unfinished(path, StoreErrorKind::Table, "an unfinished store or backup")
}

#[cold]
fn unfinished_backup(path: &Path) -> StoreError {
    unfinished(path, StoreErrorKind::Corrupt, "an unfinished backup")
}

/// Rejects a directory that contains other files, because a store must not be created among them. Ignores
/// hidden files, and files that a file system puts into its root.
fn check_own(path: &Path) -> Result<(), StoreError> {
    let unreadable = |error| file(&format!("cannot read the directory {}", path.display()), error);
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let name = name.to_string_lossy();
        let own = [LOCK_FILE, NEW_DATA_FILE, NEW_FORMAT_FILE, "lost+found"];
        if !own.contains(&&*name) && !name.starts_with('.') {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!("{} has other files ({name}) and is not a store", path.display()),
            )
            .with_hint(
                "use a separate directory for the store: an empty one, or one that does not exist yet",
            ));
        }
    }
    Ok(())
}

/// Returns the kind of content at `path`. Returns an error if `path` is neither a store of this version nor a
/// path at which a store can be created.
fn check_contents(path: &Path) -> Result<Contents, StoreError> {
    let place = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::Nothing),
        Err(error) => return Err(file(&format!("cannot access {place}"), error)),
        Ok(metadata) if !metadata.is_dir() => {
            return Err(corrupt(format!("{place} is not a directory"))
                .with_hint("give the path of the store's directory, not of a file"));
        }
        Ok(_) => {}
    }
    let has_data = is_there(&path.join(DATA_FILE))?;
    let has_new_data = is_there(&path.join(NEW_DATA_FILE))?;
    let format = match read_text(&path.join(FORMAT_FILE)) {
        Ok(format) => format,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if has_data {
                return Err(corrupt(format!("{place} has a data file, but no format file"))
                    .with_hint("restore the whole directory from a backup"));
            }
            if is_there(&path.join(BACKUP_FILE))? {
                return Err(unfinished_backup(path));
            }
            let contents = if has_new_data {
                Contents::Unfinished
            } else {
                Contents::Empty
            };
            return Ok(contents);
        }
        Err(error) => return Err(file(&format!("cannot read the format file of {place}"), error)),
    };
    let version = format
        .strip_prefix(FORMAT_WORDS)
        .and_then(|version| version.trim().parse::<u32>().ok())
        .ok_or_else(|| {
            corrupt(format!("the format file of {place} does not belong to a store"))
                .with_hint("check the path, or restore the directory from a backup")
        })?;
    if !(OLDEST_STORE_FORMAT..=STORE_FORMAT_VERSION).contains(&version) {
        return Err(StoreError::new(
            StoreErrorKind::Version,
            format!(
                "{place} has format {version}; this release reads formats {OLDEST_STORE_FORMAT} to \
                 {STORE_FORMAT_VERSION}"
            ),
        )
        .with_hint("open the store with the release that created it, or with a newer one"));
    }
    if !has_data && !has_new_data {
        return Err(corrupt(format!("the data file of {place} is missing"))
            .with_hint("restore the directory from a backup"));
    }
    Ok(Contents::Store)
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_TEXT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Locks a directory, exclusively for writing or shared for reading. A writer also writes its description
/// into the lock file. The lock is held until the returned file is closed.
fn lock(path: &Path, read_only: bool) -> Result<File, StoreError> {
    let place = path.join(LOCK_FILE);
    let what = |error| file("cannot open the lock file", error);
    let mut lock = if read_only {
        open_to_share(path, &place).map_err(what)?
    } else {
        open_private(&place).map_err(what)?
    };
    let taken = if read_only {
        lock.try_lock_shared()
    } else {
        lock.try_lock()
    };
    match taken {
        Ok(()) => {}
        // If a shared lock succeeds, only readers hold the store. Readers write no description of
        // themselves into the lock file, so report them without one.
        Err(TryLockError::WouldBlock) if !read_only && lock.try_lock_shared().is_ok() => {
            return Err(read_by_others(path));
        }
        Err(TryLockError::WouldBlock) => {
            let holder = read_text(&place).unwrap_or_default();
            return Err(held(path, StoreHolder::read(&holder)));
        }
        Err(TryLockError::Error(error)) => return Err(file("cannot lock the store", error)),
    }
    if !read_only {
        let what = |error| file("cannot write the lock file", error);
        lock.set_len(0).map_err(what)?;
        lock.rewind().map_err(what)?;
        writeln!(lock, "{}", this_process()).map_err(what)?;
    }
    Ok(lock)
}

/// Opens the file that readers lock: the lock file, or the directory if there is no lock file and none can be created.
fn open_to_share(path: &Path, place: &Path) -> io::Result<File> {
    match File::open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            open_private(place).or_else(|_| File::open(path))
        }
        opened => opened,
    }
}

#[cold]
fn held(path: &Path, holder: Option<StoreHolder>) -> StoreError {
    let place = path.display();
    let (message, hint) = match holder {
        None => (
            format!("{place} is open in another process"),
            "wait until that process closes the store, or stop it",
        ),
        Some(StoreHolder { process, url: None }) => (
            format!("{place} is open in {process}"),
            "wait until that process closes the store, or stop it",
        ),
        Some(StoreHolder {
            process,
            url: Some(url),
        }) => (
            format!("{place} is open in {process}, which serves it at {url}"),
            "send requests to that server, or stop it",
        ),
    };
    StoreError::new(StoreErrorKind::Conflict, message).with_hint(format!(
        "{hint}: only one process can write a store, or several can read it"
    ))
}

#[cold]
fn read_by_others(path: &Path) -> StoreError {
    StoreError::new(
        StoreErrorKind::Conflict,
        format!("{} is open for reading in another process", path.display()),
    )
    .with_hint(
        "wait until all processes that read the store close it, or stop them: only one process can write a \
         store, or several can read it",
    )
}

/// Rejects a path at which something exists, because a backup or a restore overwrites nothing.
///
/// # Errors
/// `Invalid`: there is something at `path`. `Conflict`: another process has the store at `path` open.
pub fn refuse_occupied(path: &Path) -> Result<(), StoreError> {
    if let Some(holder) = store_holder(path) {
        return Err(held(path, Some(holder)));
    }
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => fs::symlink_metadata(path).is_err(),
    };
    if is_empty {
        return Ok(());
    }
    let what = if path.join(FORMAT_FILE).exists() {
        "a store"
    } else {
        "a file or folder"
    };
    Err(occupied(path, what))
}

#[cold]
fn occupied(path: &Path, what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("{what} exists already at {}", path.display()),
    )
    .with_hint("use a folder that is empty or does not exist yet: a copy overwrites nothing")
}

/// Returns the folder that contains `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns a readable description of this process: `process 123 on host: recto serve`.
fn this_process() -> String {
    let command: Vec<String> = std::env::args_os()
        .take(SHOWN_ARGUMENTS)
        .enumerate()
        .map(|(index, argument)| {
            let argument = argument.to_string_lossy().into_owned();
            let name = Path::new(&argument).file_name().filter(|_| index == 0);
            name.map_or_else(|| argument.clone(), |name| name.to_string_lossy().into_owned())
        })
        .collect();
    format!(
        "process {} on {}: {}",
        std::process::id(),
        host(),
        command.join(" ")
    )
}

/// Number of words of the command that the lock file contains: the command and its subcommand. Further arguments may
/// contain secrets.
const SHOWN_ARGUMENTS: usize = 2;

#[cfg(target_os = "linux")]
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "this computer".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this computer".to_owned())
}

//! The directory a store is: which files it has, who holds it, what may open it.
//!
//! | file | what |
//! |---|---|
//! | `format` | text: what this directory is, and the version of its format; looked at before anything else |
//! | `lock` | text: who holds the store; locked by them as long as they do |
//! | `data.redb` | the data |
//! | `data.redb.new` | a data file being made; of no worth until it has its name |
//!
//! Nothing is changed in a directory that is refused.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use recto_store::{StoreError, StoreErrorKind};

use crate::error::{corrupt, file};

/// The version of the directory's format, and of all in it that has no version of its own.
pub const STORE_FORMAT_VERSION: u32 = 1;

/// What the `format` file begins with.
const FORMAT_WORDS: &str = "recto-embedded";
const FORMAT_FILE: &str = "format";
const NEW_FORMAT_FILE: &str = "format.new";
const LOCK_FILE: &str = "lock";
const DATA_FILE: &str = "data.redb";
const NEW_DATA_FILE: &str = "data.redb.new";

/// The most bytes read of a `format` or `lock` file.
const MAX_TEXT_BYTES: u64 = 4_096;

/// A directory that is, or is to be, a store; held while this lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Holds the lock. Closing it gives it up, as does the end of the process, however it comes.
    lock: File,
}

/// What stands in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A store.
    Store,
    /// No store yet.
    Empty,
}

impl Directory {
    /// Takes the directory at `path` for this process. Makes it if it is not there, unless `read_only`.
    pub(crate) fn take(path: &Path, read_only: bool) -> Result<(Self, Contents), StoreError> {
        let existed = path.exists();
        if !existed && read_only {
            return Err(StoreError::new(
                StoreErrorKind::Storage,
                format!("there is no store at {}", path.display()),
            )
            .with_hint("check the path, or open it for writing to make one"));
        }
        if existed {
            // Looked at before the lock file is made: a directory that is refused stays as it is.
            let contents = check_contents(path)?;
            if contents == Contents::Empty && !read_only {
                check_own(path)?;
            }
        } else {
            make_directory(path)?;
        }
        let lock = lock(path, read_only)?;
        let directory = Self {
            path: path.to_owned(),
            lock,
        };
        let contents = directory.settle(read_only)?;
        Ok((directory, contents))
    }

    /// Gives the directory up before this is dropped.
    pub(crate) fn give_up(&self) -> Result<(), StoreError> {
        self.lock
            .unlock()
            .map_err(|error| file("giving up the lock", error))
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

    /// Looks again, now that nobody else changes it, and ends what a crash interrupted.
    fn settle(&self, read_only: bool) -> Result<Contents, StoreError> {
        let contents = check_contents(&self.path)?;
        let (data, new) = (self.data_file(), self.new_data_file());
        if contents == Contents::Store && !data.exists() {
            // The format file is written when the first data file is whole, before it gets its name.
            if read_only {
                return Err(corrupt("the store was never made whole").with_hint("open it for writing once"));
            }
            fs::rename(&new, &data).map_err(|error| file("naming the data file", error))?;
            sync_directory(&self.path)?;
        } else if new.exists() && !read_only {
            fs::remove_file(&new).map_err(|error| file("removing an unfinished data file", error))?;
        }
        Ok(contents)
    }

    /// Makes the new data file the data file of a new store.
    pub(crate) fn publish_first(&self) -> Result<(), StoreError> {
        write_format(&self.path)?;
        self.publish()
    }

    /// Takes away what was made of a store that is not to be; the directory too, unless it `existed`.
    pub(crate) fn abandon(self, existed: bool) {
        for name in [NEW_DATA_FILE, DATA_FILE, FORMAT_FILE, LOCK_FILE] {
            let _ = fs::remove_file(self.path.join(name));
        }
        if !existed {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Makes the new data file, which is on disk whole, the data file.
    pub(crate) fn publish(&self) -> Result<(), StoreError> {
        fs::rename(self.new_data_file(), self.data_file())
            .map_err(|error| file("naming the data file", error))?;
        sync_directory(&self.path)
    }
}

/// Makes an empty directory, for its owner only.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(|error| file(&format!("making the directory {}", path.display()), error))
}

/// Opens a file for its owner only, made if it is not there.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes the `format` file of a new store, whole or not at all.
pub(crate) fn write_format(path: &Path) -> Result<(), StoreError> {
    let what = |error| file("writing the format file", error);
    let unfinished = path.join(NEW_FORMAT_FILE);
    let mut format = open_private(&unfinished).map_err(what)?;
    format.set_len(0).map_err(what)?;
    writeln!(format, "{FORMAT_WORDS} {STORE_FORMAT_VERSION}").map_err(what)?;
    format.sync_all().map_err(what)?;
    fs::rename(&unfinished, path.join(FORMAT_FILE)).map_err(what)?;
    sync_directory(path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| file("making the directory durable", error))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Whether a store was made at `path`, or begun.
pub(crate) fn is_store(path: &Path) -> bool {
    [FORMAT_FILE, DATA_FILE, NEW_DATA_FILE]
        .iter()
        .any(|name| path.join(name).exists())
}

/// Refuses a directory that others' files are in: no store is made between them. What is hidden, and
/// what a file system puts into its root, is nobody's.
fn check_own(path: &Path) -> Result<(), StoreError> {
    let unreadable = |error| file(&format!("reading the directory {}", path.display()), error);
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let name = name.to_string_lossy();
        let own = [LOCK_FILE, NEW_DATA_FILE, NEW_FORMAT_FILE, "lost+found"];
        if !own.contains(&&*name) && !name.starts_with('.') {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!(
                    "{} has other files in it ({name}) and is no store",
                    path.display()
                ),
            )
            .with_hint("a store is a directory of its own: name one that is empty or not there yet"));
        }
    }
    Ok(())
}

/// What stands at `path`; an error if it is no store of this version and no place for one.
fn check_contents(path: &Path) -> Result<Contents, StoreError> {
    let place = path.display();
    if !path.is_dir() {
        return Err(corrupt(format!("{place} is not a directory"))
            .with_hint("a store is a directory: give its path, not that of a file"));
    }
    let has_data = path.join(DATA_FILE).exists();
    let format = match read_text(&path.join(FORMAT_FILE)) {
        Ok(format) => format,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if has_data {
                return Err(corrupt(format!("{place} has a data file and no format file"))
                    .with_hint("restore the directory whole from a backup"));
            }
            return Ok(Contents::Empty);
        }
        Err(error) => return Err(file(&format!("reading the format file of {place}"), error)),
    };
    let version = format
        .strip_prefix(FORMAT_WORDS)
        .and_then(|version| version.trim().parse::<u32>().ok())
        .ok_or_else(|| {
            corrupt(format!("{place} has a format file that is not a store's"))
                .with_hint("check the path, or restore the directory from a backup")
        })?;
    if version != STORE_FORMAT_VERSION {
        return Err(StoreError::new(
            StoreErrorKind::Version,
            format!("{place} has format {version}, this release reads {STORE_FORMAT_VERSION}"),
        )
        .with_hint("open it with the release that made it, or a newer one"));
    }
    if !has_data && !path.join(NEW_DATA_FILE).exists() {
        return Err(corrupt(format!("{place} has lost its data file"))
            .with_hint("restore the directory from a backup"));
    }
    Ok(Contents::Store)
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_TEXT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Takes the lock of a directory: alone to write, with other readers to read.
fn lock(path: &Path, read_only: bool) -> Result<File, StoreError> {
    let place = path.join(LOCK_FILE);
    let what = |error| file("opening the lock file", error);
    let mut lock = if read_only && place.exists() {
        File::open(&place).map_err(what)?
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
        Err(TryLockError::WouldBlock) => {
            let holder = read_text(&place).unwrap_or_default();
            return Err(held(path, holder.trim()));
        }
        Err(TryLockError::Error(error)) => return Err(file("locking the store", error)),
    }
    if !read_only {
        let what = |error| file("writing the lock file", error);
        lock.set_len(0).map_err(what)?;
        lock.rewind().map_err(what)?;
        writeln!(lock, "{}", this_process()).map_err(what)?;
    }
    Ok(lock)
}

#[cold]
fn held(path: &Path, holder: &str) -> StoreError {
    let holder = if holder.is_empty() {
        "another process"
    } else {
        holder
    };
    StoreError::new(
        StoreErrorKind::Conflict,
        format!("{} is open in {holder}", path.display()),
    )
    .with_hint(
        "one process holds an embedded store; if that is `recto serve`, ask it: recto … --store http://127.0.0.1:8080, \
         with the address it printed; else stop it first",
    )
}

/// Who this is, for people: `process 123 on host: recto serve`.
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

/// How many words of the command the lock file names: the command and its subcommand. Further
/// arguments may hold secrets.
const SHOWN_ARGUMENTS: usize = 2;

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this computer".to_owned())
}

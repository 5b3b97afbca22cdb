//! Translation of the errors of the engine (redb) into store errors, and the place where panics of the engine
//! are caught.

use std::cell::Cell;
use std::fmt;
use std::io;

use recto_store::panics::caught;
use recto_store::{StoreError, StoreErrorKind};

/// Hint of errors that report damage.
pub(crate) const DAMAGE_HINT: &str = "stop writing to the store, run a check of it, and restore the last \
    backup if the check finds damage";

/// Converts an error of the engine (redb) to a store error with a hint.
#[cold]
pub(crate) fn engine(error: impl Into<redb::Error>) -> StoreError {
    let error = error.into();
    match &error {
        redb::Error::Io(cause) if cause.kind() == io::ErrorKind::InvalidData => {
            corrupt(format!("the file is not a store, or is damaged: {cause}")).with_source(error)
        }
        // Report damage: the file is too short, or a damaged page refers to a page that does not
        // exist.
        redb::Error::Io(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            corrupt("the store is damaged: the file ends before one of its pages").with_source(error)
        }
        redb::Error::Io(cause) => {
            let what = if is_full(cause.kind()) {
                "the disk is full"
            } else {
                "the file system reported an error"
            };
            storage(format!("{what}: {cause}"), cause.kind()).with_source(error)
        }
        redb::Error::Corrupted(what) => {
            let message = damaged_page().unwrap_or_else(|| format!("the store is damaged: {what}"));
            corrupt(message).with_source(error)
        }
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => StoreError::new(
            StoreErrorKind::Storage,
            "the store stopped after an error of the file system",
        )
        .with_hint("free disk space or repair the disk, then open the store again")
        .with_source(error),
        redb::Error::DatabaseAlreadyOpen => {
            StoreError::new(StoreErrorKind::Conflict, "the store is open in another place").with_source(error)
        }
        redb::Error::UpgradeRequired(version) => StoreError::new(
            StoreErrorKind::Version,
            format!("the data file has the engine's format {version}, which this release cannot read"),
        )
        .with_hint("open it with the release that created it")
        .with_source(error),
        _ => StoreError::new(
            StoreErrorKind::Other,
            format!("the storage engine failed: {error}"),
        )
        .with_source(error),
    }
}

/// Returns whether the engine (redb) rejects all calls after this error, so that it must be reopened.
pub(crate) fn stops_engine(error: &StoreError) -> bool {
    let source = std::error::Error::source(error);
    let is_poisoned = |panic: &Panicked| panic.0.contains(POISONED);
    error.kind() == StoreErrorKind::Storage
        || matches!(
            source.and_then(|source| source.downcast_ref()),
            Some(redb::Error::Io(_))
        )
        || source
            .and_then(|source| source.downcast_ref())
            .is_some_and(is_poisoned)
}

/// Returns the error of a store that is closed because its disk failed.
#[cold]
pub(crate) fn stopped() -> StoreError {
    StoreError::new(
        StoreErrorKind::Storage,
        "the store stopped after an error of the file system",
    )
    .with_hint("free disk space or repair the disk, and try again: the store then opens itself")
}

/// Returns the error of a store that its user closed.
#[cold]
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the store was closed").with_hint("open it again")
}

/// Returns the error of a file system operation, which `what` describes.
#[cold]
pub(crate) fn file(what: &str, error: io::Error) -> StoreError {
    storage(format!("{what}: {error}"), error.kind()).with_source(error)
}

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn storage(message: String, kind: io::ErrorKind) -> StoreError {
    let hint = match kind {
        kind if is_full(kind) => "free disk space, then open the store again",
        io::ErrorKind::PermissionDenied => "run as the user who owns the directory, or change its owner",
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::ReadOnlyFilesystem => {
            "open the store read-only (`recto serve --read-only`), or use a writable file system"
        }
        _ => "check the disk",
    };
    StoreError::new(StoreErrorKind::Storage, message).with_hint(hint)
}

/// Returns the error of damaged data.
#[cold]
pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message).with_hint(DAMAGE_HINT)
}

/// Returns the error of an operation `what` that reached its deadline.
#[cold]
pub(crate) fn timeout(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Timeout,
        format!("{what} took longer than its timeout"),
    )
    .with_hint("set a longer timeout, or request less")
}

/// Runs `work`, which reads or writes pages, and turns a panic into an error.
///
/// redb trusts the pages that it reads: on a damaged page it may panic, instead of returning an error (see its
/// `Builder::set_check_integrity_on_open`). A panic leaves no partial change in this crate: reads build the values that
/// they return, and a write transaction that unwinds is rolled back. If the engine panicked while it held one of its
/// locks, it would panic again while it unwinds, which cannot be caught. That does not happen, because damaged pages do
/// not reach the engine (`verified`).
#[inline]
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    DAMAGED_PAGE.set(None);
    caught(work).unwrap_or_else(|panic| Err(unwound(panic.as_ref())))
}

/// Wrapper of a database or a transaction of the engine, which the engine closes when it is dropped. The
/// wrapper catches a panic of the close, because the engine may panic again after an earlier panic. The panic
/// loses nothing, because acknowledged writes are on disk.
pub(crate) struct Closing<T>(Option<T>);

impl<T> Closing<T> {
    pub(crate) fn new(opened: T) -> Self {
        Self(Some(opened))
    }
}

impl<T> std::ops::Deref for Closing<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken when this is dropped")
    }
}

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        let opened = self.0.take();
        let _ = guarded(|| {
            drop(opened);
            Ok(())
        });
    }
}

thread_local! {
    /// Offset of the damaged page that this thread has read during its current work.
    static DAMAGED_PAGE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Records that this thread has read a damaged page, so that the error that follows names the page.
pub(crate) fn met_damage(offset: u64) {
    DAMAGED_PAGE.set(Some(offset));
}

/// Returns the description of the recorded damaged page, if there is one.
fn damaged_page() -> Option<String> {
    DAMAGED_PAGE.take().map(page_damage)
}

/// Returns the description of a damaged page of the data file.
pub(crate) fn page_damage(offset: u64) -> String {
    format!("the page at byte {offset} of the data file is damaged: its checksum is wrong")
}

/// Message of a panic of the engine, as the source of a store error.
#[derive(Debug)]
struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the storage engine failed: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// Part of the message with which the engine panics at every call after it has panicked while it held a lock.
const POISONED: &str = "PoisonError";

#[cold]
fn unwound(panic: &(dyn std::any::Any + Send)) -> StoreError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let message = damaged_page()
        .unwrap_or_else(|| format!("the store is damaged: the engine cannot read some of its pages: {what}"));
    corrupt(message).with_source(Panicked(what))
}

//! What the engine below reports, as store errors; and the seam where its panics stop.

use std::cell::Cell;
use std::fmt;
use std::io;

use recto_store::panics::caught;
use recto_store::{StoreError, StoreErrorKind};

/// What to do about a damaged store.
pub(crate) const DAMAGE_HINT: &str = "stop writing to it, run a check of the store, and restore the last backup if \
     the check finds damage";

/// An error of the engine.
#[cold]
pub(crate) fn engine(error: impl Into<redb::Error>) -> StoreError {
    let error = error.into();
    match &error {
        redb::Error::Io(cause) if cause.kind() == io::ErrorKind::InvalidData => {
            corrupt(format!("the store is not one, or is damaged: {cause}")).with_source(error)
        }
        // The file was cut short, or a damaged page names one that is not there.
        redb::Error::Io(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            corrupt("the store is damaged: a page of it lies beyond the end of its file").with_source(error)
        }
        redb::Error::Io(cause) => {
            let what = if is_full(cause.kind()) {
                "the disk is full"
            } else {
                "the file system refused"
            };
            storage(format!("{what}: {cause}"), cause.kind()).with_source(error)
        }
        redb::Error::Corrupted(what) => {
            let message = damaged_page().unwrap_or_else(|| format!("the store is damaged: {what}"));
            corrupt(message).with_source(error)
        }
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => StoreError::new(
            StoreErrorKind::Storage,
            "the store stopped after the file system refused a read or a write",
        )
        .with_hint("free disk space or repair the disk, then open the store again")
        .with_source(error),
        redb::Error::DatabaseAlreadyOpen => {
            StoreError::new(StoreErrorKind::Conflict, "the store is open elsewhere").with_source(error)
        }
        redb::Error::UpgradeRequired(version) => StoreError::new(
            StoreErrorKind::Version,
            format!("the data file has the engine's format {version}, which this release cannot read"),
        )
        .with_hint("open it with the release that made it")
        .with_source(error),
        _ => StoreError::new(StoreErrorKind::Other, format!("the engine failed: {error}")).with_source(error),
    }
}

/// Whether the engine refuses everything after this error.
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

/// The store is closed because its disk failed.
#[cold]
pub(crate) fn stopped() -> StoreError {
    StoreError::new(
        StoreErrorKind::Storage,
        "the store stopped after the file system refused a read or a write",
    )
    .with_hint("free disk space or repair the disk, and try again: the store opens itself again")
}

/// Whoever uses it closed the store.
#[cold]
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the store was closed").with_hint("open it again")
}

/// An error of the file system at `what`.
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
            "open the store read-only (`recto serve --read-only`), or on a file system that can be written"
        }
        _ => "check the disk",
    };
    StoreError::new(StoreErrorKind::Storage, message).with_hint(hint)
}

/// What the store holds is damaged.
#[cold]
pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message).with_hint(DAMAGE_HINT)
}

/// The deadline passed while doing `what`.
#[cold]
pub(crate) fn timeout(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Timeout,
        format!("{what} took longer than its timeout"),
    )
    .with_hint("allow more time, or ask for less")
}

/// Runs `work`, which reads or writes pages, and turns a panic into an error.
///
/// redb trusts the pages it reads: on a damaged one it may panic rather than fail (its
/// `Builder::set_check_integrity_on_open` says so). Nothing of ours is left half-changed by that:
/// reads build what they return, and a write transaction that unwinds is rolled back. A panic with one of the
/// engine's locks held would be followed by another while it unwinds, which nothing can catch: that
/// does not come about since damaged pages are kept from the engine (`verified`).
#[inline]
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    DAMAGED_PAGE.set(None);
    caught(work).unwrap_or_else(|panic| Err(unwound(panic.as_ref())))
}

/// What belongs to the engine and is closed when it is dropped. After a panic the engine may panic
/// again while it closes, which concerns nobody any more: what was acknowledged is on disk.
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
    /// Where the damaged page begins that this thread met in the work it does now.
    static DAMAGED_PAGE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Takes note of a damaged page, for the error that follows.
pub(crate) fn met_damage(offset: u64) {
    DAMAGED_PAGE.set(Some(offset));
}

/// What to say of the damaged page that was met, if one was.
fn damaged_page() -> Option<String> {
    DAMAGED_PAGE.take().map(page_damage)
}

/// A page of the data file does not hold.
pub(crate) fn page_damage(offset: u64) -> String {
    format!("the page at byte {offset} of the data file is damaged: its checksum does not hold")
}

/// What the engine panicked with.
#[derive(Debug)]
struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine could not go on: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// What the engine panics with at every call, once it has panicked while it held a lock.
const POISONED: &str = "PoisonError";

#[cold]
fn unwound(panic: &(dyn std::any::Any + Send)) -> StoreError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let message = damaged_page()
        .unwrap_or_else(|| format!("the store is damaged: the engine met pages it cannot read: {what}"));
    corrupt(message).with_source(Panicked(what))
}

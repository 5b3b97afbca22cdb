//! Check of the Tokio runtime that runs a store's futures.

use std::time::Duration;

use recto_store::panics::caught;
use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};

/// Returns an error if there is no Tokio runtime with timers, which the futures of a store need.
pub(crate) fn check() -> Result<()> {
    if Handle::try_current().is_err() {
        return Err(missing("Recto's futures need a Tokio runtime"));
    }
    if !has_timers() {
        return Err(missing(
            "this Tokio runtime has no timers, which Recto's deadlines need",
        ));
    }
    Ok(())
}

/// Returns whether the current Tokio runtime has timers. Tokio has no function for this check, but
/// a sleep panics without timers.
fn has_timers() -> bool {
    caught(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

#[cold]
fn missing(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_hint(
        "use #[tokio::main], or a runtime from Builder::enable_all(); without async, use recto::blocking",
    )
}

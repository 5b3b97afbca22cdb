//! What a store needs of the runtime that its futures run on.

use std::time::Duration;

use recto_store::panics::caught;
use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};

/// Refuses to open a store where its futures could not run: they need Tokio, and its timers.
pub(crate) fn check() -> Result<()> {
    if Handle::try_current().is_err() {
        return Err(missing(
            "there is no Tokio runtime here, which Recto's futures run on",
        ));
    }
    if !has_timers() {
        return Err(missing(
            "this Tokio runtime has no timers, which Recto's deadlines need",
        ));
    }
    Ok(())
}

/// Tokio does not say whether timers are on: a sleep panics where they are not.
fn has_timers() -> bool {
    caught(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

#[cold]
fn missing(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_hint(
        "use #[tokio::main], or a runtime made with Builder::enable_all(); a program without async uses recto::blocking",
    )
}

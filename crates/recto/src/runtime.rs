//! What a store needs of the runtime that its futures run on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};

/// Refuses to open a store where its futures could not run: they need Tokio, and its timers.
pub(crate) fn check() -> Result<()> {
    if Handle::try_current().is_err() {
        return Err(missing(
            "there is no Tokio runtime here, which Recto's futures run on",
        ));
    }
    // Tokio does not say whether timers are on: a sleep is refused where they are not.
    if catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO)))).is_err() {
        return Err(missing(
            "this Tokio runtime has no timers, which Recto's deadlines need",
        ));
    }
    Ok(())
}

#[cold]
fn missing(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_hint(
        "use #[tokio::main], or a runtime made with Builder::enable_all(); a program without async uses recto::blocking",
    )
}

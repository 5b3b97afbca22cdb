//! What a store needs of the runtime that its futures run on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
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
    if !has_timers() {
        return Err(missing(
            "this Tokio runtime has no timers, which Recto's deadlines need",
        ));
    }
    Ok(())
}

thread_local! {
    /// Whether this thread finds out whether there are timers.
    static FINDING_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Tokio does not say whether timers are on: a sleep panics where they are not. What it would print of that is
/// told by an error; the hook that prints panics is asked about all others as before.
fn has_timers() -> bool {
    static QUIET: Once = Once::new();
    // Whoever opens a store while a panic unwinds must not touch the hook.
    if !std::thread::panicking() {
        QUIET.call_once(|| {
            let hook = take_hook();
            set_hook(Box::new(move |panic| {
                if !FINDING_OUT.get() {
                    hook(panic);
                }
            }));
        });
    }
    FINDING_OUT.set(true);
    let slept = catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO))));
    FINDING_OUT.set(false);
    slept.is_ok()
}

#[cold]
fn missing(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_hint(
        "use #[tokio::main], or a runtime made with Builder::enable_all(); a program without async uses recto::blocking",
    )
}

//! Conversion of panics to errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::thread;

static QUIET_HOOK: Once = Once::new();

thread_local! {
    /// True while this thread runs code whose panic becomes an error.
    static CAUGHT_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and catches its panic. The panic is not printed, because the caller reports it as an error.
/// Other panics still call the previous hook, which prints them.
///
/// # Errors
/// The payload of the panic of `work`.
#[inline]
pub fn caught<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    // Do not install the hook while a panic unwinds, because changing the hook then panics again.
    if !QUIET_HOOK.is_completed() && !thread::panicking() {
        QUIET_HOOK.call_once(keep_caught_panics_quiet);
    }
    let outer = CAUGHT_HERE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT_HERE.set(outer);
    result
}

fn keep_caught_panics_quiet() {
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if !CAUGHT_HERE.get() {
            hook(panic);
        }
    }));
}

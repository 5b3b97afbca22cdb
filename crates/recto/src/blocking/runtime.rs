//! The runtime that blocking calls run on.

use std::sync::{Mutex, OnceLock, PoisonError};

use futures::stream::{Stream, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};

/// Threads of the runtime: what callers wait for runs on their own threads, what is done beside it on these.
const THREADS: usize = 2;

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    let started = builder
        .worker_threads(THREADS)
        .thread_name("recto")
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, "no thread can be started").with_source(error))?;
    Ok(RUNTIME.get_or_init(|| started))
}

/// Runs a future to its end.
pub(super) fn wait<F>(future: F) -> Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    if Handle::try_current().is_err() {
        return Ok(runtime.block_on(future));
    }
    // A thread of a runtime may not wait for another: one of its own does.
    let waited = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join());
    Ok(waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// What a stream gives, one after the other.
pub(super) fn iterate<T: Send>(
    mut stream: impl Stream<Item = Result<T>> + Send + Unpin,
) -> Result<impl Iterator<Item = Result<T>>> {
    runtime()?;
    Ok(std::iter::from_fn(move || {
        wait(stream.next()).unwrap_or_else(|error| Some(Err(error)))
    }))
}

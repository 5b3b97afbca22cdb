//! Recto for programs without async. They call [`Wait::wait`] where an async program awaits.
//!
//! ```
//! use recto::blocking::Wait as _;
//! use recto::{OpenOptions, Record, Recto};
//!
//! #[derive(Debug, Record)]
//! #[record(collection = "notes", key = ["id"], writes = "overwrite")]
//! struct Note {
//!     id: i64,
//!     text: Option<String>,
//! }
//!
//! fn main() -> recto::Result<()> {
//!     # let folder = tempfile::tempdir().unwrap();
//!     let store = Recto::open_with(folder.path().join("notes"), OpenOptions::new().create()).wait()?;
//!     store.apply(&recto::schema_of([Note::collection()])).wait()?;
//!     let notes = store.collection::<Note>()?;
//!     notes.put(&Note { id: 7, text: Some("seven".into()) }).wait()?;
//!
//!     let page = notes.query().filter("id = 7").first(20).wait()?;
//!     assert_eq!(page.items()[0].text.as_deref(), Some("seven"));
//!     for note in notes.scan().stream().wait() {
//!         println!("{:?}", note?);
//!     }
//!     store.close().wait()
//! }
//! ```
//!
//! The calls of [`queues`](crate::queues) work in the same way. If the handler of a worker blocks, use a
//! [`blocking_worker`](crate::queues::Queue::blocking_worker).
//!
//! The futures run on the thread that waits, within a Tokio runtime of Recto's own. It has two threads for background
//! work, starts with the first call, and serves all stores of the process.

use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};

use futures::stream::{Stream, StreamExt as _};
use recto_store::panics::caught;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};

/// Number of background threads of Recto's own Tokio runtime.
const THREADS: usize = 2;

/// Waits for a future, or for each item of a stream. See the [module](self) for an example.
///
/// All futures and streams of this crate implement the trait. `Kind` distinguishes futures from streams; the
/// compiler infers it.
pub trait Wait<Kind> {
    /// The result of a future, or an iterator over the items of a stream.
    type Waited;

    /// Runs a future to its end, or converts a stream to an iterator.
    ///
    /// # Errors
    /// - The error of the future or the stream.
    /// - [`ErrorKind::Unsupported`]: the call is inside an async function, whose thread must not wait. Use
    ///   `.await` there, or call `wait` within `tokio::task::spawn_blocking`.
    /// - [`ErrorKind::Io`]: the runtime cannot start its threads.
    fn wait(self) -> Self::Waited;
}

/// Output of a future that [`Wait`] accepts: a result, or a list with one result for each input.
pub trait Outcome {
    /// The value of a future that succeeds.
    type Value;

    /// Converts the output to one result. A list of results becomes the value of a successful result.
    ///
    /// # Errors
    /// The error of the future.
    fn into_result(self) -> Result<Self::Value>;
}

impl<T> Outcome for Result<T> {
    type Value = T;

    fn into_result(self) -> Self {
        self
    }
}

impl<T> Outcome for Vec<Result<T>> {
    type Value = Self;

    fn into_result(self) -> Result<Self> {
        Ok(self)
    }
}

/// Marker type that selects the implementation of [`Wait`] for futures.
#[derive(Debug)]
pub enum FutureKind {}

/// Marker type that selects the implementation of [`Wait`] for streams.
#[derive(Debug)]
pub enum StreamKind {}

impl<F> Wait<FutureKind> for F
where
    F: IntoFuture<Output: Outcome>,
{
    type Waited = Result<<F::Output as Outcome>::Value>;

    fn wait(self) -> Self::Waited {
        block_on(self.into_future())?.into_result()
    }
}

impl<S, T> Wait<StreamKind> for S
where
    S: Stream<Item = Result<T>>,
{
    type Waited = Items<S>;

    fn wait(self) -> Items<S> {
        Items {
            stream: Some(Box::pin(self)),
        }
    }
}

/// Iterator over the items of a stream, up to its end or its first error. Each call of `next` blocks the
/// thread, and has the errors of [`Wait::wait`].
#[derive(Debug)]
pub struct Items<S> {
    stream: Option<Pin<Box<S>>>,
}

impl<S, T> Iterator for Items<S>
where
    S: Stream<Item = Result<T>>,
{
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let stream = self.stream.as_mut()?;
        let next = block_on(stream.next()).unwrap_or_else(|error| Some(Err(error)));
        if !matches!(next, Some(Ok(_))) {
            self.stream = None;
        }
        next
    }
}

fn block_on<F: Future>(future: F) -> Result<F::Output> {
    let runtime = runtime()?;
    if Handle::try_current().is_ok() && is_async_thread(runtime) {
        return Err(called_in_async());
    }
    Ok(runtime.block_on(future))
}

/// Returns whether the current thread runs async tasks. A thread of `spawn_blocking` also belongs to a
/// runtime, but may wait. Tokio has no function that distinguishes the two kinds of threads, but `block_on`
/// panics on a thread that runs async tasks.
fn is_async_thread(runtime: &Runtime) -> bool {
    caught(|| runtime.block_on(std::future::ready(()))).is_err()
}

#[cold]
fn called_in_async() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "wait() was called in an async function, whose thread must not block",
    )
    .with_hint("use .await, or call wait() in tokio::task::spawn_blocking")
}

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

//! Queue whose messages are values of one type, encoded as JSON.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::worker::{Failure, Worker};
use super::{Message, NewMessage, Queue, Sent};
use crate::error::{Error, ErrorKind, Result};

/// Queue whose messages are values of type `T`, encoded as JSON. A clone is cheap.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("store");
/// # let store = recto::Recto::open_with(folder, recto::OpenOptions::new().create()).await?;
/// use recto::queues::QueueOptions;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Mail {
///     to: String,
/// }
///
/// let mails = store.queues().await?.create("mails", QueueOptions::default()).await?;
/// let mails = mails.of::<Mail>();
/// mails.send(&Mail { to: "ada".into() }).await?;
/// let worker = mails.worker(|mail, _| async move {
///     assert_eq!(mail.to, "ada");
///     Ok(())
/// });
/// assert_eq!(worker.until_empty().run().await?.done, 1);
/// # Ok(())
/// # }
/// ```
pub struct TypedQueue<T> {
    queue: Queue,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for TypedQueue<T> {
    fn clone(&self) -> Self {
        Self::new(self.queue.clone())
    }
}

impl<T> fmt::Debug for TypedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}

impl<T> TypedQueue<T> {
    pub(super) fn new(queue: Queue) -> Self {
        Self {
            queue,
            of: PhantomData,
        }
    }

    /// Returns the underlying queue, whose messages are bytes.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl<T: Serialize> TypedQueue<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// The errors of [`Queue::send`]. [`ErrorKind::InvalidArgument`]: the value cannot be encoded as JSON.
    pub async fn send(&self, value: &T) -> Result<Sent> {
        self.queue.send(self.message(value)?).await
    }

    /// Returns the message of a value. Send it through [`queue`](Self::queue) to set a delay, a group or a
    /// deduplication id.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the value cannot be encoded as JSON.
    pub fn message(&self, value: &T) -> Result<NewMessage> {
        let body = serde_json::to_vec(value).map_err(|error| {
            let message = format!("the value cannot be written as JSON: {error}");
            Error::new(ErrorKind::InvalidArgument, message).with_source(error)
        })?;
        Ok(NewMessage::new(body))
    }
}

impl<T: DeserializeOwned + Send + 'static> TypedQueue<T> {
    /// Creates a worker whose handler receives each value together with its message. If a body cannot be parsed as a
    /// value, the message fails, and finally becomes a dead letter.
    pub fn worker<H, F>(&self, handler: H) -> Worker<Queue>
    where
        H: Fn(T, Message) -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<(), Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.queue.worker(move |message| {
            let handler = Arc::clone(&handler);
            async move {
                let value = serde_json::from_slice(&message.body).map_err(|error| {
                    Failure::new(format!("the body is not a value of this type: {error}"))
                })?;
                handler(value, message).await
            }
        })
    }
}

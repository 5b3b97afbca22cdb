//! A Recto server as a [`Session`](recto::Session): what tools ask of an open store, asked over HTTP.
//!
//! The same questions have the same answers and the same errors as on the machine where the store is.
//! Files that are loaded are sent; backups are made in a folder of the server.
//!
//! | module | holds |
//! |---|---|
//! | `session` | [`HttpSession`]: the questions as requests |
//! | `queues` | queues and their messages |
//! | `export` | all records of a collection, resumed after a cut connection |
//! | `upkeep` | looking after the store: progress, files sent, rejects received |
//! | `replies` | answers read |
//! | `problem` | problems (RFC 9457) as errors |
//! | `target` | paths and queries |
//! | `transport` | connections, deadlines, limits, what is tried again |
//! | `credentials` | the token, and whom it may be shown to |
//! | `tls` | whom `https://` trusts |

mod credentials;
mod export;
mod problem;
mod queues;
mod replies;
mod session;
mod target;
mod tls;
mod transport;
mod upkeep;

pub use export::{MAX_RESUMES, MAX_STEP_BYTES};
pub use queues::MAX_SENT_BYTES;
pub use session::HttpSession;
pub use transport::{
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_REQUEST_TIMEOUT, MAX_ATTEMPTS, MAX_REPLY_BYTES, MAX_RETRY_AFTER,
};

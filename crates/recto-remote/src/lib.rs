//! A running server as a [`Session`](recto::Session), so that tools work with a server as with an open store.
//!
//! The same requests have the same results and errors. A load sends its file to the server. A backup is created in a folder of
//! the server.
//!
//! | module | content |
//! |---|---|
//! | `session` | [`HttpSession`]: collections, records, maintenance |
//! | `queues` | queues and their messages |
//! | `export` | all records of a collection; continues after a cut connection |
//! | `work` | work that reports its progress |
//! | `rejects` | the file of the rows that a load rejected |

mod export;
mod queues;
mod rejects;
mod session;
mod work;

pub use export::{MAX_RESUMES, MAX_STEP_BYTES};
pub use queues::MAX_SENT_BYTES;
pub use session::HttpSession;

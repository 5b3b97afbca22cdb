//! Session of a running server: the trait [`Session`](recto::Session) over HTTP. Tools use a server
//! through it like a store that they open themselves.
//!
//! A request has the same result or error as in a session of an open store. Two operations differ:
//! a load sends its file to the server, and a backup is created in a folder of the server.
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

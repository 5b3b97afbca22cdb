//! Any page of a large, sorted, filtered collection, forwards and backwards, at the cost of the
//! page and not of the depth.

pub mod address;
pub mod error;
pub mod session;

pub use address::StoreAddress;
pub use error::{Error, ErrorKind, Result};
pub use session::Session;

//! Tokens: made, hashed, looked up, revoked.
//!
//! They stand in a file of their own and not in the store: the embedded store belongs to one process
//! at a time, so nobody could make or revoke a token while the server runs. The file holds hashes
//! only; the server looks at it twice a second.

mod error;
mod file;
mod grant;
mod live;
mod secret;

pub use error::TokenError;
pub use file::{MAX_TOKEN_FILE_BYTES, MAX_TOKENS, StoredToken, StrangeToken, TokenFile};
pub use grant::{parse_grant, parse_grants, show_grant};
pub(crate) use live::{Denied, RELOAD_INTERVAL};
pub use live::{TokenChanges, Tokens};
pub use secret::TokenText;

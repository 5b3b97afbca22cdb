//! Creation, hashing, lookup and revocation of access tokens.
//!
//! Tokens are in their own file, not in the store: while a server has an embedded store open, no
//! other process could create or revoke a token there. The file contains only hashes of secrets.
//! The server checks the file for changes twice a second.

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

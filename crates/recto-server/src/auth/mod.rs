//! Creation, hashing, lookup and revocation of tokens.
//!
//! Tokens are stored in their own file and not in the store. The embedded store belongs to one
//! process at a time, so otherwise no other process could create or revoke a token while the server
//! runs. The file contains only hashes. The server checks it for changes twice a second.

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

//! Cursors, resume tokens and filters from the view of the users of this crate.
#![allow(clippy::unwrap_used)]

mod cursor;
mod scan_token;
mod text;
mod text_properties;

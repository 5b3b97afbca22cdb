//! Cursors, resume tokens and filters, as those see it who use this crate.
#![allow(clippy::unwrap_used)]

mod cursor;
mod scan_token;
mod text;
mod text_properties;

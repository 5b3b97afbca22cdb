//! Numbers, sizes and times as people read them, and text as addresses hold it: for tools that show what a store did,
//! such as the command line and the console.

pub use recto_api::display::{bytes, counted, duration, grouped};
pub use recto_api::text::percent_decoded;

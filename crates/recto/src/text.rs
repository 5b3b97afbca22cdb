//! Numbers, sizes and times as text for people, and the encoding of text in addresses. The command
//! line and the console use these functions.

pub use recto_api::display::{bytes, counted, duration, grouped};
pub use recto_api::text::percent_decoded;

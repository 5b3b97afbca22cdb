//! Numbers, sizes and times as text for people, and the encoding of text in addresses. Tools that show the work of a
//! store use them, such as the command line and the console.

pub use recto_api::display::{bytes, counted, duration, grouped};
pub use recto_api::text::percent_decoded;

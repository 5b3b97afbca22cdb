//! Filter and sort text, normalised queries, cursors and plans of Recto. Pure: no I/O, no clock.

pub mod cursor;
pub mod text;

//! Filter and sort text: what people type, read into trees that remember where each word stood.
//!
//! Nothing here knows a schema. Whether a field exists, and which value of its type a literal
//! stands for, is decided by whoever normalises the query; the spans let it point at the same text.
//!
//! | module | holds |
//! |---|---|
//! | [`filter`] | filter text, a subset of AIP-160 |
//! | [`sort`] | sort text, AIP-132 |
//! | [`literal`] | names, literals and how strings are written |
//! | [`error`] | the one error, which points at the text |

pub mod error;
pub mod filter;
mod filter_parser;
pub mod literal;
mod scanner;
pub mod sort;

pub use error::{Subject, TextError, TextErrorKind};
pub use filter::{FilterText, Operator, Term};
pub use literal::{Literal, LiteralValue, Name, quote};
pub use sort::SortTerm;

/// The longest filter or sort text, in bytes.
pub const MAX_TEXT_BYTES: usize = 8 * 1024;

/// A piece of text, as byte offsets into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The offset of its first byte.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
}

impl Span {
    /// From `start` to before `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest span that holds both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

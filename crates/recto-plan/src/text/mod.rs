//! Filter and sort text: parses the text of a user into trees that contain the position of each word.
//!
//! This module knows no schema. The module `bind` decides whether a field exists, and which value
//! of the field's type a literal denotes. For its errors, it uses the positions in the trees.
//!
//! | module | content |
//! |---|---|
//! | [`filter`] | filter text, a subset of AIP-160 |
//! | [`sort`] | sort text, AIP-132 |
//! | [`literal`] | names, literals, and the syntax of strings |
//! | [`error`] | the error type, with the position in the text |

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

/// Maximum length of a filter or sort text, in bytes.
pub const MAX_TEXT_BYTES: usize = 8 * 1024;

/// Range of bytes in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the span from `start` to before `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Returns the smallest span that contains `self` and `other`.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

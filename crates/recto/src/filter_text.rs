//! Parsed filter text, for tools that show its conditions and change one of them.
//!
//! ```
//! use recto::filter_text::{Term, terms};
//!
//! let text = r#"carrier = "UA" AND (origin = "EWR" OR origin = "JFK")"#;
//! let (term, span) = &terms(text)?[1];
//! assert_eq!(term.fields()[0].text, "origin");
//! assert!(matches!(term, Term::AnyOf { literals, .. } if literals.len() == 2));
//! assert_eq!(&text[span.start..span.end], r#"(origin = "EWR" OR origin = "JFK")"#);
//! # Ok::<(), recto::Error>(())
//! ```

pub use recto_plan::text::filter::Term;
pub use recto_plan::text::{FilterText, Literal, LiteralValue, Name, Operator, Span};

use crate::error::Result;

/// Parses a filter text. Returns its terms, which must all match, each with its byte range in the
/// text. The `Display` form of a term is filter text.
///
/// # Errors
/// [`ErrorKind::InvalidQuery`](crate::ErrorKind::InvalidQuery), with the column where the syntax is wrong.
/// This function does not check whether a collection has the fields.
pub fn terms(text: &str) -> Result<Vec<(Term, Span)>> {
    let terms = recto_plan::text::filter::parse_terms(text);
    Ok(terms.map_err(recto_plan::QueryError::from)?)
}

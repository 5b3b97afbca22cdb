//! Filter text taken apart, for tools that show its conditions and change one of them.
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

/// The terms of a filter, all of which must hold, each with where it stands in the text, in bytes. A term prints as
/// filter text.
///
/// # Errors
/// [`ErrorKind::InvalidQuery`](crate::ErrorKind::InvalidQuery), pointing at what is not filter text. Whether a
/// collection has the fields is not asked.
pub fn terms(text: &str) -> Result<Vec<(Term, Span)>> {
    let terms = recto_plan::text::filter::parse_terms(text);
    Ok(terms.map_err(recto_plan::QueryError::from)?)
}

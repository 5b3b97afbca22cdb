//! Filter text: a subset of [AIP-160](https://google.aip.dev/160).
//!
//! ```text
//! filter  = [ term { "AND" term } ]
//! term    = part | "(" part ")"
//! part    = or | "startsWith" "(" field "," string ")"
//! or      = cond { "OR" cond }                    only equalities of one field
//! cond    = field op literal
//!         | "(" field { "," field } ")" op "(" literal { "," literal } ")"
//! op      = "=" | "<" | "<=" | ">" | ">="
//! literal = string | number | "true" | "false"
//! ```
//!
//! OR binds tighter than AND, as in AIP-160. Keywords are in capitals. White space alone does not join
//! conditions. Strings are in double quotes, or in single quotes as in AIP-160's own examples. They support
//! the escapes of JSON, and `\'` in single quotes. A `*` in a string has no special meaning. Numbers have the
//! syntax of JSON. `!=`, `NOT`, `-`, `:` and wildcards are rejected with an error that names them.

use std::fmt;
use std::str::FromStr;

use super::Span;
use super::error::{Subject, TextError};
use super::filter_parser;
use super::literal::{Literal, Name};
use super::scanner::Scanner;

/// Maximum number of conditions of a filter. An OR of equalities counts as one condition.
pub const MAX_CONDITIONS: usize = 64;

/// Maximum number of literals of a filter, over all conditions.
pub const MAX_VALUES: usize = 128;

/// Parsed filter: all its terms must be true. A filter without terms accepts every record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterText {
    /// Terms, in the order of the text.
    pub terms: Vec<Term>,
}

/// Operator that compares a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Operator {
    /// Returns the operator as it is written in filter text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Condition of a filter, as it is written in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// Comparison `field operator literal`.
    Compare {
        /// Field to compare.
        field: Name,
        /// Operator of the comparison.
        operator: Operator,
        /// Literal with which the field is compared.
        literal: Literal,
    },
    /// OR of at least two equalities of one field.
    AnyOf {
        /// Field of all equalities, with the position of its first occurrence.
        field: Name,
        /// Values of the equalities in the order of the text, with duplicates.
        literals: Vec<Literal>,
    },
    /// Condition `startsWith(field, "prefix")`.
    StartsWith {
        /// Text field that must start with the prefix.
        field: Name,
        /// Prefix, which is always a string.
        prefix: Literal,
    },
    /// Comparison of tuples, `(a, b) operator (1, 2)`. The first field that differs from its
    /// literal decides. Fields and literals have the same number, and no field occurs twice. A
    /// tuple can have one field, and the operator can be `=`.
    Tuple {
        /// Fields to compare, in the order of the comparison.
        fields: Vec<Name>,
        /// Operator of the comparison.
        operator: Operator,
        /// Literals with which the fields are compared, one for each field.
        literals: Vec<Literal>,
    },
}

impl Term {
    /// Returns the fields on which the term has a condition.
    pub fn fields(&self) -> &[Name] {
        match self {
            Self::Compare { field, .. } | Self::AnyOf { field, .. } | Self::StartsWith { field, .. } => {
                std::slice::from_ref(field)
            }
            Self::Tuple { fields, .. } => fields,
        }
    }
}

/// Parses filter text. Text that is empty or white space has no terms.
///
/// # Errors
/// [`TextError`], with the position of the syntax error or of the first excess over a limit
/// ([`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES), [`MAX_CONDITIONS`], [`MAX_VALUES`]).
pub fn parse(text: &str) -> Result<FilterText, TextError> {
    Ok(parse_terms(text)?.into_iter().map(|(term, _)| term).collect())
}

/// Parses filter text like [`parse`], and returns each term with its span, including its parentheses. A
/// caller can use the span to show, change or remove one term.
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_terms(text: &str) -> Result<Vec<(Term, Span)>, TextError> {
    filter_parser::parse(Scanner::new(Subject::Filter, text)?)
}

/// Writes the canonical text, which parses back to an equal filter.
impl fmt::Display for FilterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.terms.as_slice() {
            // A single OR needs no parentheses, because no AND surrounds it.
            [Term::AnyOf { field, literals }] => any_of(f, field, literals),
            terms => list(f, terms, " AND ", |f, term| term.fmt(f)),
        }
    }
}

/// Parses text that `Display` wrote. Texts of any length are valid here, because the canonical form
/// of a value can be longer than the original.
impl FromStr for FilterText {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let terms = filter_parser::parse(Scanner::of_any_length(Subject::Filter, text))?;
        Ok(terms.into_iter().map(|(term, _)| term).collect())
    }
}

impl FromIterator<Term> for FilterText {
    fn from_iter<I: IntoIterator<Item = Term>>(terms: I) -> Self {
        Self {
            terms: terms.into_iter().collect(),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare {
                field,
                operator,
                literal,
            } => write!(f, "{field} {operator} {literal}"),
            Self::AnyOf { field, literals } => {
                f.write_str("(")?;
                any_of(f, field, literals)?;
                f.write_str(")")
            }
            Self::StartsWith { field, prefix } => write!(f, "startsWith({field}, {prefix})"),
            Self::Tuple {
                fields,
                operator,
                literals,
            } => {
                f.write_str("(")?;
                list(f, fields, ", ", |f, field| field.fmt(f))?;
                write!(f, ") {operator} (")?;
                list(f, literals, ", ", |f, literal| literal.fmt(f))?;
                f.write_str(")")
            }
        }
    }
}

fn any_of(f: &mut fmt::Formatter<'_>, field: &Name, literals: &[Literal]) -> fmt::Result {
    list(f, literals, " OR ", |f, literal| write!(f, "{field} = {literal}"))
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    separator: &str,
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write(f, item)?;
    }
    Ok(())
}

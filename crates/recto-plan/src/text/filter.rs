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
//! OR binds tighter than AND, as in AIP-160, and keywords are in capitals. White space alone does
//! not join conditions. Strings stand in double quotes, or in single quotes as in AIP-160's own
//! examples, and take JSON's escapes (in single quotes also `\'`); `*` in a string is a star.
//! Numbers are JSON's. `!=`, `NOT`, `-`, `:` and wildcards are refused by name.

use std::fmt;
use std::str::FromStr;

use super::Span;
use super::error::{Subject, TextError};
use super::filter_parser;
use super::literal::{Literal, Name};
use super::scanner::Scanner;

/// The most conditions a filter may have. An OR is one condition.
pub const MAX_CONDITIONS: usize = 64;

/// The most literals a filter may have, all conditions together.
pub const MAX_VALUES: usize = 128;

/// A filter: all of its terms must hold. Without terms everything passes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterText {
    /// The terms, in text order.
    pub terms: Vec<Term>,
}

/// How a field compares with a value.
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
    /// As it is written.
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

/// One condition of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `field operator literal`.
    Compare {
        /// The field.
        field: Name,
        /// How it compares.
        operator: Operator,
        /// With what.
        literal: Literal,
    },
    /// An OR of at least two equalities of one field.
    AnyOf {
        /// The field, where it stands first.
        field: Name,
        /// The values, in text order; duplicates are kept.
        literals: Vec<Literal>,
    },
    /// `startsWith(field, "prefix")`.
    StartsWith {
        /// The field.
        field: Name,
        /// The prefix, always a string.
        prefix: Literal,
    },
    /// `(a, b) operator (1, 2)`: the tuples compare as one value, field by field. There are as many
    /// literals as fields, and no field twice. One field is possible, and so is `=`.
    Tuple {
        /// The fields.
        fields: Vec<Name>,
        /// How they compare.
        operator: Operator,
        /// With what.
        literals: Vec<Literal>,
    },
}

impl Term {
    /// The fields it is about.
    pub fn fields(&self) -> &[Name] {
        match self {
            Self::Compare { field, .. } | Self::AnyOf { field, .. } | Self::StartsWith { field, .. } => {
                std::slice::from_ref(field)
            }
            Self::Tuple { fields, .. } => fields,
        }
    }
}

/// Reads filter text. Text without a word in it has no terms.
///
/// # Errors
/// [`TextError`], pointing at what is not filter text or goes over a limit
/// ([`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES), [`MAX_CONDITIONS`], [`MAX_VALUES`]).
pub fn parse(text: &str) -> Result<FilterText, TextError> {
    Ok(parse_terms(text)?.into_iter().map(|(term, _)| term).collect())
}

/// Reads filter text as [`parse`] does; with each term where it stands, its parentheses included, so that it can
/// be shown, changed or taken away alone.
///
/// # Errors
/// As [`parse`].
pub fn parse_terms(text: &str) -> Result<Vec<(Term, Span)>, TextError> {
    filter_parser::parse(Scanner::new(Subject::Filter, text)?)
}

/// The canonical text, which parses back to an equal filter.
impl fmt::Display for FilterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.terms.as_slice() {
            // With nothing beside it, it needs no parentheses.
            [Term::AnyOf { field, literals }] => any_of(f, field, literals),
            terms => list(f, terms, " AND ", |f, term| term.fmt(f)),
        }
    }
}

/// Reads what `Display` writes, of any length: values that are written out may be longer than they were typed.
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

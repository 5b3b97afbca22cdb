//! Check of the rules of the schema language at compile time.
//!
//! The parser of the schema language checks all rules that do not depend on types, because the
//! macro does not know the types of fields. The compiler checks that fields have an order, by the
//! traits `KeyType` and `OrderType`. Other rules about types are checked when the program calls the
//! function that returns the collection.

use std::ops::Range;

use proc_macro2::Span;
use recto_model::schema::Collection;
use syn::{Error, Result};

use crate::attributes::Struct;

/// Checks all rules of the collection that do not depend on the types of its fields.
pub(crate) fn check(record: &Struct) -> Result<()> {
    let fields = record.fields.iter().map(|field| (field.name.clone(), None));
    let name = record.collection.value();
    let Err(problems) = Collection::declared(&name, fields.collect(), &record.declaration.text) else {
        return Ok(());
    };
    let errors = problems.iter().map(|(span, problem)| {
        let hint = problem
            .hint()
            .map(|hint| format!("\nhelp: {hint}"))
            .unwrap_or_default();
        Error::new(place(record, span), format!("{problem}{hint}"))
    });
    let all = errors.reduce(|mut all, next| {
        all.combine(next);
        all
    });
    all.map_or(Ok(()), Err)
}

/// Converts `span`, a range of bytes in the declared schema text, to the position in the struct
/// from which the text came. An offset at or after the end of the text means the collection's name
/// or one of its fields.
fn place(record: &Struct, span: &Range<usize>) -> Span {
    let found = match span.start.checked_sub(record.declaration.text.len()) {
        None => record.declaration.place(span.start),
        Some(0) => None,
        Some(index) => record.fields.get(index - 1).map(|field| field.name_span),
    };
    found.unwrap_or_else(|| record.collection.span())
}

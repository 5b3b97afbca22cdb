//! The schema language's rules, applied while compiling.
//!
//! The macro sees no types, so it asks the model what is wrong with everything else. The compiler checks by the traits
//! `KeyType` and `OrderType` that fields have an order. Other rules about types are checked when the program asks for
//! the collection.

use std::ops::Range;

use proc_macro2::Span;
use recto_model::schema::Collection;
use syn::{Error, Result};

use crate::attributes::Struct;

/// Checks everything about the collection but its fields' types.
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

/// Returns the place of a problem in the struct. Places beyond the declared text are the collection and its fields.
fn place(record: &Struct, span: &Range<usize>) -> Span {
    let found = match span.start.checked_sub(record.declaration.text.len()) {
        None => record.declaration.place(span.start),
        Some(0) => None,
        Some(index) => record.fields.get(index - 1).map(|field| field.name_span),
    };
    found.unwrap_or_else(|| record.collection.span())
}

//! The schema language's rules, applied while compiling.
//!
//! The macro sees no types, so it declares every field an `int` and asks the model what is wrong
//! with the rest. Whether a key field's type has an order is the compiler's to find, by the trait
//! `KeyType`.

use proc_macro2::Span;
use recto_model::Type;
use recto_model::schema::{Collection, Declaration, Field, Problem};
use syn::{Error, LitStr, Result};

use crate::attributes::Struct;

/// Checks everything about the collection but its fields' types.
pub(crate) fn check(record: &Struct) -> Result<()> {
    let Err(error) = Collection::new(declaration(record)) else {
        return Ok(());
    };
    let mut errors = error.problems.iter().map(|problem| {
        let hint = problem
            .hint()
            .map(|hint| format!("\nhelp: {hint}"))
            .unwrap_or_default();
        Error::new(place(record, problem), format!("{problem}{hint}"))
    });
    let first = errors
        .next()
        .unwrap_or_else(|| Error::new(record.ident.span(), error.to_string()));
    Err(errors.fold(first, |mut all, next| {
        all.combine(next);
        all
    }))
}

fn declaration(record: &Struct) -> Declaration {
    let texts = |literals: &[LitStr]| literals.iter().map(LitStr::value).collect::<Vec<_>>();
    Declaration {
        name: record.collection.value(),
        fields: record
            .fields
            .iter()
            .map(|field| Field {
                name: field.name.clone(),
                ty: Type::Int,
            })
            .collect(),
        key: texts(&record.key),
        partition: record.partition.as_deref().map(texts),
        order: texts(&record.order),
        writes: record.writes,
    }
}

/// Where in the struct a problem lies.
fn place(record: &Struct, problem: &Problem) -> Span {
    let found = match problem {
        Problem::Name {
            name, what: "field", ..
        } => field(record, name),
        Problem::Duplicate { name, list } if list == "fields" => field(record, name),
        Problem::Name { .. } => Some(record.collection.span()),
        Problem::Duplicate { name, list }
        | Problem::UnknownField { name, list, .. }
        | Problem::NotInKey { name, list, .. } => named(record, list, name),
        Problem::OrderInPartition { name, .. } => named(record, "order", name),
        _ => None,
    };
    found.unwrap_or_else(|| record.collection.span())
}

/// Where the last field of this name stands: of two, the one too many.
fn field(record: &Struct, name: &str) -> Option<Span> {
    let fields = record.fields.iter().rev();
    fields
        .filter(|field| field.name == name)
        .map(|field| field.name_span)
        .next()
}

/// Where the last entry of this name stands in the list of this name.
fn named(record: &Struct, list: &str, name: &str) -> Option<Span> {
    let literals: &[LitStr] = match list {
        "key" => &record.key,
        "partition" => record.partition.as_deref().unwrap_or_default(),
        "order" => &record.order,
        _ => &[],
    };
    literals
        .iter()
        .rev()
        .find(|literal| literal.value().trim_start_matches('-') == name)
        .map(LitStr::span)
}

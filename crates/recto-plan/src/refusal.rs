//! Refusing a query that no view serves, and naming the view that would.

use std::fmt;

use recto_model::schema::Collection;
use recto_model::table::Direction;

use crate::error::{QueryError, QueryErrorKind};
use crate::query::{Constraint, Query};

/// A view that does not serve a query, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedView {
    /// What the view is called.
    pub view: String,
    /// Why it does not serve.
    pub reason: String,
}

/// No view serves a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The views there are, and why each does not serve.
    pub rejected: Vec<RejectedView>,
    /// The view that would serve it, as text for the schema; `None` if no view can (nothing is
    /// pinned that could be its partition).
    pub suggestion: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no view serves this query")?;
        for rejected in &self.rejected {
            write!(f, "; {}: {}", rejected.view, rejected.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for QueryError {
    fn from(refusal: Refusal) -> Self {
        let hint = refusal.suggestion.clone().unwrap_or_else(|| {
            "pin at least one field with =, so that a view can be partitioned by it; \
             to read a whole collection in no order, scan it"
                .into()
        });
        QueryError::new(QueryErrorKind::NoPlan, refusal.to_string()).with_hint(hint)
    }
}

/// The view that would serve a query, as text ready to paste into the schema.
pub fn suggest_view(collection: &Collection, query: &Query) -> Option<String> {
    let name = |field: &usize| collection.fields[*field].name.as_str();
    let orderable = |field: &usize| collection.fields[*field].ty.is_orderable();
    let partition: Vec<usize> = query
        .constraints
        .iter()
        .filter(|(_, constraint)| matches!(constraint, Constraint::In(_)))
        .map(|(field, _)| *field)
        .filter(orderable)
        .collect();
    if partition.is_empty() {
        return None;
    }
    let mut order: Vec<(usize, Direction)> = query
        .sort
        .iter()
        .filter(|(field, _)| !partition.contains(field) && orderable(field))
        .copied()
        .collect();
    let ranged = query
        .constraints
        .iter()
        .filter(|(_, constraint)| matches!(constraint, Constraint::Range { .. }))
        .map(|(field, _)| *field)
        .chain(query.tuples.iter().flat_map(|tuple| tuple.fields.iter().copied()));
    for field in ranged {
        if !partition.contains(&field) && !order.iter().any(|(one, _)| *one == field) {
            order.push((field, Direction::Ascending));
        }
    }
    let quoted = |texts: Vec<String>| {
        texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
    };
    let partition_names: Vec<String> = partition.iter().map(|field| name(field).to_owned()).collect();
    let order_names: Vec<String> = order
        .iter()
        .map(|(field, direction)| match direction {
            Direction::Ascending => name(field).to_owned(),
            Direction::Descending => format!("-{}", name(field)),
        })
        .collect();
    let mut view = format!("by_{}", partition_names.join("_"));
    view.truncate(48);
    let mut text = format!(
        "[collection.{}.view.{view}]\npartition = [{}]\n",
        collection.name,
        quoted(partition_names)
    );
    if !order_names.is_empty() {
        text.push_str(&format!("order = [{}]\n", quoted(order_names)));
    }
    Some(text)
}

//! Refusing a query that no view serves, and naming the view that would.

use std::fmt;

use recto_model::schema::{Collection, OrderColumn};
use recto_model::table::Direction;

use crate::error::{QueryError, QueryErrorKind};
use crate::query::{Constraint, Query};

/// The longest name of the schema language.
const MAX_NAME_BYTES: usize = 48;

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
    /// What would help.
    pub advice: Advice,
}

/// What would help a query that no view serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// A view that would serve it, as text for the schema.
    View(String),
    /// A view that would serve it if some conditions may be checked row by row, as text for the
    /// schema.
    ViewWithResidual(String),
    /// Fewer values: a view serves it, but for the product of its lists, as the message says.
    FewerValues(String),
    /// Nothing is pinned that could be a view's partition.
    Pin,
    /// No one view can serve it.
    None,
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
        let message = refusal.to_string();
        let no_plan = |hint: String| QueryError::new(QueryErrorKind::NoPlan, message).with_hint(hint);
        match refusal.advice {
            Advice::View(view) => no_plan(view),
            Advice::ViewWithResidual(view) => no_plan(format!(
                "no view can serve all conditions; with allow_residual, which checks the others row by row, \
                 this one serves it:\n{view}"
            )),
            Advice::FewerValues(message) => {
                QueryError::new(QueryErrorKind::Limit, message).with_hint("ask for fewer values at a time")
            }
            Advice::Pin => no_plan(
                "pin at least one field with =, so that a view can be partitioned by it; \
                 to read a whole collection in no order, scan it"
                    .into(),
            ),
            Advice::None => no_plan(
                "no view can serve it: a view serves equalities, one range on the field after them, and a sort \
                 that begins with that field"
                    .into(),
            ),
        }
    }
}

/// A view made for a query.
pub(crate) struct SuggestedView {
    partition: Vec<usize>,
    order: Vec<(usize, Direction)>,
}

impl SuggestedView {
    /// The view for a query; `None` if nothing is pinned that could be its partition.
    pub(crate) fn new(collection: &Collection, query: &Query) -> Option<Self> {
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
        Some(Self { partition, order })
    }

    /// The collection as if this were its own arrangement.
    pub(crate) fn as_collection(&self, collection: &Collection) -> Collection {
        let mut arranged = collection.clone();
        let name = |field: usize| collection.fields[field].name.clone();
        arranged.partition = self.partition.iter().map(|field| name(*field)).collect();
        arranged.order = self
            .order
            .iter()
            .map(|(field, direction)| OrderColumn {
                field: name(*field),
                direction: *direction,
            })
            .collect();
        arranged.key = arranged.partition.clone();
        arranged
            .key
            .extend(arranged.order.iter().map(|column| column.field.clone()));
        for field in &collection.key {
            if !arranged.key.contains(field) {
                arranged.key.push(field.clone());
                arranged.order.push(OrderColumn {
                    field: field.clone(),
                    direction: Direction::Ascending,
                });
            }
        }
        arranged
    }

    /// The view as text ready to paste into the schema.
    pub(crate) fn text(&self, collection: &Collection) -> String {
        let quoted = |texts: Vec<String>| {
            texts
                .iter()
                .map(|text| format!("\"{text}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let name = |field: usize| collection.fields[field].name.clone();
        let partition: Vec<String> = self.partition.iter().map(|field| name(*field)).collect();
        let order = self.order.iter().map(|(field, direction)| {
            OrderColumn {
                field: name(*field),
                direction: *direction,
            }
            .to_string()
        });
        let order: Vec<String> = order.collect();
        let mut view = format!("by_{}", partition.join("_"));
        view.truncate(MAX_NAME_BYTES);
        let order = if order.is_empty() {
            String::new()
        } else {
            format!("order = [{}]\n", quoted(order))
        };
        format!(
            "[collection.{}.view.{view}]\npartition = [{}]\n{order}",
            collection.name,
            quoted(partition)
        )
    }
}

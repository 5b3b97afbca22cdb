//! Refusing a query that no view serves, and naming what would: until a release can make views, another
//! collection of the same records.

use std::fmt;
use std::sync::Arc;

use recto_model::schema::{Collection, Declaration, MAX_NAME_LENGTH, OrderColumn, Schema, View};
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
    /// The fields that the first of them without a pinned partition is partitioned by, as far as they are not
    /// pinned.
    pub unpinned: Vec<String>,
    /// What would help.
    pub advice: Advice,
}

/// What would help a query that no view serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// A collection of the same records that would serve it: what it takes, and text for the schema.
    Collection(String),
    /// The same of one that would serve it if some conditions may be checked row by row.
    CollectionWithResidual(String),
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
        let no_plan = |hint: String| QueryError {
            unpinned: refusal.unpinned,
            ..QueryError::new(QueryErrorKind::NoPlan, message).with_hint(hint)
        };
        match refusal.advice {
            Advice::Collection(text) => no_plan(format!("a second collection of the same records serves it{text}")),
            Advice::CollectionWithResidual(text) => no_plan(format!(
                "no collection can serve all conditions; with allow_residual, which checks the others row by row, a \
                 second one of the same records serves it{text}"
            )),
            Advice::FewerValues(message) => {
                QueryError::new(QueryErrorKind::Limit, message).with_hint("ask for fewer values at a time")
            }
            Advice::Pin => no_plan(
                "pin at least one field with =, so that a collection can be partitioned by it; \
                 to read a whole collection in no order, scan it"
                    .into(),
            ),
            Advice::None => no_plan(
                "no collection can serve it: one serves equalities, one range on the field after them, and a sort \
                 that begins with that field"
                    .into(),
            ),
        }
    }
}

/// An arrangement made for a query.
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

    /// It as a view of the collection.
    pub(crate) fn view(&self, collection: &Collection) -> View {
        let name = |field: usize| collection.fields[field].name.clone();
        let order = self.order.iter().map(|(field, direction)| OrderColumn {
            field: name(*field),
            direction: *direction,
        });
        View::new(
            self.name(collection),
            self.partition.iter().map(|field| name(*field)),
            order,
        )
    }

    fn name(&self, collection: &Collection) -> String {
        let partition = self.partition.iter();
        let partition = partition.map(|field| collection.fields[*field].name.as_str());
        let partition = partition.collect::<Vec<_>>().join("_");
        let mut name = format!("{}_by_{partition}", collection.name);
        name.truncate(MAX_NAME_LENGTH);
        name
    }

    /// What it takes to have it, and a collection that is arranged like that as text ready to paste into the
    /// schema; none if the schema's rules are against it.
    pub(crate) fn text(&self, collection: &Collection) -> Option<String> {
        let view = self.view(collection);
        let arrangement = collection.arranged(&view);
        let key: Vec<String> = arrangement.fields().map(str::to_owned).collect();
        let new_in_key = key.iter().filter(|name| !collection.key.contains(name));
        let required: Vec<&str> = new_in_key.map(String::as_str).collect();
        let must = match required.as_slice() {
            [] => String::new(),
            names => format!("; each record must have {} then", names.join(", ")),
        };
        let arranged = Collection::new(Declaration {
            name: view.name.clone(),
            fields: collection.fields.clone(),
            partition: Some(arrangement.partition.to_vec()),
            order: arrangement.order.iter().map(ToString::to_string).collect(),
            writes: collection.writes,
            key,
        });
        let schema = Schema {
            types: Vec::new(),
            collections: vec![Arc::new(arranged.ok()?)],
        };
        Some(format!(
            ", written to beside this one{must}:\n{}",
            schema.to_toml().trim_start()
        ))
    }
}

//! Refusing a query that no view serves, and naming what would: a view, or another collection of the same records.

use std::fmt;
use std::sync::Arc;

use recto_model::schema::{
    Collection, Declaration, MAX_NAME_LENGTH, Nulls, OrderColumn, Schema, View, WriteMode,
};
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
    /// A view that would serve it, or a collection of the same records.
    Have(Box<Suggestion>),
    /// Fewer values: a view serves it, but for the product of its lists, as the message says.
    FewerValues(String),
    /// Nothing is pinned that could be a view's partition.
    Pin,
    /// A view would serve it, but for records that do not fit the view: only a scan finds these.
    Scan,
    /// No one view can serve it.
    None,
}

/// What would serve a query which no view serves: a view of its collection, or, where records that change may have none
/// like it (`writes = "overwrite"`), another collection of the same records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The collection that was asked, or the other one.
    pub collection: Arc<Collection>,
    /// The view that it would have; none: it is another collection.
    pub view: Option<View>,
    /// The fields that each record of another collection must have, and need not now.
    pub required: Vec<String>,
    /// Whether it serves the query only if some conditions may be checked row by row.
    pub with_residual: bool,
}

impl Suggestion {
    /// What having it takes, as what stands before its declaration.
    pub fn introduction(&self) -> String {
        match (&self.view, self.with_residual) {
            (Some(_), false) => return "this view serves it:".to_owned(),
            (Some(_), true) => {
                return "no view can serve all conditions; with allow_residual, which checks the others row by row, \
                        this one serves it:"
                    .to_owned();
            }
            (None, _) => {}
        }
        let serves = if self.with_residual {
            "no collection can serve all conditions; with allow_residual, which checks the others row by row, a second \
             one of the same records serves it"
        } else {
            "a second collection of the same records serves it"
        };
        let must = match self.required.as_slice() {
            [] => String::new(),
            names => format!("; each record must have {} then", names.join(", ")),
        };
        format!("{serves}, written to beside this one{must}:")
    }

    /// Its declaration, to be pasted into the schema.
    pub fn declaration(&self) -> String {
        if let Some(view) = &self.view {
            return self.collection.view_declaration(view);
        }
        let schema = Schema {
            collections: vec![Arc::clone(&self.collection)],
            ..Schema::default()
        };
        schema.to_toml().trim_start().to_owned()
    }
}

/// What it takes, and its declaration on lines of its own.
impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.introduction(), self.declaration())
    }
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
            unpinned: refusal.unpinned.into(),
            ..QueryError::new(QueryErrorKind::NoPlan, message).with_hint(hint)
        };
        match refusal.advice {
            Advice::Have(suggestion) => QueryError {
                suggestion: Some(suggestion.clone()),
                ..no_plan(suggestion.to_string())
            },
            Advice::FewerValues(message) => {
                QueryError::new(QueryErrorKind::Limit, message).with_hint("ask for fewer values at a time")
            }
            Advice::Pin => no_plan(
                "pin at least one field with =, so that a view can be partitioned by it; \
                 to read a whole collection in no order, scan it"
                    .into(),
            ),
            Advice::Scan => no_plan(
                "scan the collection, which finds these records; or change them, so that they fit the view"
                    .into(),
            ),
            Advice::None => no_plan(
                "no view can serve it: one serves equalities, one range on the field after them, and a sort \
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
    pub(crate) fn view(&self, collection: &Collection, nulls: Nulls) -> View {
        let name = |field: usize| collection.fields[field].name.clone();
        let order = self.order.iter().map(|(field, direction)| OrderColumn {
            field: name(*field),
            direction: *direction,
        });
        let partition = self.partition.iter().map(|field| name(*field));
        let mut view = View::new(self.name(collection), partition, order).collated_as(collection);
        // A field that is never null needs no word about nulls.
        let is_nullable = |column: &OrderColumn| !collection.is_required(&column.field);
        if view.order.iter().any(is_nullable) {
            view.nulls = nulls;
        } else {
            view.nulls = Nulls::default();
        }
        view
    }

    /// A name that the collection has no view of.
    fn name(&self, collection: &Collection) -> String {
        let partition = self.partition.iter();
        let partition = partition.map(|field| collection.fields[*field].name.as_str());
        let partition = partition.collect::<Vec<_>>().join("_");
        let numbered = |number: usize| {
            let number = match number {
                1 => String::new(),
                more => format!("_{more}"),
            };
            let mut name = format!("by_{partition}");
            name.truncate(MAX_NAME_LENGTH - number.len());
            name + &number
        };
        let mut names = (1..).map(numbered);
        let free = names.find(|name| collection.view(name).is_none());
        free.expect("a collection has few views")
    }

    /// What is to be had, as a view; as another collection where the schema's rules are against that. None if they are
    /// against both.
    pub(crate) fn suggestion(collection: &Collection, view: View, with_residual: bool) -> Option<Suggestion> {
        let arrangement = collection.arranged(&view);
        let is_in_key = |name: &str| collection.key.iter().any(|key| key == name);
        if collection.writes != WriteMode::Overwrite || arrangement.fields().all(is_in_key) {
            return Some(Suggestion {
                collection: Arc::new(collection.clone()),
                view: Some(view),
                required: Vec::new(),
                with_residual,
            });
        }
        let key: Vec<String> = arrangement.fields().map(str::to_owned).collect();
        let new_in_key = key.iter().filter(|name| !collection.key.contains(name));
        let required = new_in_key.cloned().collect();
        let mut name = format!("{}_{}", collection.name, view.name);
        name.truncate(MAX_NAME_LENGTH);
        let arranged = Collection::new(Declaration {
            name,
            fields: collection.fields.clone(),
            partition: Some(arrangement.partition.to_vec()),
            order: arrangement.order.iter().map(ToString::to_string).collect(),
            writes: collection.writes,
            key,
        });
        Some(Suggestion {
            collection: Arc::new(arranged.ok()?),
            view: None,
            required,
            with_residual,
        })
    }
}

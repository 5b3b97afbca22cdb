//! Refusing a query that no view serves, and naming what would: a view, or another collection of the same records.

use std::fmt;
use std::sync::Arc;

use recto_api::suggestion::Suggestion;
use recto_model::schema::{
    Bucket, BucketStrategy, Collection, Declaration, MAX_NAME_LENGTH, Nulls, OrderColumn, View, WriteMode,
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
    /// The fields to pin with `=`: the missing partition fields of the first view that would then serve the
    /// query. Empty if no view would, or if the query pins the partition of another view.
    pub missing_partition_fields: Vec<String>,
    /// What would help.
    pub advice: Advice,
}

/// What would help a query that no view serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// A view that would serve it, or a collection of the same records.
    Have(Box<Suggestion>),
    /// Naming no view: another one serves it, which has this name.
    OtherView(String),
    /// Fewer values: a view serves it, but for the product of its lists, as the message says.
    FewerValues(String),
    /// Nothing is pinned that could be a view's partition.
    Pin,
    /// A view would serve it, but for records that do not fit the view: only a scan finds these.
    Scan,
    /// No one view can serve it.
    None,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no view serves this query")?;
        for (index, rejected) in self.rejected.iter().enumerate() {
            let before = if index == 0 { ":" } else { ";" };
            write!(f, "{before}\n  {}: {}", rejected.view, rejected.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for QueryError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        let no_plan = |hint: String| QueryError {
            missing_partition_fields: refusal.missing_partition_fields.clone().into(),
            ..QueryError::new(QueryErrorKind::NoPlan, message).with_hint(hint)
        };
        match refusal.advice {
            Advice::Have(suggestion) => {
                let is_of_all = suggestion.view.as_ref().is_some_and(|view| view.partition.is_empty());
                let hint = match refusal.missing_partition_fields.as_slice() {
                    names @ [_, ..] if is_of_all => {
                        format!(
                            "add {} to the filter; or scan the collection, to read all records in no order; or list all \
                             records: {suggestion}",
                            needed_conditions(names)
                        )
                    }
                    _ => suggestion.to_string(),
                };
                QueryError {
                    suggestion: Some(suggestion),
                    ..no_plan(hint)
                }
            }
            Advice::OtherView(name) => no_plan(format!(
                "do not name a view, or name {name}, which serves this query"
            )),
            Advice::FewerValues(message) => {
                QueryError::new(QueryErrorKind::Limit, message).with_hint("ask for fewer values at a time")
            }
            Advice::Pin => no_plan(
                "add `FIELD = …` to the filter, and declare a view with `partition = [\"FIELD\"]`; to read all records \
                 in no order, scan the collection"
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

/// The conditions that fix these fields, as a filter has them: "`a = …` and `b = …`".
pub(crate) fn needed_conditions<N: AsRef<str>>(names: &[N]) -> String {
    let each: Vec<String> = names
        .iter()
        .map(|name| format!("`{} = …`", name.as_ref()))
        .collect();
    each.join(" and ")
}

/// Size of the buckets that are suggested for a view that is one partition: it must be kept in buckets.
const SUGGESTED_BUCKET_BYTES: u64 = 10_000_000;

/// A sort order made for a query.
pub(crate) struct SuggestedView {
    /// Empty for a view of all records.
    partition: Vec<usize>,
    order: Vec<(usize, Direction)>,
    /// Whether the key alone makes the order.
    is_by_key: bool,
}

impl SuggestedView {
    /// The view for a query; of all records if the query fixes no field. `None` for an attached table of which no field
    /// is fixed: its views are tables of others, which have no buckets.
    pub(crate) fn new(collection: &Collection, query: &Query) -> Option<Self> {
        let orderable = |field: &usize| collection.fields[*field].ty.is_orderable();
        let partition: Vec<usize> = query
            .constraints
            .iter()
            .filter(|(_, constraint)| matches!(constraint, Constraint::In(_)))
            .map(|(field, _)| *field)
            .filter(orderable)
            .collect();
        if partition.is_empty() && collection.attached.is_some() {
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
        let is_by_key = order.is_empty();
        if is_by_key {
            // The key follows by itself. Name it, so that the pasted view shows its order.
            let fields = collection.key.iter();
            let fields =
                fields.filter_map(|name| collection.fields.iter().position(|field| field.name == *name));
            let fields = fields.filter(|field| !partition.contains(field));
            order.extend(fields.map(|field| (field, Direction::Ascending)));
        }
        Some(Self {
            partition,
            order,
            is_by_key,
        })
    }

    /// Whether it would be one list of all records.
    pub(crate) fn is_of_all(&self) -> bool {
        self.partition.is_empty()
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
        if self.partition.is_empty() {
            view.bucket = Some(Bucket {
                strategy: BucketStrategy::Target {
                    bytes: SUGGESTED_BUCKET_BYTES,
                },
                shards: 1,
                keep: None,
            });
        }
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
        let name_of = |field: &usize| collection.fields[*field].name.as_str();
        let by: Vec<&str> = if self.partition.is_empty() {
            self.order.iter().map(|(field, _)| name_of(field)).collect()
        } else {
            self.partition.iter().map(name_of).collect()
        };
        let whole = if self.partition.is_empty() && self.is_by_key {
            "all".to_owned()
        } else {
            format!("by_{}", by.join("_"))
        };
        let numbered = |number: usize| {
            let number = match number {
                1 => String::new(),
                more => format!("_{more}"),
            };
            let mut name = whole.clone();
            name.truncate(MAX_NAME_LENGTH - number.len());
            name + &number
        };
        let mut names = (1..).map(numbered);
        let free = names.find(|name| collection.view(name).is_none());
        free.expect("a collection has few views")
    }

    /// What is to be had, as a view; as another collection where the schema's rules are against that. None if they are
    /// against both.
    pub(crate) fn suggestion(
        collection: &Collection,
        view: View,
        with_filter_scan: bool,
    ) -> Option<Suggestion> {
        let sort_order = collection.arranged(&view);
        let is_in_key = |name: &str| collection.key.iter().any(|key| key == name);
        if collection.writes != WriteMode::Overwrite || sort_order.fields().all(is_in_key) {
            return Some(Suggestion {
                collection: Arc::new(collection.clone()),
                view: Some(view),
                required: Vec::new(),
                with_filter_scan,
            });
        }
        let key: Vec<String> = sort_order.fields().map(str::to_owned).collect();
        let new_in_key = key.iter().filter(|name| !collection.key.contains(name));
        let required = new_in_key.cloned().collect();
        if view.partition.is_empty() {
            // Another collection of all records would need buckets of its own.
            return None;
        }
        let mut name = format!("{}_{}", collection.name, view.name);
        name.truncate(MAX_NAME_LENGTH);
        let arranged = Collection::new(Declaration {
            name,
            fields: collection.fields.clone(),
            partition: Some(sort_order.partition.to_vec()),
            order: sort_order.order.iter().map(ToString::to_string).collect(),
            writes: collection.writes,
            key,
        });
        Some(Suggestion {
            collection: Arc::new(arranged.ok()?),
            view: None,
            required,
            with_filter_scan,
        })
    }
}

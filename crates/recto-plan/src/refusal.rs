//! Rejection of a query that no view serves, with advice: a view that would serve the query, or
//! another collection of the same records.

use std::fmt;
use std::sync::Arc;

use recto_api::suggestion::Suggestion;
use recto_model::schema::{
    Bucket, BucketStrategy, Collection, Declaration, MAX_NAME_LENGTH, Nulls, OrderColumn, View, WriteMode,
};
use recto_model::table::Direction;

use crate::error::{QueryError, QueryErrorKind};
use crate::query::{Constraint, Query};

/// View that does not serve a query, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedView {
    /// Title of the view for messages, such as `view by_team`.
    pub view: String,
    /// Reason why the view does not serve the query.
    pub reason: String,
}

/// Error for a query that no view serves, with reasons and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// All views that were considered, each with the reason why it does not serve the query.
    pub rejected: Vec<RejectedView>,
    /// Partition fields on which the query must add an equality, so that a view serves it.
    /// Preferred is the first view whose result is a list, then one whose result is a single
    /// record. Empty if no view would serve the query, or if the query already fixes the partition
    /// of another view.
    pub missing_partition_fields: Vec<String>,
    /// Advice on how to change the query or the schema.
    pub advice: Advice,
}

/// Advice for a query that no view serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Declare a new view that would serve the query, or a new collection of the same records.
    Have(Box<Suggestion>),
    /// Do not name a view: the view with this name serves the query.
    OtherView(String),
    /// Use fewer values: a view would serve the query, but the query's lists have too many
    /// combinations. The text gives details.
    FewerValues(String),
    /// Fix a field by `=`: the query fixes no field that could be the partition of a view.
    Pin,
    /// Use a scan of the collection. A view would serve the query, but lacks records that do not
    /// fit into it, and only a scan finds such records.
    Scan,
    /// No single view can serve the query.
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
                let is_of_all = suggestion
                    .view
                    .as_ref()
                    .is_some_and(|view| view.partition.is_empty());
                let hint = match refusal.missing_partition_fields.as_slice() {
                    names @ [_, ..] if is_of_all => {
                        format!(
                            "add {} to the filter; or scan the collection, which reads all records in no \
                             order; or list all records: {suggestion}",
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
                "leave out the view, or use view {name}, which serves this query"
            )),
            Advice::FewerValues(message) => {
                QueryError::new(QueryErrorKind::Limit, message).with_hint("use fewer values at a time")
            }
            Advice::Pin => no_plan(
                "add `FIELD = …` to the filter, and declare a view with `partition = [\"FIELD\"]`; or scan \
                 the collection, which reads all records in no order"
                    .into(),
            ),
            Advice::Scan => no_plan(
                "scan the collection, which finds these records; or change the records so that they fit the \
                 view"
                    .into(),
            ),
            Advice::None => no_plan(
                "simplify the query: a view serves equalities, one range on the next field, and a sort that \
                 begins with that field"
                    .into(),
            ),
        }
    }
}

/// Returns conditions that fix the given fields, as text of a message: "`a = …` and `b = …`".
pub(crate) fn needed_conditions<N: AsRef<str>>(names: &[N]) -> String {
    let each: Vec<String> = names
        .iter()
        .map(|name| format!("`{} = …`", name.as_ref()))
        .collect();
    each.join(" and ")
}

/// Suggested size of a bucket, in bytes, for a view without partition fields. All records of such a
/// view are in one partition, which must be divided into buckets.
const SUGGESTED_BUCKET_BYTES: u64 = 10_000_000;

/// View designed for a query that no existing view serves.
pub(crate) struct SuggestedView {
    /// Indexes of the partition fields; empty if all records are in one partition.
    partition: Vec<usize>,
    order: Vec<(usize, Direction)>,
    /// True if the order consists only of fields of the key.
    is_by_key: bool,
}

impl SuggestedView {
    /// Returns the view for a query. If the query fixes no field, the view has all records in one
    /// partition. For an attached table, returns `None` in that case: the views of an attached
    /// table belong to other programs and have no buckets, which such a partition needs.
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
            // Recto appends the key to the order in any case. Name the key fields, so that the
            // suggested view shows its whole order.
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

    /// Returns whether the view contains all records in one partition.
    pub(crate) fn is_of_all(&self) -> bool {
        self.partition.is_empty()
    }

    /// Returns the suggested view as a part of a schema. `nulls` applies only if a field of the
    /// order can be null.
    pub(crate) fn view(&self, collection: &Collection, nulls: Nulls) -> View {
        let name = |field: usize| collection.fields[field].name.clone();
        let order = self.order.iter().map(|(field, direction)| OrderColumn {
            field: name(*field),
            direction: *direction,
        });
        let partition = self.partition.iter().map(|field| name(*field));
        let mut view = View::new(self.name(collection), partition, order).collated_as(collection);
        if self.partition.is_empty() {
            view.bucket = Some(Bucket {
                strategy: BucketStrategy::Target {
                    bytes: SUGGESTED_BUCKET_BYTES,
                },
                shards: 1,
                keep: None,
            });
        }
        // Without nullable fields in the order, the view needs no setting for nulls.
        let is_nullable = |column: &OrderColumn| !collection.is_required(&column.field);
        if view.order.iter().any(is_nullable) {
            view.nulls = nulls;
        } else {
            view.nulls = Nulls::default();
        }
        view
    }

    /// Returns a name that no view of the collection has.
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

    /// Returns the suggestion to declare `view`. If the rules of schemas forbid the view, suggests
    /// another collection. `None` if the rules forbid both.
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
            // Suggest no other collection with all records in one partition, because that
            // collection would need buckets.
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

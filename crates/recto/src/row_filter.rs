//! Row filters: filters that restrict the rows that a session can read and write.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_model::cell;
use recto_model::schema::{Collection as Definition, WriteMode};
use recto_plan::planner::{self, Wishes};
use recto_plan::query::{Condition, Constraint, Query};
use recto_plan::{Plan, QueryError, SortOrder, bind, choices};

use crate::error::{Error, ErrorKind, Result};
use crate::record::DynamicRecord;

/// Row filters of a session: filter texts by the name of the collection. A row must match all texts of its
/// collection. Collections without an entry are unrestricted.
pub(crate) type RowFilters = BTreeMap<String, Vec<String>>;

/// Row filter whose field names were resolved in a collection.
pub(crate) struct RowFilter<'a> {
    definition: &'a Definition,
    query: Query,
}

impl<'a> RowFilter<'a> {
    /// Parses filter texts and resolves their field names in a collection.
    ///
    /// # Errors
    /// A text is not a filter of the collection. The message does not repeat the text. The user of the
    /// session did not write the text, and may not be allowed to see it.
    pub(crate) fn new(definition: &'a Definition, texts: &[String]) -> Result<Self> {
        let query = Query::new(definition, &conditions(definition, texts)?, &[])
            .map_err(|error| unfit(definition, error))?;
        Ok(Self { definition, query })
    }

    pub(crate) fn matches(&self, record: &DynamicRecord) -> bool {
        let cell_of = |(field, value): (usize, &Option<recto_model::Value>)| {
            let mut bytes = Vec::new();
            let value = value.as_ref()?;
            cell::encode(&self.definition.fields[field].ty, value, &mut bytes).ok()?;
            Some(bytes)
        };
        let cells: Vec<Option<Vec<u8>>> = record.values().iter().enumerate().map(cell_of).collect();
        self.query
            .matches(self.definition, |field| cells[field].as_deref())
    }

    /// Returns whether the filter uses only fields of the key. Key fields never change. A row that matches a
    /// filter on the key still matches after it is replaced.
    pub(crate) fn is_on_key(&self) -> bool {
        self.outside_key().is_none()
    }

    fn outside_key(&self) -> Option<&String> {
        self.fields().find(|name| !self.definition.key.contains(name))
    }

    /// Rejects puts and deletes if the filter uses fields outside the key and records have no versions.
    ///
    /// Without versions, the key alone does not show whether the filter matches the stored row. A put could
    /// replace a hidden row, a delete could remove a hidden row, and the results would reveal hidden rows. A
    /// read before the write would not help, because another process may write the row between the two.
    ///
    /// # Errors
    /// The filter uses a field outside the key, and records of the collection have no versions.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let Some(name) = self
            .outside_key()
            .filter(|_| self.definition.writes != WriteMode::Update)
        else {
            return Ok(());
        };
        let message = format!(
            "records of {} are read-only: the row filter uses {name}, which is not part of the key",
            self.definition.name
        );
        let key = self.definition.key.join(", ");
        Err(forbidden(message).with_hint(format!(
            "use a row filter on the key ({key}), which allows writes"
        )))
    }

    /// Returns the fields that the filter uses.
    fn fields(&self) -> impl Iterator<Item = &String> {
        let of_constraints = self.query.constraints.iter().map(|(field, _)| *field);
        let tuples = self.query.tuples.iter();
        let of_tuples = tuples.flat_map(|tuple| tuple.fields.iter().copied());
        let fields = of_constraints.chain(of_tuples);
        fields.map(|field| &self.definition.fields[field].name)
    }

    /// Rejects a list of partitions if the filter uses fields outside the partition key. The list
    /// would contain partitions whose rows are all hidden.
    ///
    /// # Errors
    /// The filter uses a field outside the partition key.
    pub(crate) fn check_lists_partitions(&self) -> Result<()> {
        let partition = self.definition.base().partition;
        match self.fields().find(|name| !partition.contains(name)) {
            None => Ok(()),
            Some(name) => Err(forbidden(format!(
                "partitions of {} cannot be listed: the row filter uses {name}, so Recto does not know which \
                 partitions have visible rows",
                self.definition.name
            ))),
        }
    }

    /// Rejects a put or delete of a record that the filter hides.
    ///
    /// # Errors
    /// The errors of [`check_writable`](Self::check_writable), or the record does not match the filter.
    pub(crate) fn check_write(&self, record: &DynamicRecord) -> Result<()> {
        self.check_writable()?;
        if self.matches(record) {
            return Ok(());
        }
        Err(forbidden(format!(
            "the row filter for {} does not allow writing this record",
            self.definition.name
        )))
    }
}

/// Returns the conditions of row filters. Each text is parsed separately, so that no text can end or change
/// another.
///
/// # Errors
/// The errors of [`RowFilter::new`].
pub(crate) fn conditions(definition: &Definition, texts: &[String]) -> Result<Vec<Condition>> {
    let mut conditions = Vec::new();
    for text in texts {
        conditions.extend(bind::conditions(definition, text).map_err(|error| unfit(definition, error))?);
    }
    Ok(conditions)
}

/// Returns whether a plan reads rows that the row filters hide. A plan reads no hidden rows if its ranges
/// enforce all conditions of the row filters (in each view, if several views are intersected).
pub(crate) fn hides(plan: &Plan, conditions: &[Condition]) -> bool {
    let of_views = plan.views.iter().flat_map(|view| &view.unserved);
    let filter_scan = plan.filter_scan.iter().chain(of_views);
    let mut fields = filter_scan.flat_map(recto_plan::filter_scan::ScanCondition::fields);
    fields.any(|field| conditions.iter().any(|one| fields_of(one).contains(field)))
}

fn fields_of(condition: &Condition) -> &[usize] {
    match condition {
        Condition::Compare { field, .. }
        | Condition::AnyOf { field, .. }
        | Condition::StartsWith { field, .. } => std::slice::from_ref(field),
        Condition::Tuple { fields, .. } => fields,
    }
}

/// Returns the error for a query that no view serves because of the row filters. The error names the fields
/// of the row filters, because the user did not request these conditions.
#[cold]
pub(crate) fn unserved(definition: &Definition, conditions: &[Condition], error: &Error) -> Error {
    let mut fields: Vec<usize> = conditions.iter().flat_map(fields_of).copied().collect();
    fields.dedup();
    let names: Vec<&str> = fields
        .iter()
        .map(|field| definition.fields[*field].name.as_str())
        .collect();
    let message = format!(
        "{} (the row filter for {} uses {}, which no view serves)",
        error.message(),
        definition.name,
        names.join(", ")
    );
    let unserved = Error::new(ErrorKind::NoPlan, message)
        .with_missing_partition_fields(error.missing_partition_fields());
    unserved.with_hint(
        "use allow_filter_scan=true, which also reads hidden rows and skips them, some thousands a page: an \
         empty page may have a next page",
    )
}

/// Returns whether a view serves the conditions of row filters for a given partition. Pages of such a view
/// read only matching rows.
pub(crate) fn is_served(
    definition: &Definition,
    sort_orders: &[Arc<SortOrder>],
    conditions: &[Condition],
) -> bool {
    let serves = |sort_order: &Arc<SortOrder>| {
        let Ok(mut query) = Query::new(definition, conditions, &[]) else {
            return false;
        };
        for column in 0..sort_order.partition_len() {
            let Some(field) = sort_order.field_of(column) else {
                return false;
            };
            if !matches!(query.constraint(field), Some(Constraint::In(_))) {
                query.constrain(field, choices::any_value());
            }
        }
        planner::serves(definition, sort_order, &query, &Wishes::default()).is_some()
    };
    sort_orders.iter().any(serves)
}

#[cold]
fn unfit(definition: &Definition, error: QueryError) -> Error {
    forbidden(format!(
        "the row filter for {} does not match its fields",
        definition.name
    ))
    .with_hint("create a new token with a row filter on fields of the collection")
    .with_source(error)
}

#[cold]
pub(crate) fn forbidden(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Forbidden, message)
}

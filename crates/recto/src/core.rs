//! State of a collection of an open store: its definition, tables, views and cached plans.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recto_model::record::NO_COLUMN;
use recto_model::schema::{Collection, Schema, WriteMode};
use recto_model::{Cells, RowRef, Table, Value, cell, json};
use recto_plan::SortOrder;
use recto_plan::sort_order::LackedRecords;
use recto_store::tables::serves;

use crate::catalog::Recorded;
use crate::error::{Error, ErrorKind, Result};
use crate::held::Held;
use crate::paging::{Joining, is_remote};
use crate::planned::PlanCache;
use crate::shared::Shared;
use crate::viewed::Viewed;

/// State of a collection of an open store, derived from one version of the cached schema.
#[derive(Debug)]
pub(crate) struct CollectionCore {
    pub(crate) shared: Arc<Shared>,
    /// Version of the cached schema from which this state was created.
    version: u64,
    pub(crate) definition: Arc<Collection>,
    /// Content of the catalog (schema and states of views) from which this state was created.
    pub(crate) recorded: Recorded,
    /// Sort orders that can be read: first the sort order of the base table, then the sort orders
    /// of the ready views in the order of the schema.
    pub(crate) sort_orders: Vec<Arc<SortOrder>>,
    /// Views that writes must maintain; `None` if the collection has none and its records do not change.
    pub(crate) viewed: Option<Arc<Viewed>>,
    /// Base table with the columns that inserts name. For an append-only collection, the columns end after
    /// the last one that the record type knows.
    pub(crate) written: Arc<Table>,
    /// For each sort order, the column index of each field of the record type, in the order of the record
    /// type. [`NO_COLUMN`] means that the sort order does not contain the field.
    columns: Vec<Vec<u16>>,
    /// For each field of the collection, the index (from 0) of the field in the record type; `None` if the
    /// record type lacks the field. The two orders differ if fields were added to the collection later.
    pub(crate) places: Vec<Option<usize>>,
    /// Names of the fields as JSON text, created for the first page that is returned as text.
    field_names: OnceLock<FieldNames>,
    pub(crate) plans: PlanCache,
    /// State of the collection by an earlier definition, for records that were written by that definition.
    /// Only the last requested earlier definition is cached.
    earlier: Mutex<Option<Arc<CollectionCore>>>,
}

impl CollectionCore {
    /// Creates the state of the collection that `definition` declares, with the sort orders and views of the
    /// cached schema.
    pub(crate) fn new(shared: Arc<Shared>, held: &Held, definition: Arc<Collection>) -> Self {
        Self::arranged(shared, held.version, &held.recorded, definition)
    }

    fn arranged(shared: Arc<Shared>, version: u64, recorded: &Recorded, definition: Arc<Collection>) -> Self {
        let changes = definition.writes == WriteMode::Update;
        let mut sort_orders = vec![Arc::new(SortOrder::base(&definition))];
        for kept in recorded.views.ready(&definition) {
            // Skip a view whose definition is invalid, because it has no table that could be read.
            let arranged = kept.arranged(&definition);
            if let Ok(mut view) = SortOrder::new(&arranged, arranged.table_name(kept.number)) {
                view.is_verified = kept.view.verify && changes && !shared.store.limits().transactions;
                view.lacks = LackedRecords {
                    empty: kept.misfits.empty,
                    too_large: kept.misfits.too_large,
                };
                sort_orders.push(Arc::new(view));
            }
        }
        let column = |column: &Option<usize>| column.map_or(NO_COLUMN, |column| column as u16);
        let columns = sort_orders.iter();
        let columns = columns.map(|one| one.column_of_field.iter().map(column).collect());
        let columns = columns.collect();
        let places = (0..definition.fields.len()).map(Some).collect();
        Self {
            field_names: OnceLock::new(),
            plans: PlanCache::default(),
            earlier: Mutex::default(),
            shared,
            version,
            viewed: Viewed::new(recorded, &definition).map(Arc::new),
            definition,
            recorded: recorded.clone(),
            written: Arc::clone(&sort_orders[0].table),
            sort_orders,
            columns,
            places,
        }
    }

    /// Returns whether the cached schema is still the version from which this state was created.
    pub(crate) fn is_current(&self) -> bool {
        self.version == self.shared.version()
    }

    /// Checks that an operation can continue with the definition with which it began, although another schema
    /// may have been applied since. The table must still exist and have the definition's columns at the same
    /// positions.
    ///
    /// # Errors
    /// The collection was removed, or created again with another definition, or its table is missing or
    /// differs from the schema.
    pub(crate) fn check_still_held(&self) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        let (held, name) = (self.shared.held(), &self.definition.name);
        held.check_table(name)?;
        let schema = &held.recorded.schema;
        let now = schema
            .collection(name)
            .ok_or_else(|| no_collection(schema, name))?;

        if Arc::ptr_eq(now, &self.definition) || serves(&now.base_table(), &self.base().table) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!("collection {name} was removed, and another collection with its name was created"),
        )
        .with_hint("repeat the operation with the new collection"))
    }

    /// Returns the views that an operation must write now. They may differ from the views at the beginning of
    /// the operation. The caller must hold the result of [`Shared::writing`], so that no view is added before
    /// the write has ended.
    ///
    /// # Errors
    /// The errors of [`check_still_held`](Self::check_still_held).
    pub(crate) fn viewed_now(&self) -> Result<Option<Arc<Viewed>>> {
        let name = &self.definition.name;
        if self.is_current() {
            self.recorded.check_sort_keys(name)?;
            return Ok(self.viewed.clone());
        }
        self.check_still_held()?;
        self.shared.held().recorded.check_sort_keys(name)?;
        let recorded = &self.shared.held().recorded;
        let now = recorded.schema.collection(&self.definition.name);
        Ok(now.and_then(|now| Viewed::new(recorded, now)).map(Arc::new))
    }

    /// Returns the error for a query that no view serves. The error is `refusal`, or
    /// [reports](Recorded::unserved) a view whose sort keys (bytes that order text by a collation) another
    /// release created. `asked` is the name of the requested view, or empty.
    pub(crate) fn unserved(&self, refusal: Error, asked: &str) -> Error {
        self.recorded.unserved(&self.definition.name, refusal, asked)
    }

    /// Returns the state of the collection by the earlier `definition`, before fields were added. Returns
    /// `None` if the collection never had that definition. Caches the state for the last definition, because
    /// a caller with one record of an earlier definition usually has many.
    pub(crate) fn of_earlier(&self, definition: &Arc<Collection>) -> Option<Arc<Self>> {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        if earlier.as_ref().is_none_or(|core| core.definition != *definition) {
            *earlier = Some(Arc::new(self.as_declared(definition)?));
        }
        earlier.clone()
    }

    fn as_declared(&self, definition: &Arc<Collection>) -> Option<Self> {
        let was_so = definition.name == self.definition.name
            && definition.writes == self.definition.writes
            && self.definition.fields.starts_with(&definition.fields)
            && serves(&self.base().table, &definition.base_table());
        was_so.then(|| Self {
            // Writers with an earlier definition also maintain the current views.
            viewed: self.viewed.clone(),
            ..Self::arranged(
                Arc::clone(&self.shared),
                self.version,
                &self.recorded,
                Arc::clone(definition),
            )
        })
    }

    /// Adapts the state to a record type that has the fields `names`, in the order of `names`.
    pub(crate) fn for_fields(mut self, names: &[&str]) -> Self {
        let fields = &self.definition.fields;
        let field_of = |name: &&str| fields.iter().position(|field| field.name == **name);
        let field_of: Vec<usize> = names.iter().filter_map(field_of).collect();
        debug_assert_eq!(field_of.len(), names.len(), "the fields were compared");
        for columns in &mut self.columns {
            *columns = field_of.iter().map(|&field| columns[field]).collect();
        }
        self.places = vec![None; fields.len()];
        for (place, &field) in field_of.iter().enumerate() {
            self.places[field] = Some(place);
        }
        if !self.replaces() {
            self.written = self.table_as_known();
        }
        self
    }

    /// Returns the base table with the columns up to the last column that the record type knows. An insert of
    /// that type does not name later columns, so the comparison with an existing record ignores them.
    fn table_as_known(&self) -> Arc<Table> {
        let table = &self.base().table;
        let last = self.columns[0]
            .iter()
            .max()
            .map_or(0, |&column| usize::from(column) + 1);
        let known = last.max(table.key_len());
        if known == table.columns().len() {
            return Arc::clone(table);
        }
        let columns = table.columns()[..known].to_vec();
        let known = Table::new(table.name(), columns, table.options());
        known.map_or_else(|_| Arc::clone(table), Arc::new)
    }

    /// Returns the indexes of the columns outside the key that the record type knows, in ascending order.
    /// Index 0 is the first column after the key. Returns `None` if the type knows all fields.
    pub(crate) fn known_columns(&self) -> Option<Vec<u16>> {
        if self.places.iter().all(Option::is_some) {
            return None;
        }
        let key_len = self.base().table.key_len() as u16;
        let mut known: Vec<u16> = self.columns[0]
            .iter()
            .filter_map(|one| one.checked_sub(key_len))
            .collect();
        known.sort_unstable();
        Some(known)
    }

    /// Returns whether the record type has the field at index `field` of the collection's definition.
    pub(crate) fn knows(&self, field: usize) -> bool {
        self.places.get(field).is_some_and(Option::is_some)
    }

    /// Returns whether the record type knows all columns of `table`, which may have newer columns than the
    /// base table of this state.
    pub(crate) fn knows_all_of(&self, table: &Table) -> bool {
        self.known_columns().is_none() && self.base().table.columns().len() == table.columns().len()
    }

    /// Converts the cells of a key from the column order of the base table to the order of the schema's
    /// `key`.
    pub(crate) fn key_of(&self, cells: &Cells) -> Cells {
        let base = self.base();
        let key = self.definition.key.iter().filter_map(|name| {
            let (field, _) = self.definition.field(name)?;
            base.column_of_field[field]
        });
        key.map(|column| cells.get(column)).collect()
    }

    /// Converts the cells of a record from the column order of the base table to the order of the
    /// collection's fields.
    pub(crate) fn record_of(&self, cells: &Cells) -> Cells {
        let mut places = vec![None; self.definition.fields.len()];
        for (place, (_, field)) in self.base().fields().enumerate() {
            places[field] = Some(place);
        }
        places
            .into_iter()
            .map(|place| {
                place
                    .filter(|&place| place < cells.len())
                    .and_then(|place| cells.get(place))
            })
            .collect()
    }

    /// Returns the names of the fields as JSON text (`,"name":`), for records that are returned as text.
    pub(crate) fn field_names(&self) -> &FieldNames {
        self.field_names.get_or_init(|| FieldNames::new(&self.definition))
    }

    /// Returns the settings by which reads join rows of a view with rows of the base table.
    pub(crate) fn joining(&self, view: &SortOrder) -> Joining {
        let base = Arc::clone(self.base());
        let is_kept_by_transactions = self.shared.store.limits().transactions;
        let changes = self.definition.writes == WriteMode::Update;
        let judge = self
            .viewed
            .as_ref()
            .filter(|_| changes && !is_kept_by_transactions);
        let judge = judge.and_then(|viewed| viewed.judge_of(view));
        Joining::new(Arc::clone(&self.definition), base, view, judge)
    }

    /// Returns the sort order of the base table, which stores the records.
    pub(crate) fn base(&self) -> &Arc<SortOrder> {
        &self.sort_orders[0]
    }

    /// Returns, for each field of the record type, the index of its column in the table of `sort_order`.
    pub(crate) fn columns_in(&self, sort_order: &SortOrder) -> &[u16] {
        let is_it = |one: &Arc<SortOrder>| std::ptr::eq(Arc::as_ptr(one), sort_order);
        let index = self.sort_orders.iter().position(is_it);
        &self.columns[index.expect("rows are read from sort orders of the collection")]
    }

    /// Returns the indexes of the fields that a read needs: the requested fields or, if none are requested,
    /// the fields that the record type knows. Returns `None`, which means all fields, if every sort order
    /// contains all fields.
    pub(crate) fn fields_needed(&self, asked: &[String]) -> Option<Vec<usize>> {
        if self.sort_orders.iter().all(|one| one.is_full()) {
            return None;
        }
        let fields = self.definition.fields.iter().zip(&self.places).enumerate();
        let needed = fields.filter(|(_, (field, place))| match asked {
            [] => place.is_some(),
            asked => asked.contains(&field.name),
        });
        Some(needed.map(|(index, _)| index).collect())
    }

    /// Rejects writes to an attached collection, because only another program writes the attached table.
    pub(crate) fn check_written_here(&self) -> Result<()> {
        let name = &self.definition.name;
        self.definition.attached.as_ref().map_or(Ok(()), |table| {
            Err(Error::new(
                ErrorKind::NotOffered,
                format!(
                    "collection {name} is read-only: it is attached to table {table}, to which Recto does \
                     not write"
                ),
            )
            .with_hint("write to it with CQL in its own cluster"))
        })
    }

    /// Returns whether reads of the collection cross a network.
    pub(crate) fn is_remote(&self) -> bool {
        is_remote(&*self.shared.store, &self.base().table)
    }

    /// Returns whether a put replaces the whole row. Otherwise the columns that a put does not name
    /// keep their values.
    pub(crate) fn replaces(&self) -> bool {
        self.definition.writes != WriteMode::Append
    }

    /// Decodes the value of the field at index `field` from a row of the table of `sort_order`. Returns
    /// `None` for null, and for a field that the table lacks.
    pub(crate) fn value(
        &self,
        sort_order: &SortOrder,
        row: RowRef<'_>,
        field: usize,
    ) -> Result<Option<Value>> {
        let Some(column) = sort_order.column_of_field[field] else {
            return Ok(None);
        };
        let definition = &self.definition.fields[field];
        sort_order
            .cell(row, column)
            .map(|bytes| cell::decode(&definition.ty, bytes))
            .transpose()
            .map_err(|error| damaged(&self.definition, &definition.name, &error))
    }

    /// Returns the text of each value of a row's key, in the key's order. Omits values that cannot be
    /// decoded.
    pub(crate) fn key_texts(&self, sort_order: &SortOrder, row: RowRef<'_>) -> Vec<String> {
        let texts = self.definition.key.iter().filter_map(|name| {
            let (field, definition) = self.definition.field(name)?;
            let value = self.value(sort_order, row, field).ok()??;
            Some(json::to_text(&definition.ty, &value))
        });
        texts.collect()
    }

    /// Returns the key of a row of the base table as text for messages: the text of each value, in the order
    /// of the schema's `key`.
    pub(crate) fn key_text(&self, partition: &Cells, clustering: &Cells) -> String {
        key_text(&self.definition, self.base(), partition, clustering)
    }
}

/// Returns the key of a row of the base table as text for messages: the text of each value, in the order of
/// the schema's `key`. Omits values that cannot be decoded.
pub(crate) fn key_text(
    collection: &Collection,
    base: &SortOrder,
    partition: &Cells,
    clustering: &Cells,
) -> String {
    let texts = collection.key.iter().filter_map(|name| {
        let (field, definition) = collection.field(name)?;
        let column = base.column_of_field[field]?;
        let cell = match column.checked_sub(partition.len()) {
            None => partition.get(column),
            Some(column) => clustering.get(column),
        };
        let value = cell::decode(&definition.ty, cell?).ok()?;
        Some(json::to_text(&definition.ty, &value))
    });
    format!("({})", texts.collect::<Vec<_>>().join(", "))
}

/// Returns the error for a stored cell that cannot be decoded. In an attached table, another program wrote
/// the cell. In a table of Recto, the cell is damaged.
pub(crate) fn damaged(collection: &Collection, field: &str, error: &cell::CellError) -> Error {
    let name = &collection.name;
    if let Some(table) = &collection.attached {
        return Error::new(
            ErrorKind::InvalidArgument,
            format!("a stored {field} of collection {name} cannot be read: {error}"),
        )
        .with_field(field)
        .with_hint(format!(
            "read the other fields by their names; another program wrote {field} to table {table}"
        ));
    }
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {field} of collection {name} is damaged: {error}"),
    )
    .with_field(field)
    .with_hint("run a check of the store, which finds every damaged row")
}

/// Returns the error for a collection that does not exist. Local and remote sessions return the same error.
#[cold]
pub fn no_collection(schema: &Schema, name: &str) -> Error {
    let names: Vec<&str> = schema
        .collections
        .iter()
        .map(|collection| collection.name.as_str())
        .collect();
    let hint = match (schema.nearest_collection(name), names.is_empty()) {
        (Some(nearest), _) => format!("did you mean {nearest}?"),
        (None, false) => format!("the store's collections are {}", names.join(", ")),
        (None, true) => "apply a schema first: the store has no collections yet".to_owned(),
    };
    Error::new(ErrorKind::NotFound, format!("there is no collection {name}")).with_hint(hint)
}

/// Text that each JSON record repeats: `,"name":` for each field of a collection.
#[derive(Debug)]
pub(crate) struct FieldNames(pub(crate) Vec<Vec<u8>>);

impl FieldNames {
    pub(crate) fn new(definition: &Collection) -> Self {
        let text = |name: &str| {
            let mut text = Vec::with_capacity(name.len() + r#","":"#.len());
            text.push(b',');
            json::write_text(name, &mut text);
            text.push(b':');
            text
        };
        Self(definition.fields.iter().map(|field| text(&field.name)).collect())
    }
}

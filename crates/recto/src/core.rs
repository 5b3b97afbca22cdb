//! A collection of an open store, as every handle on it knows it.

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

/// A collection of an open store.
#[derive(Debug)]
pub(crate) struct CollectionCore {
    pub(crate) shared: Arc<Shared>,
    /// The version of what the store held when this was made.
    version: u64,
    pub(crate) definition: Arc<Collection>,
    /// What it is of.
    pub(crate) recorded: Recorded,
    /// What it can be read from: the base table's first, then those of views that are ready, in the schema's order.
    pub(crate) sort_orders: Vec<Arc<SortOrder>>,
    /// The views that are written; none if it has none, and its records do not change.
    pub(crate) viewed: Option<Arc<Viewed>>,
    /// The base table as puts name it.
    pub(crate) written: Arc<Table>,
    /// For each sort order, for each field of the record type, in its order, its column in the table;
    /// [`NO_COLUMN`] where the sort order does not hold it.
    columns: Vec<Vec<u16>>,
    /// For each field, where it stands in the record type: a type may declare fields in another order
    /// than the one they were added to the collection in, and not know all of them.
    pub(crate) places: Vec<Option<usize>>,
    /// The fields' names as JSON text, once a page was asked for as text.
    field_names: OnceLock<FieldNames>,
    pub(crate) plans: PlanCache,
    /// It as an earlier definition had it, which some records are of.
    earlier: Mutex<Option<Arc<CollectionCore>>>,
}

impl CollectionCore {
    /// The collection of this definition, beside the others that the store held.
    pub(crate) fn new(shared: Arc<Shared>, held: &Held, definition: Arc<Collection>) -> Self {
        Self::arranged(shared, held.version, &held.recorded, definition)
    }

    fn arranged(shared: Arc<Shared>, version: u64, recorded: &Recorded, definition: Arc<Collection>) -> Self {
        let changes = definition.writes == WriteMode::Update;
        let mut sort_orders = vec![Arc::new(SortOrder::base(&definition))];
        for kept in recorded.views.ready(&definition) {
            // What cannot be a table is not there to be read.
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

    /// Whether the store holds what it held when this was made.
    pub(crate) fn is_current(&self) -> bool {
        self.version == self.shared.version()
    }

    /// Whether what was begun with this can go on, whatever has become of the schema since: the table is there, with
    /// its columns where they were.
    ///
    /// # Errors
    /// The collection was removed, or made otherwise, or its table cannot serve it.
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
            format!("collection {name} was removed meanwhile, and another of its name made"),
        )
        .with_hint("begin again, with the collection as it is now"))
    }

    /// The views that what was begun with this has to write now, whichever there were then. It is asked while
    /// [writing](Shared::writing), so that none is added before the write has ended.
    ///
    /// # Errors
    /// As [`check_still_held`](Self::check_still_held).
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

    /// [Why](Recorded::unserved) a query of it is refused.
    pub(crate) fn unserved(&self, refusal: Error, asked: &str) -> Error {
        self.recorded.unserved(&self.definition.name, refusal, asked)
    }

    /// The collection as it was declared before fields were added to it; `None` if that is not what it was. That which
    /// was asked for last is kept: whoever has one such record has many.
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
            // What is written to views goes by what they are now.
            viewed: self.viewed.clone(),
            ..Self::arranged(
                Arc::clone(&self.shared),
                self.version,
                &self.recorded,
                Arc::clone(definition),
            )
        })
    }

    /// The collection for a record type with these of its fields, in this order.
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

    /// The base table as it was when the record type had all its fields: without the columns after the last one
    /// that the type knows. An insert that does not name them leaves them out of what makes a record the same.
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

    /// The regular columns that the record type knows, as indexes into them; `None` if it knows all.
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

    /// Whether the record type knows a field of the collection, as it is declared now.
    pub(crate) fn knows(&self, field: usize) -> bool {
        self.places.get(field).is_some_and(Option::is_some)
    }

    /// Whether it knows all fields that a table of the collection has.
    pub(crate) fn knows_all_of(&self, table: &Table) -> bool {
        self.known_columns().is_none() && self.base().table.columns().len() == table.columns().len()
    }

    /// The cells of a key, which are in the order of the base table's columns, in the schema's order.
    pub(crate) fn key_of(&self, cells: &Cells) -> Cells {
        let base = self.base();
        let key = self.definition.key.iter().filter_map(|name| {
            let (field, _) = self.definition.field(name)?;
            base.column_of_field[field]
        });
        key.map(|column| cells.get(column)).collect()
    }

    /// The cells of a record, which are in the order of the base table's columns, in the order of the fields.
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

    /// The fields' names as JSON text.
    pub(crate) fn field_names(&self) -> &FieldNames {
        self.field_names.get_or_init(|| FieldNames::new(&self.definition))
    }

    /// How rows of a view are joined with base rows.
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

    /// The base table's sort order.
    pub(crate) fn base(&self) -> &Arc<SortOrder> {
        &self.sort_orders[0]
    }

    /// For each field of the record type, its column in the table of one of the sort orders.
    pub(crate) fn columns_in(&self, sort_order: &SortOrder) -> &[u16] {
        let is_it = |one: &Arc<SortOrder>| std::ptr::eq(Arc::as_ptr(one), sort_order);
        let index = self.sort_orders.iter().position(is_it);
        &self.columns[index.expect("rows are read from sort orders of the collection")]
    }

    /// The fields that are needed of a row: those asked for by name, or those that the record type knows;
    /// none for all, and where every sort order has all.
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

    /// Refuses to write records of a table that is attached.
    pub(crate) fn check_written_here(&self) -> Result<()> {
        let name = &self.definition.name;
        self.definition.attached.as_ref().map_or(Ok(()), |table| {
            Err(Error::new(
                ErrorKind::NotOffered,
                format!("collection {name} is read only: it is attached to table {table}, which nobody writes here"),
            )
            .with_hint("write it where it is, by CQL"))
        })
    }

    /// Whether what it reads is at the end of a network.
    pub(crate) fn is_remote(&self) -> bool {
        is_remote(&*self.shared.store, &self.base().table)
    }

    /// Whether a put replaces the whole row (or leaves what it does not name).
    pub(crate) fn replaces(&self) -> bool {
        self.definition.writes != WriteMode::Append
    }

    /// The value of a field of a row of a sort order's table.
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

    /// Returns the text of each value of a row's key, in the key's order, as far as it can be read.
    pub(crate) fn key_texts(&self, sort_order: &SortOrder, row: RowRef<'_>) -> Vec<String> {
        let texts = self.definition.key.iter().filter_map(|name| {
            let (field, definition) = self.definition.field(name)?;
            let value = self.value(sort_order, row, field).ok()??;
            Some(json::to_text(&definition.ty, &value))
        });
        texts.collect()
    }

    /// The key of a row, for people: the text of each of its values, in the key's order.
    pub(crate) fn key_text(&self, partition: &Cells, clustering: &Cells) -> String {
        key_text(&self.definition, self.base(), partition, clustering)
    }
}

/// The key of a row of a collection's base table, for people: the text of each of its values, in the key's order.
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

/// The error of a stored cell that does not decode.
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
    .with_hint("a check of the store finds every damaged row")
}

/// There is no collection of this name: the error of every session, whichever way it learns of it.
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
        (None, true) => "the store has none yet: apply a schema first".to_owned(),
    };
    Error::new(ErrorKind::NotFound, format!("there is no collection {name}")).with_hint(hint)
}

/// What every record's text repeats: `,"name":` of each field of a collection.
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

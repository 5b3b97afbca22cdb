//! Collection of the schema with its views as tables. The engine uses it to compute the view
//! entries of each record.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use recto_model::schema::{Collection, Derivation, Holds, SortOrder};
use recto_model::table::TableError;
use recto_model::{Cells, RowRef, Table, Type, cell};

use crate::views::arranged::Arranged;
use crate::views::claims::ClaimsTable;
use crate::views::judge::Seen;
use crate::views::misfit::{EntryOutcome, Misfit, MisfitCause};
use crate::views::row::{Entry, EntryKey, Generation, Version, ViewNumber};

pub use recto_model::schema::MAX_VIEW_KEY_BYTES;

/// Collection under one version of its schema, with the tables of the views that are written.
///
/// ```
/// use recto_model::{Cells, schema::Schema};
/// use recto_protocol::views::{Arranged, Generation, ViewNumber, ViewedCollection};
///
/// let schema = Schema::parse(
///     r#"
/// [collection.suspensions]
/// fields = { user = "text", status = "text" }
/// key = ["user"]
/// [collection.suspensions.view.by_status]
/// partition = ["status"]
/// "#,
/// )?;
/// let suspensions = &schema.collections[0];
/// let views = suspensions.views.iter().map(|view| (ViewNumber(1), suspensions.arranged(view)));
/// let suspensions = ViewedCollection::new(Generation(1), suspensions, views)?;
///
/// let record: Cells = [Some(&b"anna"[..]), Some(b"open")].into_iter().collect();
/// let [entry] = &suspensions.entries(&record)[..] else { panic!("one view") };
/// assert_eq!(entry.key.key.cells().collect::<Vec<_>>(), [b"open", b"anna"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewedCollection {
    generation: Generation,
    types: Arc<[Type]>,
    views: Arc<[ViewTable]>,
    claims: Arc<[ClaimsTable]>,
}

/// View of a collection: its table, and what each column contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewTable {
    number: ViewNumber,
    table: Arc<Table>,
    holds: Vec<Holds>,
}

impl Hash for ViewedCollection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.generation.hash(state);
    }
}

/// New cells for some fields of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldCells {
    /// Indexes (from 0) of the changed fields, each once.
    pub fields: Vec<usize>,
    /// New cells, in the order of `fields`.
    pub cells: Cells,
}

/// Cells of a key in the table of a view, partition columns first, each preceded by its length. The
/// `Ord` compares these bytes, which is not the sort order of the table: it serves only for sets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyCells(Box<[u8]>);

impl KeyCells {
    /// Creates the key with these cells, none of which is null.
    pub(crate) fn of<'c>(cells: impl Iterator<Item = &'c [u8]>) -> Self {
        let mut bytes = Vec::new();
        for cell in cells {
            bytes.extend_from_slice(&(cell.len() as u32).to_be_bytes());
            bytes.extend_from_slice(cell);
        }
        Self(bytes.into())
    }

    /// Returns the key in the form in which it is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the stored form of a key; `None` if the bytes are not a key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        while let Some((_, after)) = split_cell(rest) {
            rest = after;
        }
        rest.is_empty().then(|| Self(bytes.into()))
    }

    /// Returns the cells of the key, partition columns first.
    pub fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (cell, after) = split_cell(rest)?;
            rest = after;
            Some(cell)
        })
    }

    /// Returns the partition cells and the clustering cells of the key in `table`; `None` if the
    /// number of cells is not that of the table's key.
    pub fn in_table(&self, table: &Table) -> Option<(Cells, Cells)> {
        let partition = self.cells().take(table.partition().len());
        let clustering = self.cells().skip(table.partition().len());
        let is_key = self.cells().count() == table.key_len();
        is_key.then(|| (partition.map(Some).collect(), clustering.map(Some).collect()))
    }

    /// Returns the limit of `table` that the key violates; `None` if it violates none. The key may
    /// be too large, or the first partition column empty where the table does not allow that.
    /// `number` is the id of the view or unique constraint, and `field_of` returns the field of a
    /// column.
    pub(crate) fn misfit(
        &self,
        number: ViewNumber,
        table: &Table,
        field_of: impl Fn(usize) -> Option<usize>,
    ) -> Option<Misfit> {
        let bytes = self.cells().map(<[u8]>::len).sum::<usize>();
        if bytes > MAX_VIEW_KEY_BYTES {
            // Add up the bytes of each field, because a field may have two key columns: its
            // collation key and its text.
            let mut by_field = BTreeMap::<usize, usize>::new();
            for (column, cell) in self.cells().enumerate() {
                *by_field.entry(field_of(column)?).or_default() += cell.len();
            }
            let largest = by_field.into_iter().rev().max_by_key(|(_, bytes)| *bytes);
            return Some(Misfit {
                number,
                field: largest?.0,
                cause: MisfitCause::TooLarge(bytes),
            });
        }
        let is_empty = !table.allows_empty_partition() && self.cells().next().is_none_or(<[u8]>::is_empty);
        let field = field_of(0).filter(|_| is_empty)?;
        let cause = MisfitCause::Empty;
        Some(Misfit { number, field, cause })
    }
}

fn split_cell(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

impl ViewedCollection {
    /// Creates a collection with these views, each with the id of its table.
    ///
    /// # Errors
    /// The type of a view's key field is not allowed in keys.
    pub fn new<'v>(
        generation: Generation,
        collection: &Collection,
        views: impl IntoIterator<Item = (ViewNumber, SortOrder<'v>)>,
    ) -> Result<Self, TableError> {
        let table_of = |(number, arranged): (ViewNumber, SortOrder<'v>)| {
            let (table, holds) = arranged.table(&arranged.table_name(number.0))?;
            Ok(ViewTable {
                number,
                table: Arc::new(table),
                holds,
            })
        };
        Ok(Self {
            generation,
            types: collection.fields.iter().map(|field| field.ty.clone()).collect(),
            views: views.into_iter().map(table_of).collect::<Result<_, _>>()?,
            claims: Arc::default(),
        })
    }

    /// Adds the tables of the collection's unique constraints.
    #[must_use]
    pub fn with_unique(self, tables: impl IntoIterator<Item = ClaimsTable>) -> Self {
        Self {
            claims: tables.into_iter().collect(),
            ..self
        }
    }

    /// Returns the tables of the unique constraints.
    pub fn claims_tables(&self) -> &[ClaimsTable] {
        &self.claims
    }

    /// Returns the table of the unique constraint with this id.
    pub fn claims_table(&self, number: ViewNumber) -> Option<&ClaimsTable> {
        self.claims.iter().find(|claims| claims.number() == number)
    }

    /// Returns the views that writers must update.
    pub fn views(&self) -> &[ViewTable] {
        &self.views
    }

    /// Derives the entry of a record in the view with this id; `None` if no view has the id.
    pub fn outcome(&self, view: ViewNumber, record: &Cells) -> Option<EntryOutcome<KeyCells, Cells>> {
        Some(self.view(view)?.outcome(&self.types, record))
    }

    /// Returns whether the key of some record could be too large, or its partition empty, for a
    /// view or a unique constraint.
    pub fn can_have_misfits(&self) -> bool {
        let tables = self.views.iter().map(|view| &view.table);
        let mut tables = tables.chain(self.claims.iter().map(ClaimsTable::table));
        tables.any(|table| can_have_misfits(table))
    }

    /// Returns the view with this id.
    pub fn view(&self, number: ViewNumber) -> Option<&ViewTable> {
        self.views.iter().find(|view| view.number == number)
    }
}

impl ViewTable {
    /// Returns the id of the view's table.
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// Returns the definition of the view's table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns what each column of the table contains, key columns first.
    pub fn holds(&self) -> &[Holds] {
        &self.holds
    }

    /// Returns the regular cells of an entry (row in a view), with `version` in the hidden version
    /// column.
    pub fn regular_cells(&self, entry: &Entry<KeyCells, Cells>, version: Version) -> Cells {
        let stamp = version.0.to_be_bytes();
        let mut fields = entry.cells.iter();
        let regular = self.holds[self.table.key_len()..].iter();
        let cells = regular.map(|holds| match holds {
            Holds::Hidden => Some(&stamp[..]),
            Holds::Field(_) | Holds::Derived(..) => fields.next().flatten(),
        });
        cells.collect()
    }

    /// Returns the indexes (from 0) of the fields that the table's key contains, unchanged or as
    /// derived values.
    pub fn key_fields(&self) -> impl Iterator<Item = usize> {
        (0..self.table.key_len()).filter_map(|column| self.field_of(column))
    }

    /// Returns the indexes (from 0) of the regular columns to set if the writer knows only some
    /// fields: the version, and these fields.
    pub fn known_columns(&self, is_known: impl Fn(usize) -> bool) -> Vec<u16> {
        let regular = self.holds[self.table.key_len()..].iter().zip(0..);
        let known = regular.filter(|(holds, _)| match **holds {
            Holds::Field(field) | Holds::Derived(field, _) => is_known(field),
            Holds::Hidden => true,
        });
        known.map(|(_, column)| column).collect()
    }

    /// Decodes the entry in a row of the table; `None` if the row has no version.
    pub fn seen(&self, row: RowRef<'_>) -> Option<Seen<KeyCells, Cells>> {
        let stamp = self.holds.iter().position(|holds| *holds == Holds::Hidden)?;
        let stamp = row.get(stamp)?.try_into().ok()?;
        Some(Seen {
            version: Version(i64::from_be_bytes(stamp)),
            ..self.unversioned(row)?
        })
    }

    /// Decodes the entry in a row of the table, whether or not the row has a version. The returned
    /// entry has version 0. Returns `None` if a key column is null.
    pub fn unversioned(&self, row: RowRef<'_>) -> Option<Seen<KeyCells, Cells>> {
        let key_len = self.table.key_len();
        let fields = (key_len..self.holds.len()).filter(|column| self.holds[*column] != Holds::Hidden);
        let key: Option<Vec<&[u8]>> = (0..key_len).map(|column| row.get(column)).collect();
        Some(Seen {
            key: EntryKey {
                view: self.number,
                key: KeyCells::of(key?.into_iter()),
            },
            version: Version(0),
            cells: fields.map(|column| row.get(column)).collect(),
        })
    }

    /// Derives the entry of a record in this view, and checks that the table can store it.
    fn outcome(&self, types: &[Type], record: &Cells) -> EntryOutcome<KeyCells, Cells> {
        let Some(entry) = self.asked_entry(types, record) else {
            return EntryOutcome::LeftOutByRule;
        };
        let field_of = |column: usize| self.field_of(column);
        match entry.key.key.misfit(self.number, &self.table, field_of) {
            None => EntryOutcome::Entry(entry),
            Some(misfit) => EntryOutcome::DoesNotFit(misfit),
        }
    }

    /// Returns the index (from 0) of the field that a column contains, unchanged or as a derived
    /// value.
    fn field_of(&self, column: usize) -> Option<usize> {
        match *self.holds.get(column)? {
            Holds::Field(field) | Holds::Derived(field, _) => Some(field),
            Holds::Hidden => None,
        }
    }

    /// Returns whether the key of some record could be too large, or its partition empty, for this
    /// view. Keys of a fixed size are never too large.
    pub fn can_have_misfits(&self) -> bool {
        can_have_misfits(&self.table)
    }

    /// Returns the entry of a record, even if its key is too large; `None` if the view's rules
    /// exclude the record.
    fn asked_entry(&self, types: &[Type], record: &Cells) -> Option<Entry<KeyCells, Cells>> {
        let key_len = self.table.key_len();
        let mut key = Cells::new();
        for (column, holds) in self.holds[..key_len].iter().enumerate() {
            match *holds {
                Holds::Field(field) => match cell_of(record, field) {
                    Some(cell) => key.push_with(|out| push_canonical(&types[field], cell, out)),
                    None if self.tells_nulls_of(field, column) => key.push(Some(stand_in(&types[field]))),
                    None => return None,
                },
                Holds::Derived(field, derivation) => {
                    let cell = cell_of(record, field);
                    let is_left_out = derivation.replaces_field() && !self.tells_nulls_of(field, column);
                    if cell.is_none() && is_left_out {
                        return None;
                    }
                    key.push(Some(&derivation.of(&types[field], cell)));
                }
                Holds::Hidden => return None,
            }
        }
        let fields = self.holds[key_len..].iter().filter_map(|holds| match *holds {
            Holds::Field(field) => Some(cell_of(record, field)),
            // A view stores derived values only in its key columns, so no other cell holds one.
            Holds::Derived(..) | Holds::Hidden => None,
        });
        let cells: Cells = fields.collect();
        let has_nulls = cells.iter().any(|cell| cell.is_none());
        Some(Entry {
            key: EntryKey {
                view: self.number,
                key: KeyCells::of(key.iter().flatten()),
            },
            has_nulls,
            cells,
        })
    }

    /// Returns whether an earlier column of the key shows whether the field is null.
    fn tells_nulls_of(&self, field: usize, column: usize) -> bool {
        let derived = self.holds[..column].iter();
        derived
            .rev()
            .any(|holds| matches!(holds, Holds::Derived(of, Derivation::IsNull) if *of == field))
    }
}

/// Maximum size of a value with a bounded type such as `int` or `uuid`, in bytes.
const MAX_BOUNDED_BYTES: usize = 16;

/// Returns whether each value of the type has 1 to [`MAX_BOUNDED_BYTES`] bytes.
fn is_bounded(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Boolean
            | Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Float
            | Type::Double
            | Type::Date
            | Type::Time
            | Type::Timestamp
            | Type::Uuid
            | Type::TimeUuid
            | Type::Inet
    )
}

/// Returns whether some key could be too large for this table, or its partition empty.
fn can_have_misfits(table: &Table) -> bool {
    let key = &table.columns()[..table.key_len()];
    key.len() * MAX_BOUNDED_BYTES > MAX_VIEW_KEY_BYTES || !key.iter().all(|column| is_bounded(&column.ty))
}

/// Returns the cell of a field; `None` if it is null. A record that was written under an older
/// schema has no cells for newer fields, so these are null.
pub(crate) fn cell_of(record: &Cells, field: usize) -> Option<&[u8]> {
    if field < record.len() {
        record.get(field)
    } else {
        None
    }
}

/// Appends the canonical form of a cell, which keys contain. A cell that does not have the type
/// `ty` is appended unchanged.
pub(crate) fn push_canonical(ty: &Type, cell: &[u8], out: &mut Vec<u8>) {
    if cell::canonical_key(ty, cell, out).is_err() {
        out.extend_from_slice(cell);
    }
}

/// Returns the value that a key column stores if its field is null, because key columns cannot be
/// null. An earlier column of the key shows that the field is null.
fn stand_in(ty: &Type) -> &'static [u8] {
    const TIME_UUID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0];
    match ty {
        Type::Boolean | Type::TinyInt | Type::Varint => &[0],
        Type::SmallInt => &[0; 2],
        Type::Int | Type::Float | Type::Date | Type::Inet => &[0; 4],
        Type::Decimal => &[0; 5],
        Type::BigInt | Type::Double | Type::Time | Type::Timestamp => &[0; 8],
        Type::Uuid => &[0; 16],
        Type::TimeUuid => &TIME_UUID,
        _ => &[],
    }
}

impl Arranged for ViewedCollection {
    type Record = Cells;
    type Patch = FieldCells;
    type Key = KeyCells;
    type Cells = Cells;

    fn generation(&self) -> Generation {
        self.generation
    }

    fn entries(&self, record: &Cells) -> Vec<Entry<KeyCells, Cells>> {
        let entries = self.views.iter();
        entries
            .filter_map(|view| view.outcome(&self.types, record).into_entry())
            .collect()
    }

    fn entry_in(&self, view: ViewNumber, record: &Cells) -> Option<Entry<KeyCells, Cells>> {
        self.outcome(view, record)?.into_entry()
    }

    fn misfits(&self, record: &Cells) -> Vec<Misfit> {
        let views = self.views.iter().filter(|view| view.can_have_misfits());
        let of_views = views.filter_map(|view| match view.outcome(&self.types, record) {
            EntryOutcome::DoesNotFit(misfit) => Some(misfit),
            EntryOutcome::Entry(_) | EntryOutcome::LeftOutByRule => None,
        });
        let claims = self.claims.iter();
        let of_claims = claims.filter_map(|claims| claims.misfit(&self.types, record));
        of_views.chain(of_claims).collect()
    }

    fn has_same_value(&self, field: usize, one: &Cells, other: &Cells) -> bool {
        cell_of(one, field) == cell_of(other, field)
    }

    fn claims(&self, record: &Cells) -> Vec<EntryKey<KeyCells>> {
        let claims = self.claims.iter();
        claims
            .filter_map(|claims| claims.claim(&self.types, record))
            .collect()
    }

    fn has_unique(&self, number: ViewNumber) -> bool {
        self.claims_table(number).is_some()
    }

    fn has_view(&self, view: ViewNumber) -> bool {
        self.view(view).is_some()
    }

    fn view_count(&self) -> usize {
        self.views.len()
    }

    fn key_bytes(&self, key: &KeyCells) -> usize {
        key.0.len()
    }

    fn patched(&self, record: &Cells, patch: &FieldCells) -> Cells {
        let mut places = vec![None; self.types.len()];
        for (place, field) in patch.fields.iter().enumerate() {
            if let Some(of_field) = places.get_mut(*field) {
                *of_field = Some(place);
            }
        }
        let cell = |field: usize| match places[field] {
            Some(place) => patch.cells.get(place),
            None => cell_of(record, field),
        };
        (0..self.types.len()).map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutes_for_null_are_valid_keys() {
        for ty in Type::ORDERABLE {
            let mut canonical = Vec::new();
            cell::canonical_key(&ty, stand_in(&ty), &mut canonical).expect("a value of its type");
            assert_eq!(canonical, stand_in(&ty), "{ty}");
        }
    }

    #[test]
    fn a_key_is_read_from_its_bytes_only() {
        let key = KeyCells::of([&b"open"[..], b"", b"7"].into_iter());
        assert_eq!(KeyCells::from_bytes(key.as_bytes()), Some(key.clone()));
        assert_eq!(key.cells().collect::<Vec<_>>(), [&b"open"[..], b"", b"7"]);
        for cut in [1, 4, 10] {
            assert_eq!(KeyCells::from_bytes(&key.as_bytes()[cut..]), None);
        }
    }
}

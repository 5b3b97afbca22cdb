//! Base table of a collection (one row for each record): its columns, including hidden ones, and
//! the encoding of its rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use recto_model::schema::{Collection, Holds};
use recto_model::table::TableError;
use recto_model::{Cells, RowRef, Table};

use crate::views::collection::{KeyCells, cell_of};
use crate::views::row::{Found, Generation, Micros, Row, RowClaims, Token, Tokens, Version};
use crate::views::stored::{Head, Life, StoredError, decode_tokens, encode_tokens};

/// Base table of a collection, which stores one row for each record, and the map between its
/// columns and fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseTable {
    table: Arc<Table>,
    /// For each field, the index (from 0) of its column in the table.
    columns: Vec<usize>,
    /// For each regular column except the hidden ones, the index (from 0) of its field.
    fields: Vec<usize>,
}

impl BaseTable {
    /// Index (from 0) of `recto_tokens`, the ids of the last writes of the row, among the regular
    /// columns. Conditional writes compare this column.
    pub const TOKENS: u16 = 0;
    /// Index (from 0) of `recto_version`, the version of the record, among the regular columns.
    /// Transactions compare this column.
    pub const STAMP: u16 = 1;
    /// Index (from 0) of `recto_done` among the regular columns. Plain writes
    /// [set](Self::done_cell) it when all view entries of a version are written.
    pub const DONE: u16 = 3;

    /// Creates the base table of a collection.
    ///
    /// # Errors
    /// The type of a key field is not allowed in keys.
    pub fn new(collection: &Collection) -> Result<Self, TableError> {
        let (table, holds) = collection.base().table(&collection.name)?;
        let column_of = |field: usize| holds.iter().position(|holds| *holds == Holds::Field(field));
        let field_of = |holds: &Holds| match *holds {
            Holds::Field(field) => Some(field),
            Holds::Derived(..) | Holds::Hidden => None,
        };
        Ok(Self {
            columns: (0..collection.fields.len()).filter_map(column_of).collect(),
            fields: holds[table.key_len()..].iter().filter_map(field_of).collect(),
            table: Arc::new(table),
        })
    }

    /// Returns the definition of the base table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the indexes (from 0) of the regular columns that a conditional write sets: all
    /// except [`DONE`](Self::DONE).
    pub fn conditional_columns(&self) -> Vec<u16> {
        let regular = 0..self.table.regular().len() as u16;
        regular.filter(|column| *column != Self::DONE).collect()
    }

    /// Returns the cells, including nulls, that a conditional write of `row` puts into the
    /// [conditional columns](Self::conditional_columns).
    ///
    /// # Errors
    /// [`StoredError::TooLarge`] if the row lists too many entries for removal from views. The
    /// caller must not send such a row.
    pub fn conditional_cells(&self, row: &Row<Cells, KeyCells>) -> Result<Cells, StoredError> {
        let mut cells = Cells::new();
        cells.push(Some(&encode_tokens(&row.tokens)));
        cells.push(Some(&row.version.0.to_be_bytes()));
        cells.push(Some(&Head::of(row).encode()?));
        for field in &self.fields {
            cells.push(row.record.as_ref().and_then(|record| cell_of(record, *field)));
        }
        Ok(cells)
    }

    /// Returns the regular cells of a record's row on a store with
    /// [transactions](crate::views::transaction). The row has no tokens and no `recto_done`. It has
    /// `recto_head` only if the record expires.
    ///
    /// # Errors
    /// Same errors as [`conditional_cells`](Self::conditional_cells).
    pub fn transacted_cells(
        &self,
        record: &Cells,
        version: Version,
        expires: Option<(Micros, Generation)>,
    ) -> Result<Cells, StoredError> {
        let head = expires.map(|(at, generation)| Head {
            generation,
            life: Life::Expires(at),
            must_go: BTreeSet::new(),
            claims: RowClaims::NONE,
        });
        let head = head.map(|head| head.encode()).transpose()?;
        let version = version.0.to_be_bytes();
        let hidden = [None, Some(&version[..]), head.as_deref(), None];
        let fields = self.fields.iter().map(|field| cell_of(record, *field));
        Ok(hidden.into_iter().chain(fields).collect())
    }

    /// Returns the cell of `recto_done` that marks all view entries of a version as written.
    pub fn done_cell(version: Version) -> Cells {
        std::iter::once(Some(&version.0.to_be_bytes()[..])).collect()
    }

    /// Decodes the base row of a record. The record may be deleted or have expired. On a store with
    /// [transactions](crate::views::transaction), rows have no tokens (ids of their last writes);
    /// the returned row then has a placeholder token. Returns `None` if the table has no such row.
    ///
    /// # Errors
    /// Same errors as [`found`](Self::found).
    pub fn row(&self, row: RowRef<'_>) -> Result<Option<Row<Cells, KeyCells>>, StoredError> {
        let first = self.table.key_len();
        if row.get(first + usize::from(Self::TOKENS)).is_some() {
            return Ok(self.found(row)?.row);
        }
        let Some(version) = row
            .get(first + usize::from(Self::STAMP))
            .and_then(|cell| cell.try_into().ok())
        else {
            return Ok(None);
        };
        let head = row.get(first + 2).map(Head::decode).transpose()?;
        let life = head.as_ref().map_or(Life::Lives, |head| head.life);
        Ok(Some(Row {
            tokens: Tokens::pushed(None, Token(0)),
            version: Version(i64::from_be_bytes(version)),
            generation: head.as_ref().map_or(Generation(0), |head| head.generation),
            record: (life != Life::Deleted).then(|| self.record(row)),
            expires_at: life.expires_at(),
            must_go: head.map(|head| head.must_go).unwrap_or_default(),
            claims: RowClaims::NONE,
        }))
    }

    fn record(&self, row: RowRef<'_>) -> Cells {
        self.columns.iter().map(|column| row.get(*column)).collect()
    }

    /// Decodes the base row of a record on a store without transactions. A row without tokens (ids
    /// of its last writes) counts as absent, even if it has other cells: a `recto_done` mark may
    /// outlive its row.
    ///
    /// # Errors
    /// The row has the format of a newer release, or is damaged.
    pub fn found(&self, row: RowRef<'_>) -> Result<Found<Cells, KeyCells>, StoredError> {
        let first = self.table.key_len();
        let hidden = |column: usize| row.get(first + column);
        let version_in = |column: usize| {
            let cell: [u8; 8] = hidden(column)?.try_into().ok()?;
            Some(Version(i64::from_be_bytes(cell)))
        };
        // If `recto_done` does not contain a version, treat the column as missing. Then the next
        // change removes the entries of earlier versions again, which is harmless.
        let done = version_in(usize::from(Self::DONE));
        let Some(tokens) = hidden(usize::from(Self::TOKENS)) else {
            return Ok(Found { row: None, done });
        };
        let tokens = decode_tokens(tokens)?;
        let version = version_in(usize::from(Self::STAMP)).ok_or(StoredError::damaged(
            "recto_version",
            "a row has version tokens, but not this column",
        ))?;
        let head = hidden(2).ok_or(StoredError::damaged(
            "recto_head",
            "a row has version tokens, but not this column",
        ))?;
        let head = Head::decode(head)?;
        let row = Row {
            tokens,
            version,
            generation: head.generation,
            record: (head.life != Life::Deleted).then(|| self.record(row)),
            expires_at: head.life.expires_at(),
            must_go: head.must_go,
            claims: head.claims,
        };
        Ok(Found { row: Some(row), done })
    }
}

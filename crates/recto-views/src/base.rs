//! The table of a collection's records where conditional writes keep it: its columns, the hidden ones among them, and a
//! record's row in it.

use std::sync::Arc;

use recto_model::schema::{Collection, Holds};
use recto_model::table::{ColumnKind, TableError, WriteKind};
use recto_model::{Cells, Column, RowRef, Table, Type};

use crate::collection::{KeyCells, cell_of};
use crate::row::{Found, Row, Version};
use crate::stored::{Head, Life, StoredError, decode_tokens, encode_tokens};

/// What stands before the fields among a base table's regular columns, so that fields may be added behind them.
const HIDDEN: [(&str, Type, WriteKind); 4] = [
    ("recto_tokens", Type::Blob, WriteKind::Cas),
    ("recto_version", Type::BigInt, WriteKind::Cas),
    ("recto_head", Type::Blob, WriteKind::Cas),
    ("recto_done", Type::BigInt, WriteKind::Plain),
];

/// The base table of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseTable {
    table: Arc<Table>,
    /// For each field, the column that has it.
    columns: Vec<usize>,
    /// For each regular column but the hidden ones, the field that it has.
    fields: Vec<usize>,
}

impl BaseTable {
    /// Which regular column conditional writes compare.
    pub const TOKENS: u16 = 0;
    /// Which regular column plain writes [mark](Self::done_cell).
    pub const DONE: u16 = 3;

    /// The one of a collection.
    ///
    /// # Errors
    /// A field that its key names cannot be in a key.
    pub fn new(collection: &Collection) -> Result<Self, TableError> {
        let (plain, holds) = collection.base().table(&collection.name)?;
        let (key, regular) = plain.columns().split_at(plain.key_len());
        let hidden = HIDDEN.map(|(name, ty, kind)| Column {
            name: name.into(),
            ty,
            kind: ColumnKind::Regular(kind),
        });
        let conditional = |column: &Column| Column {
            kind: ColumnKind::Regular(WriteKind::Cas),
            ..column.clone()
        };
        let all = key.iter().cloned().chain(hidden);
        let all = all.chain(regular.iter().map(conditional)).collect();
        let column_of = |field: usize| {
            let column = holds.iter().position(|holds| *holds == Holds::Field(field))?;
            let is_key = column < key.len();
            Some(if is_key { column } else { column + HIDDEN.len() })
        };
        let field_of = |holds: &Holds| match *holds {
            Holds::Field(field) => Some(field),
            Holds::Derived(..) | Holds::Hidden => None,
        };
        Ok(Self {
            columns: (0..collection.fields.len()).filter_map(column_of).collect(),
            fields: holds[key.len()..].iter().filter_map(field_of).collect(),
            table: Arc::new(Table::new(collection.name.clone(), all, plain.options())?),
        })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Which regular columns a conditional write sets: all that are conditional.
    pub fn conditional_columns(&self) -> Vec<u16> {
        let regular = 0..self.table.regular().len() as u16;
        regular.filter(|column| *column != Self::DONE).collect()
    }

    /// What it sets them to, nulls too.
    ///
    /// # Errors
    /// [`StoredError::TooLarge`]: it may not be sent.
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

    /// What marks a version's entries as written.
    pub fn done_cell(version: Version) -> Cells {
        std::iter::once(Some(&version.0.to_be_bytes()[..])).collect()
    }

    /// What a row of the table says: all its columns, as they stand in it. One without tokens is absent, whatever else it
    /// has: a mark may outlive its row.
    ///
    /// # Errors
    /// It was written by a newer release, or is damaged.
    pub fn found(&self, row: RowRef<'_>) -> Result<Found<Cells, KeyCells>, StoredError> {
        let first = self.table.key_len();
        let hidden = |column: usize| row.get(first + column);
        let version_in = |column: usize| {
            let cell: [u8; 8] = hidden(column)?.try_into().ok()?;
            Some(Version(i64::from_be_bytes(cell)))
        };
        // What is no version marks nothing: then entries are removed once more, which changes nothing.
        let done = version_in(usize::from(Self::DONE));
        let Some(tokens) = hidden(usize::from(Self::TOKENS)) else {
            return Ok(Found { row: None, done });
        };
        let tokens = decode_tokens(tokens)?;
        let version = version_in(1).ok_or(StoredError::damaged(
            "recto_version",
            "a row with tokens has none",
        ))?;
        let head = hidden(2).ok_or(StoredError::damaged("recto_head", "a row with tokens has none"))?;
        let head = Head::decode(head)?;
        let record = || self.columns.iter().map(|column| row.get(*column)).collect();
        let row = Row {
            tokens,
            version,
            generation: head.generation,
            record: (head.life != Life::Deleted).then(record),
            expires_at: match head.life {
                Life::Expires(at) => Some(at),
                Life::Lives | Life::Deleted => None,
            },
            must_go: head.must_go,
        };
        Ok(Found { row: Some(row), done })
    }
}

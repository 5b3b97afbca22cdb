//! Tables of a collection's unique constraints, which record who owns each combination of values.
//! See `docs/format.md`, "Claims".
//!
//! Each constraint has its own table, whose partition key is the values. A record has one row in
//! the table, its *claim*, unless one of its values is null. No other record may have a row with
//! the same values.

use std::sync::Arc;

use recto_model::schema::{Collection, MAX_NAME_LENGTH};
use recto_model::table::{ColumnKind, TableError, TableOptions, WriteKind};
use recto_model::{Cells, Column, RowRef, Table, Type};

use crate::views::change::Refusal;
use crate::views::collection::{KeyCells, cell_of, push_canonical};
use crate::views::misfit::Misfit;
use crate::views::row::{EntryKey, Token, ViewNumber};

/// Name of the column with the key of the record that owns the unique values. Only tables of unique
/// constraints have this column.
pub const OWNER_COLUMN: &str = "recto_owner";

/// Rejection of a change by a store without transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Reason why the change was rejected.
    pub refusal: Refusal,
    /// Key of the record that already has the requested values, if the reason is
    /// [`Refusal::Taken`]; otherwise `None`.
    pub holder: Option<Cells>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            holder: None,
        }
    }
}

/// Table of one unique constraint. Each row is a claim: it says which record owns a combination of
/// values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsTable {
    number: ViewNumber,
    table: Arc<Table>,
    fields: Vec<usize>,
}

impl ClaimsTable {
    /// Index (from 0) of the regular column with the key of the record that owns the values.
    pub const OWNER: u16 = 0;
    /// Index (from 0) of the regular column with the token, a random id of the write that reserved
    /// the values.
    pub const TOKEN: u16 = 1;

    /// Creates the table of a collection's unique constraint on these fields. `number` is the id of
    /// the table, which no other view or constraint ever gets. `allows_empty` says whether the
    /// value of a constraint with one field may be empty.
    ///
    /// # Errors
    /// The type of one of the fields is not allowed in keys.
    pub fn new(
        number: ViewNumber,
        collection: &Collection,
        fields: &[String],
        allows_empty: bool,
    ) -> Result<Self, TableError> {
        let found = fields.iter().filter_map(|name| collection.field(name));
        let (fields, mut columns): (Vec<usize>, Vec<Column>) = found
            .map(|(index, field)| {
                (
                    index,
                    column(&field.name, field.ty.clone(), ColumnKind::Partition),
                )
            })
            .unzip();
        let cas = ColumnKind::Regular(WriteKind::Cas);
        columns.push(column(OWNER_COLUMN, Type::Blob, cas));
        columns.push(column("recto_token", Type::Blob, cas));
        let name = Self::table_name(number, &collection.name);
        let options = TableOptions {
            allows_empty_partition: allows_empty,
            ..TableOptions::default()
        };
        Ok(Self {
            number,
            table: Arc::new(Table::new(&name, columns, options)?),
            fields,
        })
    }

    /// Returns the name of a constraint's table: the collection's name, shortened if necessary, and
    /// the id.
    pub fn table_name(number: ViewNumber, collection: &str) -> String {
        let end = format!("_unique_{}", number.0);
        let mut name = collection.to_owned();
        name.truncate(MAX_NAME_LENGTH.saturating_sub(end.len()));
        name + &end
    }

    /// Returns the id of the constraint's table.
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// Returns the definition of the table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the indexes (from 0) of the constraint's fields in the collection.
    pub fn fields(&self) -> &[usize] {
        &self.fields
    }

    /// Returns the unique values that a record reserves; `None` if one of them is null, or if they
    /// cannot be in a key.
    pub(crate) fn claim(&self, types: &[Type], record: &Cells) -> Option<EntryKey<KeyCells>> {
        self.asked_claim(types, record)
            .filter(|claim| self.misfit_of(&claim.key).is_none())
    }

    /// Returns the reason why a record's unique values cannot be stored in a key; `None` if they
    /// can, or if one of them is null.
    pub(crate) fn misfit(&self, types: &[Type], record: &Cells) -> Option<Misfit> {
        self.misfit_of(&self.asked_claim(types, record)?.key)
    }

    fn misfit_of(&self, key: &KeyCells) -> Option<Misfit> {
        key.misfit(self.number, &self.table, |column| {
            self.fields.get(column).copied()
        })
    }

    fn asked_claim(&self, types: &[Type], record: &Cells) -> Option<EntryKey<KeyCells>> {
        let mut key = Cells::new();
        for field in &self.fields {
            let cell = cell_of(record, *field)?;
            key.push_with(|out| push_canonical(&types[*field], cell, out));
        }
        Some(EntryKey {
            view: self.number,
            key: KeyCells::of(key.iter().flatten()),
        })
    }

    /// Returns the regular cells of a claim: the [key](Self::owner_key) of its record, and the
    /// token. On a store with transactions, a claim has no token.
    pub fn cells(owner: &KeyCells, token: Option<Token>) -> Cells {
        let token = token.map(|token| token.0.to_be_bytes());
        [Some(owner.as_bytes()), token.as_ref().map(|token| &token[..])]
            .into_iter()
            .collect()
    }

    /// Returns the key of a record in the form in which claims store it: the cells of the key
    /// fields, in the order of the collection.
    pub fn owner_key(owner: &Cells) -> KeyCells {
        KeyCells::of(owner.iter().flatten())
    }

    /// Returns the unique values that a row of the table reserves.
    pub fn key(&self, row: RowRef<'_>) -> EntryKey<KeyCells> {
        let cells = (0..self.table.key_len()).filter_map(|column| row.get(column));
        EntryKey {
            view: self.number,
            key: KeyCells::of(cells),
        }
    }

    /// Returns the token (random id) of the write that reserved the values; `None` if the row has
    /// no token.
    pub fn token(&self, row: RowRef<'_>) -> Option<Token> {
        let cell = row.get(self.table.key_len() + usize::from(Self::TOKEN))?;
        Some(Token(u128::from_be_bytes(cell.try_into().ok()?)))
    }

    /// Returns the key of the record that owns the values; `None` if the cell is damaged.
    pub fn owner(&self, row: RowRef<'_>) -> Option<Cells> {
        let cell = row.get(self.table.key_len() + usize::from(Self::OWNER))?;
        let key = KeyCells::from_bytes(cell)?;
        Some(key.cells().map(Some).collect())
    }
}

fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.into(),
        ty,
        kind,
    }
}

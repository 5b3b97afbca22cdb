//! The tables of a collection's unique constraints: who holds which values. `docs/format.md`, "Claims".
//!
//! A constraint has a table of its own, whose partition is the values. A record that has none of them null has a row there,
//! its *claim*; no other may have one at the same values.

use std::sync::Arc;

use recto_model::schema::{Collection, MAX_NAME_LENGTH};
use recto_model::table::{ColumnKind, TableError, TableOptions, WriteKind};
use recto_model::{Cells, Column, RowRef, Table, Type};

use crate::views::change::Refusal;
use crate::views::collection::{KeyCells, cell_of, push_canonical};
use crate::views::misfit::Misfit;
use crate::views::row::{EntryKey, Token, ViewNumber};

/// The column that says whose the values are, which no other table has.
pub const OWNER_COLUMN: &str = "recto_owner";

/// Why a change is refused, by a store without transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// The key of the record that has the values that it would have, if it is [for that](Refusal::Taken).
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

/// The table of one unique constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsTable {
    number: ViewNumber,
    table: Arc<Table>,
    fields: Vec<usize>,
}

impl ClaimsTable {
    /// Which regular column says whose the values are.
    pub const OWNER: u16 = 0;
    /// Which says by which token they were taken.
    pub const TOKEN: u16 = 1;

    /// The one of a collection's constraint on these fields. Its number never recurs, as those of views.
    /// `allows_empty` says whether the value of an only field may be empty.
    ///
    /// # Errors
    /// One of the fields cannot be in a key.
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

    /// The name of such a table: of the collection's, as much as fits beside the rest.
    pub fn table_name(number: ViewNumber, collection: &str) -> String {
        let end = format!("_unique_{}", number.0);
        let mut name = collection.to_owned();
        name.truncate(MAX_NAME_LENGTH.saturating_sub(end.len()));
        name + &end
    }

    /// Its number.
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// Its table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The indexes of its fields in the collection.
    pub fn fields(&self) -> &[usize] {
        &self.fields
    }

    /// What a record claims; none if one of its values is null, or they cannot stand in a key.
    pub(crate) fn claim(&self, types: &[Type], record: &Cells) -> Option<EntryKey<KeyCells>> {
        self.asked_claim(types, record)
            .filter(|claim| self.misfit_of(&claim.key).is_none())
    }

    /// Returns why the values of a record cannot be claimed; none if they can, or if one of them is null.
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

    /// The regular cells of a claim by the record with this [key](Self::owner_key). Where transactions make it needless there
    /// is no token.
    pub fn cells(owner: &KeyCells, token: Option<Token>) -> Cells {
        let token = token.map(|token| token.0.to_be_bytes());
        [Some(owner.as_bytes()), token.as_ref().map(|token| &token[..])]
            .into_iter()
            .collect()
    }

    /// The key of a record, in the order of the collection's key fields, as claims say it.
    pub fn owner_key(owner: &Cells) -> KeyCells {
        KeyCells::of(owner.iter().flatten())
    }

    /// The values of a row of the table.
    pub fn key(&self, row: RowRef<'_>) -> EntryKey<KeyCells> {
        let cells = (0..self.table.key_len()).filter_map(|column| row.get(column));
        EntryKey {
            view: self.number,
            key: KeyCells::of(cells),
        }
    }

    /// The token of a row of the table; none if it has none.
    pub fn token(&self, row: RowRef<'_>) -> Option<Token> {
        let cell = row.get(self.table.key_len() + usize::from(Self::TOKEN))?;
        Some(Token(u128::from_be_bytes(cell.try_into().ok()?)))
    }

    /// Whose the values are, as a row of the table says; none if that is damaged.
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

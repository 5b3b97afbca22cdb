//! What each column of a file is to each collection it is loaded into.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recto_model::{RowRef, Table, Type};

use super::records::{CsvCell, Record, Shape, split_cells};
use super::source::Format;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::session::LoadRequest;

/// The most columns of a CSV file.
const MAX_COLUMNS: usize = 10_000;

/// How many columns of a file an error lists.
const MAX_LISTED_COLUMNS: usize = 10;

/// A column read as a type: one cell of every converted row, however many collections hold it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Which column of the file.
    pub(super) column: usize,
    /// The field's name, which is the column's.
    pub(super) field: String,
    pub(super) ty: Type,
    /// Whether the cell is in the form that keys use, where that is another.
    pub(super) canonical: bool,
}

/// A collection that the file is loaded into.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) core: Arc<CollectionCore>,
    pub(super) table: Arc<Table>,
    /// For each column of the table, the slot it is filled from; `None`: null.
    pub(super) slots: Vec<Option<usize>>,
    /// For each slot, whether it fills a column.
    uses: Vec<bool>,
}

impl Target {
    pub(super) fn name(&self) -> &str {
        &self.core.definition.name
    }

    pub(super) fn uses(&self, slot: usize) -> bool {
        self.uses[slot]
    }

    /// The cell of a column of the table in a converted row.
    #[inline]
    pub(super) fn cell<'a>(&self, row: RowRef<'a>, column: usize) -> Option<&'a [u8]> {
        self.slots[column].and_then(|slot| row.get(slot))
    }

    /// Whether two converted rows are the same record of the collection.
    pub(super) fn is_same(&self, left: RowRef<'_>, right: RowRef<'_>) -> bool {
        (0..self.slots.len()).all(|column| self.cell(left, column) == self.cell(right, column))
    }
}

/// How a file's rows become rows of collections.
#[derive(Debug)]
pub(super) struct LoadPlan {
    pub(super) format: Format,
    /// The file's columns; of NDJSON, the names of all fields.
    pub(super) columns: Vec<String>,
    /// The header row as it stands in the file; empty for NDJSON.
    pub(super) header: Vec<u8>,
    column_of_name: HashMap<String, usize>,
    /// For each column, whether it is a field of every collection.
    everywhere: Vec<bool>,
    pub(super) slots: Vec<Slot>,
    pub(super) targets: Vec<Target>,
    /// Text that is null beside the empty cell.
    pub(super) null: Option<String>,
    /// Whether names that are no fields are left out.
    pub(super) ignore_unknown: bool,
}

impl LoadPlan {
    /// The plan for a CSV file with this header row.
    pub(super) fn csv(
        header: &[u8],
        record: &Record,
        collections: &[Arc<CollectionCore>],
        request: &LoadRequest,
    ) -> Result<Self> {
        let columns = header_columns(header, record)?;
        for collection in collections {
            check_columns(&columns, collection, request.ignore_unknown)?;
        }
        Ok(Self::new(
            Format::Csv,
            columns,
            header.to_vec(),
            collections,
            request,
        ))
    }

    /// The plan for an NDJSON file.
    pub(super) fn ndjson(collections: &[Arc<CollectionCore>], request: &LoadRequest) -> Self {
        let mut columns: Vec<String> = Vec::new();
        for field in collections
            .iter()
            .flat_map(|collection| &collection.definition.fields)
        {
            if !columns.contains(&field.name) {
                columns.push(field.name.clone());
            }
        }
        Self::new(Format::Ndjson, columns, Vec::new(), collections, request)
    }

    fn new(
        format: Format,
        columns: Vec<String>,
        header: Vec<u8>,
        collections: &[Arc<CollectionCore>],
        request: &LoadRequest,
    ) -> Self {
        let column_of_name: HashMap<String, usize> = columns
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), index))
            .collect();
        let mut slots = Vec::new();
        let mut targets = Vec::new();
        for core in collections {
            let table = Arc::clone(&core.base().table);
            let slots_of_columns: Vec<Option<usize>> = table
                .columns()
                .iter()
                .enumerate()
                .map(|(index, column)| {
                    // Hidden columns are of no field, whatever a file calls its own.
                    core.definition.field(&column.name)?;
                    let slot = Slot {
                        column: *column_of_name.get(&column.name)?,
                        field: column.name.clone(),
                        ty: column.ty.clone(),
                        // Of all types, only decimals are written in several forms here.
                        canonical: column.ty == Type::Decimal && index < table.key_len(),
                    };
                    Some(slot_index(&mut slots, slot))
                })
                .collect();
            targets.push(Target {
                core: Arc::clone(core),
                table,
                slots: slots_of_columns,
                uses: Vec::new(),
            });
        }
        for target in &mut targets {
            target.uses = (0..slots.len())
                .map(|slot| target.slots.contains(&Some(slot)))
                .collect();
        }
        let everywhere = columns
            .iter()
            .map(|name| {
                collections
                    .iter()
                    .all(|collection| collection.definition.field(name).is_some())
            })
            .collect();
        Self {
            format,
            columns,
            header,
            column_of_name,
            everywhere,
            slots,
            targets,
            null: request.null.clone(),
            ignore_unknown: request.ignore_unknown,
        }
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.column_of_name.get(name).copied()
    }

    pub(super) fn is_everywhere(&self, column: usize) -> bool {
        self.everywhere[column]
    }
}

fn slot_index(slots: &mut Vec<Slot>, slot: Slot) -> usize {
    slots.iter().position(|known| *known == slot).unwrap_or_else(|| {
        slots.push(slot);
        slots.len() - 1
    })
}

fn invalid_header(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
        .with_hint("a CSV file begins with a header row that names its columns, each once")
}

fn header_columns(header: &[u8], record: &Record) -> Result<Vec<String>> {
    if let Shape::Unreadable(reason) = record.shape {
        return Err(invalid_header(format!("the header row cannot be read: {reason}")));
    }
    let text = std::str::from_utf8(header).map_err(|_| invalid_header("the header row is not UTF-8 text"))?;
    let mut cells: Vec<CsvCell> = Vec::new();
    let count = split_cells(text, record.shape, MAX_COLUMNS, &mut cells);
    if count > MAX_COLUMNS {
        return Err(invalid_header(format!(
            "the file has {count} columns; {MAX_COLUMNS} are the most"
        )));
    }
    let mut scratch = String::new();
    let mut columns: Vec<String> = Vec::with_capacity(cells.len());
    let mut known = HashSet::with_capacity(cells.len());
    for cell in cells {
        let name = cell.text(text, &mut scratch);
        if !known.insert(name.to_owned()) {
            return Err(invalid_header(format!("the file has two columns named {name:?}")));
        }
        columns.push(name.to_owned());
    }
    Ok(columns)
}

/// Refuses columns that are not fields, and a header that lacks a key field.
fn check_columns(columns: &[String], collection: &CollectionCore, ignore_unknown: bool) -> Result<()> {
    let definition = &collection.definition;
    let unknown: Vec<&String> = columns
        .iter()
        .filter(|column| definition.field(column).is_none())
        .collect();
    if let Some(first) = unknown.first().filter(|_| !ignore_unknown) {
        let listed: Vec<String> = unknown
            .iter()
            .take(MAX_LISTED_COLUMNS)
            .map(|column| format!("{column:?}"))
            .collect();
        let more = match unknown.len().saturating_sub(MAX_LISTED_COLUMNS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "collection {} has no field for {}{more}",
            definition.name,
            listed.join(", ")
        );
        let hint = match definition.nearest_field(first) {
            Some(nearest) => format!("did you mean {nearest}? {IGNORE_HINT}"),
            None => IGNORE_HINT.to_owned(),
        };
        return Err(Error::new(ErrorKind::InvalidArgument, message)
            .with_field(first.as_str())
            .with_hint(hint));
    }
    if let Some(missing) = definition.key.iter().find(|key| !columns.contains(key)) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the file has no column {missing}, which is part of the key of {}",
                definition.name
            ),
        )
        .with_field(missing)
        .with_hint(format!("every row needs {}", definition.key.join(", "))));
    }
    Ok(())
}

const IGNORE_HINT: &str = "--ignore-unknown leaves out columns that are not fields";

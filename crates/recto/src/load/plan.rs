//! Mapping of the columns of a file to the fields of the collections.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recto_model::{RowRef, Table, Type};

use super::convert::CellRules;
use super::records::{CsvCell, Dialect, Record, Shape, split_cells};
use super::source::Format;
use recto_api::parameters::to_pairs;

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{ColumnMapping, LoadRequest};

/// Maximum number of columns of a CSV file.
const MAX_COLUMNS: usize = 10_000;

/// Maximum number of columns that an error message lists.
const MAX_LISTED_COLUMNS: usize = 10;

/// Column of the file, with the type to which it is converted. A converted row has one cell for
/// each slot. Several collections can store this cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Index of the column in the file.
    pub(super) column: usize,
    /// Name of the field. It is the name of the column, unless the request maps the column to
    /// another field.
    pub(super) field: String,
    pub(super) ty: Type,
    /// True if the cell must have the canonical form of key cells, in which equal values have equal
    /// bytes.
    pub(super) canonical: bool,
}

/// Collection into which a file is loaded, and the converted values that fill the columns of its
/// table.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) core: Arc<CollectionCore>,
    pub(super) table: Arc<Table>,
    /// For each column of the table, the index of the slot (converted column of the file) that
    /// fills it; `None` fills it with null.
    pub(super) slots: Vec<Option<usize>>,
    /// For each slot (converted column of the file), true if the slot fills a column of the table.
    uses: Vec<bool>,
}

impl Target {
    pub(super) fn name(&self) -> &str {
        &self.core.definition.name
    }

    pub(super) fn uses(&self, slot: usize) -> bool {
        self.uses[slot]
    }

    /// Returns the cell of a column of the table in a converted row.
    #[inline]
    pub(super) fn cell<'a>(&self, row: RowRef<'a>, column: usize) -> Option<&'a [u8]> {
        self.slots[column].and_then(|slot| row.get(slot))
    }

    /// Returns whether two converted rows become the same record of the collection.
    pub(super) fn is_same(&self, left: RowRef<'_>, right: RowRef<'_>) -> bool {
        (0..self.slots.len()).all(|column| self.cell(left, column) == self.cell(right, column))
    }
}

/// Plan by which rows of a file are converted to rows of collections.
#[derive(Debug)]
pub(super) struct LoadPlan {
    pub(super) format: Format,
    /// For each column of the file, the name of the field that it fills, or an empty name if it
    /// fills none. For NDJSON, the names of all fields.
    pub(super) columns: Vec<String>,
    /// Header row as it is in the file; empty for NDJSON.
    pub(super) header: Vec<u8>,
    column_of_name: HashMap<String, usize>,
    /// For each element of `columns`, true if every collection has a field of this name.
    everywhere: Vec<bool>,
    pub(super) slots: Vec<Slot>,
    pub(super) targets: Vec<Target>,
    /// Texts of CSV cells that mean null, as the file writes them; at least one.
    pub(super) nulls: Vec<String>,
    pub(super) dialect: Dialect,
    /// Rules by which the text of CSV cells is converted to values.
    pub(super) rules: CellRules,
    /// True if names of the file that are not fields are ignored.
    pub(super) ignore_unknown: bool,
}

impl LoadPlan {
    /// Creates the plan for a CSV file with this header row.
    pub(super) fn csv(
        header: &[u8],
        record: &Record,
        collections: &[Arc<CollectionCore>],
        request: &LoadRequest,
    ) -> Result<Self> {
        if let (Shape::Unreadable(_), Ok(text)) = (record.shape, std::str::from_utf8(header)) {
            // A wrong separator can make quotes look unbalanced, so check the separator before the
            // quotes are reported.
            check_separator(&[text.to_owned()], collections, request)?;
        }
        let names = header_columns(header, record, Dialect::new(&request.csv))?;
        check_separator(&names, collections, request)?;
        let columns = mapped_columns(names, collections, &request.csv.map)?;
        for collection in collections {
            check_columns(&columns, collection, request.ignore_unknown)?;
        }
        // A column without a field gets an empty name, which no field has.
        let columns = columns.into_iter().map(Option::unwrap_or_default).collect();
        Self::new(Format::Csv, columns, header.to_vec(), collections, request)
    }

    /// Creates the plan for an NDJSON file.
    ///
    /// # Errors
    /// The request has an option that is for CSV files only.
    pub(super) fn ndjson(collections: &[Arc<CollectionCore>], request: &LoadRequest) -> Result<Self> {
        if let Some((option, _)) = to_pairs(&request.csv).first() {
            let flag = option.replace('_', "-");
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("--{flag} is an option for CSV files, but this file is NDJSON"),
            )
            .with_field(*option)
            .with_hint(format!("leave out --{flag}")));
        }
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
    ) -> Result<Self> {
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
                    // Hidden columns of the table belong to no field, even if a column of the
                    // file has the same name.
                    core.definition.field(&column.name)?;
                    let slot = Slot {
                        column: *column_of_name.get(&column.name)?,
                        field: column.name.clone(),
                        ty: column.ty.clone(),
                        // Among key values, only decimals have several encodings of the same value.
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
        let mut nulls = request.csv.null.clone();
        if nulls.is_empty() {
            nulls.push(String::new());
        }
        Ok(Self {
            format,
            columns,
            header,
            column_of_name,
            everywhere,
            slots,
            targets,
            nulls,
            dialect: Dialect::new(&request.csv),
            rules: CellRules::new(&request.csv)?,
            ignore_unknown: request.ignore_unknown,
        })
    }

    /// Returns whether a CSV cell means null. `written` is the cell with its quotes.
    #[inline]
    pub(super) fn is_null(&self, written: &str) -> bool {
        self.nulls.iter().any(|null| null == written)
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
        .with_hint("a CSV file must begin with a header row that names each column once")
}

/// Returns the field that each column of the file fills; `None` leaves the column out. `map`
/// changes the field of a column.
fn mapped_columns(
    names: Vec<String>,
    collections: &[Arc<CollectionCore>],
    map: &[ColumnMapping],
) -> Result<Vec<Option<String>>> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidArgument, message).with_field("map");
    for (index, ColumnMapping { column, field }) in map.iter().enumerate() {
        if !names.contains(column) {
            let listed: Vec<String> = names
                .iter()
                .take(MAX_LISTED_COLUMNS)
                .map(|name| format!("{name:?}"))
                .collect();
            return Err(wrong(format!("the file has no column {column:?} to map"))
                .with_hint(format!("its columns are {}", listed.join(", "))));
        }
        if map[..index].iter().any(|earlier| earlier.column == *column) {
            return Err(
                wrong(format!("the column {column:?} is mapped twice")).with_hint("name each column once")
            );
        }
        let definitions = || collections.iter().map(|collection| &collection.definition);
        if field.is_empty() || definitions().any(|definition| definition.field(field).is_some()) {
            continue;
        }
        let nearest = definitions().find_map(|definition| definition.nearest_field(field));
        let named: Vec<&str> = definitions().map(|definition| definition.name.as_str()).collect();
        return Err(wrong(format!(
            "the column {column:?} is mapped to {field:?}, which is not a field of {}",
            named.join(", ")
        ))
        .with_hint(match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "name a field of the collection".to_owned(),
        }));
    }
    let mut filled: HashMap<String, String> = HashMap::with_capacity(names.len());
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let mapping = map.iter().find(|mapping| mapping.column == name);
        let field = mapping.map_or_else(|| name.clone(), |mapping| mapping.field.clone());
        if mapping.is_some() && field.is_empty() {
            columns.push(None);
            continue;
        }
        if let Some(earlier) = filled.insert(field.clone(), name.clone()) {
            return Err(wrong(format!(
                "the columns {earlier:?} and {name:?} are both for {field}"
            ))
            .with_hint(format!("leave out one of them, for example with --map '{name}='")));
        }
        columns.push(Some(field));
    }
    Ok(columns)
}

/// Rejects a header that seems to use another separator than the options.
fn check_separator(
    names: &[String],
    collections: &[Arc<CollectionCore>],
    request: &LoadRequest,
) -> Result<()> {
    let used = Dialect::new(&request.csv).delimiter;
    let is_known = |name: &str| {
        collections
            .iter()
            .any(|collection| collection.definition.field(name).is_some())
            || request.csv.map.iter().any(|mapping| mapping.column == name)
    };
    // With `ignore_unknown`, columns may have any name. But a single unknown column
    // suggests a wrong separator.
    let suspects = names
        .iter()
        .filter(|name| !is_known(name) && (!request.ignore_unknown || names.len() == 1));
    for name in suspects {
        let separators = SEPARATORS.iter().filter(|(separator, _)| *separator != used);
        for (separator, written) in separators {
            let parts: Vec<&str> = name.split(char::from(*separator)).collect();
            let is_field = |part: &&str| is_known(part.trim().trim_matches('"'));
            if parts.len() > 1 && parts.iter().any(is_field) {
                let message = format!(
                    "the separator of the file is {written}, not {}: {name:?}",
                    separator_name(used)
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with_field("delimiter")
                    .with_hint(format!("set the separator with --delimiter '{written}'")));
            }
        }
    }
    Ok(())
}

fn separator_name(separator: u8) -> String {
    let known = SEPARATORS.iter().find(|(known, _)| *known == separator);
    known.map_or_else(
        || char::from(separator).to_string(),
        |(_, name)| (*name).to_owned(),
    )
}

/// Separators that are tried when a header does not fit, with their names in options.
const SEPARATORS: [(u8, &str); 4] = [(b';', ";"), (b'\t', "tab"), (b'|', "|"), (b',', ",")];

fn header_columns(header: &[u8], record: &Record, dialect: Dialect) -> Result<Vec<String>> {
    if let Shape::Unreadable(reason) = record.shape {
        return Err(invalid_header(format!("the header row cannot be read: {reason}")));
    }
    let text = std::str::from_utf8(header).map_err(|_| invalid_header("the header row is not UTF-8 text"))?;
    let mut cells: Vec<CsvCell> = Vec::new();
    let count = split_cells(text, record.shape, dialect, MAX_COLUMNS, &mut cells);
    if count > MAX_COLUMNS {
        return Err(invalid_header(format!(
            "the file has {count} columns; at most {MAX_COLUMNS} are allowed"
        )));
    }
    let mut scratch = String::new();
    let mut columns: Vec<String> = Vec::with_capacity(cells.len());
    let mut known = HashSet::with_capacity(cells.len());
    for cell in cells {
        let name = cell.text(text, dialect, &mut scratch);
        if !known.insert(name.to_owned()) {
            return Err(invalid_header(format!("the file has two columns named {name:?}")));
        }
        columns.push(name.to_owned());
    }
    Ok(columns)
}

/// Rejects columns that are not fields of the collection, and a header that lacks a key field.
fn check_columns(
    columns: &[Option<String>],
    collection: &CollectionCore,
    ignore_unknown: bool,
) -> Result<()> {
    let definition = &collection.definition;
    let unknown: Vec<&String> = columns
        .iter()
        .flatten()
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
            Some(nearest) => {
                format!("did you mean {nearest}? Use --map '{first}={nearest}'; {IGNORE_HINT}")
            }
            None => format!("use --map '{first}=FIELD' to name its field; {IGNORE_HINT}"),
        };
        return Err(Error::new(ErrorKind::InvalidArgument, message)
            .with_field(first.as_str())
            .with_hint(hint));
    }
    if let Some(missing) = definition
        .key
        .iter()
        .find(|key| !columns.iter().flatten().any(|column| column == *key))
    {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the file has no column {missing}, which is part of the key of {}",
                definition.name
            ),
        )
        .with_field(missing)
        .with_hint(format!(
            "name a column for it with --map COLUMN={missing}: every row needs {}",
            definition.key.join(", ")
        )));
    }
    Ok(())
}

const IGNORE_HINT: &str = "use --ignore-unknown to leave out columns that are not fields";

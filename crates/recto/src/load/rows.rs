//! Conversion of the file's records to rows of collections, or to rejected rows.

use std::ops::Range;
use std::sync::Arc;

use recto_model::schema::WriteMode;
use recto_model::{RowSet, cell, key};
use recto_store::Limits;
use serde_json::{Map, Value as Json};

use super::buffer::{Buffer, Origin, single_write, store_bytes};
use super::convert::{self, Reason};
use super::object::{Object, check_size};
use super::plan::{LoadPlan, Slot, Target};
use super::records::{CsvCell, Record, Shape, split_cells};
use super::rejects::Reject;
use super::source::Format;

/// Size in bytes above which a row's write is checked against the limits of the store before it is
/// buffered. Smaller writes need no check, because the limits of every store are higher.
const SURELY_SMALL_BYTES: usize = 32 << 10;

/// Converter of a file's CSV or JSON records to rows of cells.
pub(super) struct Converter {
    plan: Arc<LoadPlan>,
    limits: Limits,
    cells: Vec<CsvCell>,
    scratch: String,
    canonical: Vec<u8>,
    /// Indexes of the slots (converted columns) of the current row whose value could not be
    /// converted, with the reasons.
    failed: Vec<(usize, Reason)>,
}

impl Converter {
    pub(super) fn new(plan: Arc<LoadPlan>, limits: Limits) -> Self {
        Self {
            plan,
            limits,
            cells: Vec::new(),
            scratch: String::new(),
            canonical: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Converts a record and adds its row to `buffer`, or adds the reasons of its rejection.
    /// Returns the number of collections that reject the row.
    pub(super) fn convert(&mut self, text: &[u8], record: &Record, row: u64, buffer: &mut Buffer) -> usize {
        let origin = Origin {
            row,
            line: record.line,
        };
        let content = &text[record.text.clone()];
        let plan = Arc::clone(&self.plan);
        let made = match plan.format {
            Format::Csv => self.make_from_csv(&plan, content, record.shape, buffer),
            Format::Ndjson => self.make_from_json(&plan, content, record.shape, buffer),
        };
        let (reasons, readable) = match made {
            Ok(unknown) => (self.distribute(&plan, origin, &unknown, buffer), true),
            Err(reason) => (
                plan.targets
                    .iter()
                    .enumerate()
                    .map(|(target, _)| (target, reason.clone()))
                    .collect(),
                false,
            ),
        };
        let rejected = reasons.len();
        if rejected > 0 {
            buffer.reject(Reject {
                origin,
                content: content.into(),
                readable,
                reasons,
            });
        }
        rejected
    }

    /// Converts a CSV record to a row of `buffer`, or returns the reason why that fails. The
    /// returned list of unknown names is empty, because the names in the header were checked
    /// before.
    fn make_from_csv(
        &mut self,
        plan: &LoadPlan,
        content: &[u8],
        shape: Shape,
        buffer: &mut Buffer,
    ) -> Result<Vec<Option<String>>, Reason> {
        let text = readable_text(content, shape)?;
        let mut cells = std::mem::take(&mut self.cells);
        let count = split_cells(text, shape, plan.dialect, plan.columns.len(), &mut cells);
        if count != plan.columns.len() {
            let reason = format!("{count} cells where the header has {}", plan.columns.len());
            self.cells = cells;
            return Err(Reason::general(reason));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let rows = buffer.row();
        self.failed.clear();
        for (index, slot) in plan.slots.iter().enumerate() {
            let cell = &cells[slot.column];
            if plan.is_null(cell.written(text)) {
                rows.push_cell(None);
                continue;
            }
            let value = cell.text(text, plan.dialect, &mut scratch);
            self.push(rows, index, slot, |out| {
                let written = plan.rules.text_cell(&slot.field, &slot.ty, value, out);
                written.map_err(|reason| match value {
                    "" => empty_cell(slot, cell.written(text)),
                    _ => reason,
                })
            });
        }
        self.cells = cells;
        self.scratch = scratch;
        Ok(Vec::new())
    }

    /// Converts a line of JSON to a row of `buffer`, or returns the reason why that fails. Returns,
    /// for each collection, a name of the record that is not a field of the collection.
    fn make_from_json(
        &mut self,
        plan: &LoadPlan,
        content: &[u8],
        shape: Shape,
        buffer: &mut Buffer,
    ) -> Result<Vec<Option<String>>, Reason> {
        let text = readable_text(content, shape)?;
        let object = Object::read(plan, text)?;
        let rows = buffer.row();
        self.failed.clear();
        for (index, slot) in plan.slots.iter().enumerate() {
            match object.values[slot.column] {
                None => rows.push_cell(None),
                Some(json) => {
                    self.push(rows, index, slot, |out| {
                        check_size(&slot.field, json)?;
                        convert::json_cell(&slot.field, &slot.ty, json, out)
                    });
                }
            }
        }
        Ok(object.foreign)
    }

    /// Adds the cell that `write` creates for a slot (converted column). If `write` fails, adds
    /// null and stores the reason.
    fn push(
        &mut self,
        rows: &mut RowSet,
        index: usize,
        slot: &Slot,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Reason>,
    ) {
        let pushed = if slot.canonical {
            self.canonical.clear();
            write(&mut self.canonical).and_then(|()| {
                rows.try_push_cell_with(|out| cell::canonical_key(&slot.ty, &self.canonical, out))
                    .map_err(|error| Reason::general(format!("{}: {error}", slot.field)))
            })
        } else {
            rows.try_push_cell_with(write)
        };
        if let Err(reason) = pushed {
            rows.push_cell(None);
            self.failed.push((index, reason));
        }
    }

    /// Adds the last row of `buffer` to every collection that accepts the row. Returns the indexes
    /// of the other collections, with their reasons.
    fn distribute(
        &mut self,
        plan: &LoadPlan,
        origin: Origin,
        foreign: &[Option<String>],
        buffer: &mut Buffer,
    ) -> Vec<(usize, Reason)> {
        let mut rejected = Vec::new();
        for (index, target) in plan.targets.iter().enumerate() {
            let foreign = foreign.get(index).and_then(Option::as_deref);
            let added = self.check(plan, target, foreign, buffer).and_then(|()| {
                buffer
                    .add(index, target)
                    .map_err(|error| Reason::general(error.to_string()))
            });
            if let Err(reason) = added {
                rejected.push((index, reason));
            }
        }
        if rejected.len() == plan.targets.len() {
            buffer.abandon_row();
        } else {
            buffer.finish_row(origin);
        }
        rejected
    }

    fn check(
        &self,
        plan: &LoadPlan,
        target: &Target,
        foreign: Option<&str>,
        buffer: &Buffer,
    ) -> Result<(), Reason> {
        if let Some((_, reason)) = self.failed.iter().find(|(slot, _)| target.uses(*slot)) {
            return Err(reason.clone());
        }
        if let Some(unknown) = foreign.filter(|_| !plan.ignore_unknown) {
            return Err(no_field(target, unknown));
        }
        let row = buffer.made();
        let table = &target.table;
        for (index, column) in table.columns()[..table.key_len()].iter().enumerate() {
            let Some(cell) = target.cell(row, index) else {
                let reason = format!(
                    "{} is part of the key of {} and is null",
                    column.name,
                    target.name()
                );
                return Err(Reason::general(reason));
            };
            if cell.len() > key::MAX_KEY_PART_BYTES {
                let class = format!("{} is longer than a key part may be", column.name);
                let details = format!(": {} bytes, {} are the most", cell.len(), key::MAX_KEY_PART_BYTES);
                return Err(Reason::with_details(class, &details));
            }
        }
        // Check only records that never change. Records that change have other limits, which
        // their writes check.
        let is_plain = target.core.definition.writes != WriteMode::Update;
        let maybe_refused = store_bytes(target, row) > SURELY_SMALL_BYTES
            || (table.partition().len() == 1 && target.cell(row, 0).is_some_and(<[u8]>::is_empty));
        if is_plain && maybe_refused {
            self.limits
                .check_write(&single_write(target, row))
                .map_err(|error| Reason::with_details("over the store's limits", &format!(": {error}")))?;
        }
        Ok(())
    }
}

fn readable_text(content: &[u8], shape: Shape) -> Result<&str, Reason> {
    if let Shape::Unreadable(reason) = shape {
        return Err(Reason::general(reason));
    }
    std::str::from_utf8(content).map_err(|error| {
        Reason::with_details(
            "not UTF-8 text",
            &format!(": from byte {} of the row on", error.valid_up_to()),
        )
    })
}

/// Returns the reason why an empty CSV cell is not a value of the slot's field.
fn empty_cell(slot: &Slot, written: &str) -> Reason {
    Reason::general(format!(
        "{}: an empty cell is not {} (hint: --null '{written}')",
        slot.field,
        slot.ty.with_article()
    ))
}

fn no_field(target: &Target, unknown: &str) -> Reason {
    let definition = &target.core.definition;
    let hint = match definition.nearest_field(unknown) {
        Some(nearest) => format!(" (did you mean {nearest}?)"),
        None => String::new(),
    };
    Reason::general(format!("{} has no field {unknown:?}{hint}", definition.name))
}

/// Returns the text of a converted row that a store rejected, for the reject file. With the same
/// options, this text converts to the same values. Columns that fill no field of the collection are
/// empty.
pub(super) fn row_text(plan: &LoadPlan, target: &Target, row: recto_model::RowRef<'_>) -> Vec<u8> {
    let slot_of = |column: usize| {
        (0..plan.slots.len()).find(|slot| plan.slots[*slot].column == column && target.uses(*slot))
    };
    let value = |slot: usize| {
        let ty = &plan.slots[slot].ty;
        Some((ty, cell::decode(ty, row.get(slot)?).ok()?))
    };
    let columns: Range<usize> = 0..plan.columns.len();
    match plan.format {
        Format::Csv => {
            let mut text = String::new();
            for column in columns {
                if column > 0 {
                    text.push(char::from(plan.dialect.delimiter));
                }
                match slot_of(column).map(value) {
                    None => {}
                    Some(None) => text.push_str(&plan.nulls[0]),
                    Some(Some((ty, value))) => {
                        text.push_str(&written_cell(plan, plan.rules.write(ty, &value)));
                    }
                }
            }
            text.into_bytes()
        }
        Format::Ndjson => {
            let object: Map<String, Json> = columns
                .filter_map(|column| {
                    let (ty, value) = value(slot_of(column)?)?;
                    Some((
                        plan.columns[column].clone(),
                        recto_model::json::to_json(ty, &value),
                    ))
                })
                .collect();
            Json::Object(object).to_string().into_bytes()
        }
    }
}

/// Returns `text` as a CSV cell that is not read as null.
fn written_cell(plan: &LoadPlan, text: String) -> String {
    let quoted = super::rejects::quoted(&text, plan.dialect);
    if quoted != text || !plan.is_null(&text) {
        return quoted;
    }
    format!("\"{text}\"")
}

//! Text table that fits the width of the terminal, for records and other rows with columns.

use std::collections::HashSet;

use recto::schema::{Collection, SortOrder};
use serde_json::Value as Json;

use recto::session::JsonRecord;

use crate::console::{Console, Tone};
use crate::text::{character_width, printable, width};

/// Maximum width of a cell on a terminal, in columns. A longer cell is cut and ends in `…`. Without
/// a terminal, cells are complete, and a longer cell shifts the rest of its row.
const MAX_CELL_WIDTH: usize = 40;
/// Minimum width to which a text column is cut, in columns. With less space, the column is hidden.
/// Numbers are never cut.
const MIN_CUT_WIDTH: usize = 12;
/// Number of spaces between two columns.
const GAP: usize = 2;
/// Text that the table shows for a null.
const NULL: &str = "null";

/// Rows and columns of a table, with their widths.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    /// True if cells that are longer than their column are cut.
    cuts: bool,
    /// True if all lines are padded to the width of the table, because other text follows on the right.
    fills: bool,
    /// Names of the columns that are hidden because the terminal is too narrow.
    pub(crate) hidden: Vec<String>,
}

#[derive(Debug)]
struct Column {
    name: String,
    right: bool,
    width: usize,
    cells: Vec<Option<String>>,
    /// True if the column is shown in preference to others, when not all columns fit.
    first_choice: bool,
}

impl Table {
    /// Creates a table of records with the given fields. On a terminal of `width` columns, fields
    /// of sort orders have precedence, then fields that were declared first. Fields that do not fit
    /// are hidden. Without `width`, all fields are shown completely.
    pub(crate) fn new(
        records: &[JsonRecord],
        fields: &[String],
        collection: &Collection,
        width: Option<usize>,
    ) -> Self {
        let sort_orders = collection.sort_orders();
        let arranged: HashSet<&str> = sort_orders.iter().flat_map(SortOrder::fields).collect();
        let columns: Vec<Column> = fields
            .iter()
            .map(|name| Column {
                name: name.clone(),
                right: collection
                    .field(name)
                    .is_some_and(|(_, field)| field.ty.is_number()),
                width: 0,
                cells: records
                    .iter()
                    .map(|record| record.get(name).and_then(cell_text))
                    .collect(),
                first_choice: arranged.contains(name.as_str()),
            })
            .collect();
        Self::laid_out(columns, width)
    }

    /// Creates a table of named columns. The flag of a column aligns it to the right. On a terminal
    /// of `width` columns, the last columns are hidden if they do not fit. Without `width`, all
    /// columns are shown completely.
    pub(crate) fn of_columns(columns: Vec<(&str, bool, Vec<String>)>, width: Option<usize>) -> Self {
        let column = |(name, right, cells): (&str, bool, Vec<String>)| Column {
            name: name.to_owned(),
            right,
            width: 0,
            cells: cells.into_iter().map(Some).collect(),
            first_choice: true,
        };
        Self::laid_out(columns.into_iter().map(column).collect(), width)
    }

    fn laid_out(mut columns: Vec<Column>, width: Option<usize>) -> Self {
        for column in &mut columns {
            column.measure(width.map_or(MAX_CELL_WIDTH, |width| MAX_CELL_WIDTH.min(width.max(1))));
        }
        let hidden = width.map_or_else(Vec::new, |width| hide(&mut columns, width));
        Self {
            columns,
            cuts: width.is_some(),
            fills: false,
            hidden,
        }
    }

    /// Returns the table with all lines padded to its width, because other text follows on the
    /// right.
    pub(crate) fn filled(self) -> Self {
        Self { fills: true, ..self }
    }

    /// Returns the lines of the table: a header, a rule, and one line per row.
    pub(crate) fn lines(&self, console: &Console) -> Vec<String> {
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        let mut lines = Vec::with_capacity(rows + 2);
        let last = self.columns.len().saturating_sub(1);
        let row = |cells: &mut dyn FnMut(&Column) -> (String, Tone)| {
            let mut line = String::new();
            for (index, column) in self.columns.iter().enumerate() {
                let (text, tone) = cells(column);
                let text = if self.cuts { cut(&text, column.width) } else { text };
                let padding = " ".repeat(column.width.saturating_sub(width(&text)));
                let painted = console.paint(tone, &text);
                match (column.right, index == last && !self.fills) {
                    (true, _) => line.extend([padding.as_str(), &painted]),
                    (false, false) => line.extend([painted.as_str(), &padding]),
                    (false, true) => line.push_str(&painted),
                }
                if index != last {
                    line.push_str(&" ".repeat(GAP));
                }
            }
            line
        };
        lines.push(row(&mut |column| (column.name.clone(), Tone::Strong)));
        let rule = self
            .columns
            .iter()
            .map(|column| "─".repeat(column.width))
            .collect::<Vec<_>>();
        lines.push(console.paint(Tone::Dim, &rule.join(&" ".repeat(GAP))));
        for index in 0..rows {
            lines.push(row(&mut |column| match &column.cells[index] {
                Some(text) => (text.clone(), Tone::Plain),
                None => (NULL.to_owned(), Tone::Dim),
            }));
        }
        lines
    }
}

impl Column {
    fn measure(&mut self, most: usize) {
        let cells = self
            .cells
            .iter()
            .map(|cell| width(cell.as_deref().unwrap_or(NULL)));
        let widest = cells.chain([width(&self.name)]).max().unwrap_or(0);
        self.width = widest.min(most);
    }
}

/// Removes the columns that do not fit into a terminal of `width` columns, and returns their names.
fn hide(columns: &mut Vec<Column>, width: usize) -> Vec<String> {
    let mut room = width + GAP;
    let mut keep = vec![false; columns.len()];
    for first_choice in [true, false] {
        for (index, column) in columns.iter_mut().enumerate() {
            if column.first_choice != first_choice {
                continue;
            }
            let needed = column.width + GAP;
            let nothing_kept = !keep.contains(&true);
            if needed <= room || nothing_kept {
                keep[index] = true;
                room = room.saturating_sub(needed);
            } else if !column.right && room >= MIN_CUT_WIDTH + GAP {
                column.width = room - GAP;
                keep[index] = true;
                room = 0;
            } else if !first_choice {
                // Stop at the first column that does not fit. A later, narrower column might fit,
                // but users would take the gap for deliberate.
                break;
            }
        }
    }
    let mut hidden = Vec::new();
    let mut index = 0;
    columns.retain(|column| {
        let kept = keep[index];
        index += 1;
        if !kept {
            hidden.push(column.name.clone());
        }
        kept
    });
    hidden
}

/// Returns the text of a JSON value for a cell; `None` for null. Text has no quotes, unless it is
/// `null`. Other values are JSON.
pub(crate) fn cell_text(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) if text == NULL => Some(format!("\"{NULL}\"")),
        Json::String(text) => Some(printable(text)),
        other => Some(printable(&other.to_string())),
    }
}

/// Cuts text to at most `width` columns. Cut text ends in `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if crate::text::width(text) <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for character in text.chars() {
        let next = character_width(character);
        if used + next > width {
            break;
        }
        used += next;
        shown.push(character);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
#[cfg(feature = "full")]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tests::replies::{flights, records};

    fn drawn(fields: &[&str], width: Option<usize>) -> (String, Vec<String>) {
        let (console, _) = Console::captured(80);
        let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
        let mut schema = flights();
        std::sync::Arc::make_mut(&mut schema.collections[0]).views.clear();
        let table = Table::new(&records(), &fields, &schema.collections[0], width);
        (table.lines(&console).join("\n"), table.hidden)
    }

    #[test]
    fn numbers_stand_right_text_left_and_nulls_are_named() {
        let (table, hidden) = drawn(&["carrier", "flight", "dep_delay", "tailnum"], None);
        insta::assert_snapshot!(table);
        assert!(hidden.is_empty());
    }

    #[test]
    fn a_narrow_terminal_keeps_the_sort_order_and_hides_the_rest() {
        let fields = ["dest", "dep_delay", "time_hour", "carrier", "flight"];
        let (table, hidden) = drawn(&fields, Some(58));
        assert_eq!(hidden, ["dep_delay"]);
        assert!(table.lines().all(|line| width(line) <= 58));
        insta::assert_snapshot!(table);
        let (table, hidden) = drawn(&fields, Some(48));
        assert_eq!(hidden, ["dest", "dep_delay"]);
        assert!(table.lines().all(|line| width(line) <= 48));
    }

    #[test]
    fn the_narrowest_terminal_still_shows_a_column() {
        let (table, hidden) = drawn(&["carrier", "time_hour"], Some(3));
        assert_eq!(hidden, ["time_hour"]);
        assert!(table.lines().all(|line| width(line) <= 3), "{table}");
    }

    #[test]
    fn a_long_cell_widens_its_own_row_only_where_nothing_is_cut() {
        let (console, _) = Console::captured(80);
        let schema = flights();
        let mut records = records();
        let long = "x".repeat(5_000);
        records[0].insert("dest".into(), long.clone().into());
        let fields = ["dest".to_owned(), "flight".to_owned()];
        let table = Table::new(&records, &fields, &schema.collections[0], None);
        let lines = table.lines(&console);
        assert!(lines.iter().any(|line| line.contains(&long)));
        let wide = lines.iter().filter(|line| width(line) > 100).count();
        assert_eq!(wide, 1, "only the row of the long cell");
    }

    #[test]
    fn the_text_null_is_told_from_null() {
        assert_eq!(cell_text(&Json::Null), None);
        assert_eq!(cell_text(&"null".into()).unwrap(), "\"null\"");
        assert_eq!(cell_text(&"Null".into()).unwrap(), "Null");
    }

    #[test]
    fn wide_characters_are_cut_by_columns() {
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("漢字", 4), "漢字");
        assert_eq!(cut("abc", 0), "…");
    }
}

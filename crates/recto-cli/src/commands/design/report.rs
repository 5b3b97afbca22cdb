//! Report of `recto design`.

use recto::design::{Design, ProposedView, ServedQuery, Unservable};
use serde_json::{Value as Json, json};

use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::table::Table;
use crate::text::{bytes, counted, grouped, printable};

/// Note about two alternatives to a view: what each of them requires from clients.
const THEN: &str = "  row by row: needs allow_filter_scan; merge over a field: needs a filter that lists its \
                    values, as an OR of equalities";

/// Proposed views, and other results that the report of `recto design` shows.
pub(super) struct Report<'a> {
    pub(super) design: &'a Design,
    /// Size of a record in bytes, if the user gave it.
    pub(super) row_bytes: Option<u64>,
    /// Number of queries that a log has beyond the limit; `None` if the queries are not from a log.
    pub(super) left_out: Option<usize>,
    /// Queries of a log that no view can serve.
    pub(super) unservable: &'a [Unservable],
}

impl Report<'_> {
    pub(super) fn write(&self, console: &mut Console) -> Result<()> {
        let design = self.design;
        let title = console.paint(Tone::Strong, &printable(&design.collection));
        console.line(format_args!(
            "{title}  {}",
            console.paint(Tone::Hint, &design.summary())
        ))?;
        if let Some(left_out) = self.left_out.filter(|number| *number > 0) {
            let left_out = counted(left_out as u64, "query", "queries");
            let said = format!("{left_out} more in the log, which this design does not consider");
            console.line(console.paint(Tone::Dim, &said))?;
        }
        console.line("")?;
        table(console, queries(&design.queries, self.left_out.is_some()))?;
        if !design.views.is_empty() {
            section(console, "Views to add")?;
            table(console, views(&design.views))?;
            for view in &design.views {
                console.line("")?;
                write!(console.out(), "{}", view.declaration)?;
            }
        }
        section(console, "Writes per record")?;
        console.line(format_args!("  {}", self.written()))?;
        if !design.alternatives.is_empty() {
            section(console, "Queries without one of these views")?;
            table(console, alternatives(design))?;
            console.line(console.paint(Tone::Dim, THEN))?;
        }
        self.write_remarks(console)
    }

    /// Returns the write amplification as text: the number of tables to which each record is
    /// written, before and after the proposal.
    fn written(&self) -> String {
        let (before, after) = (self.design.tables_before as u64, self.design.tables_after as u64);
        let written = self.design.written();
        match self.row_bytes {
            Some(row) if before == after => format!("{written}: {}", bytes(after.saturating_mul(row))),
            Some(row) => {
                let written_bytes = |number: u64| bytes(number.saturating_mul(row));
                format!(
                    "{written}: {} instead of {}",
                    written_bytes(after),
                    written_bytes(before)
                )
            }
            None => written,
        }
    }

    fn write_remarks(&self, console: &mut Console) -> Result<()> {
        let design = self.design;
        if !self.unservable.is_empty() {
            section(console, "Logged queries that no view can serve")?;
            for query in self.unservable {
                Self::write_unservable(console, query)?;
            }
        }
        if !design.unused.is_empty() {
            section(console, "Views that serve none of these queries")?;
            console.line(format_args!("  {}", printable(&design.unused.join(", "))))?;
        }
        if let Some(views_instead) = &design.from_nothing {
            let number = counted(views_instead.len() as u64, "view", "views");
            section(
                console,
                &format!("Without the existing views, {number} would serve all queries"),
            )?;
            table(console, views(views_instead))?;
        }
        Ok(())
    }

    fn write_unservable(console: &mut Console, query: &Unservable) -> Result<()> {
        let asked = &query.asked;
        let words = [("filter", &asked.filter), ("order_by", &asked.order_by)];
        let words = words.iter().filter(|(_, text)| !text.is_empty());
        let words: Vec<String> = words
            .map(|(word, text)| format!("{word} {}", printable(text)))
            .collect();
        let times = counted(asked.per_day.unwrap_or_default(), "time", "times");
        console.line(format_args!("  {}, {times}: {}", asked.name, words.join(", ")))?;
        let reason = format!("    {}", printable(&query.reason));
        console.line(console.paint(Tone::Dim, &reason))?;
        Ok(())
    }

    pub(super) fn to_json(&self) -> Json {
        let mut shown = json!(self.design);
        if let Some(left_out) = self.left_out {
            shown["left_out"] = json!(left_out);
            shown["unservable"] = json!(self.unservable);
        }
        if let Some(row) = self.row_bytes {
            shown["bytes_before"] = json!(row.saturating_mul(self.design.tables_before as u64));
            shown["bytes_after"] = json!(row.saturating_mul(self.design.tables_after as u64));
        }
        shown
    }
}

/// Columns of a text table. Each has a name, whether it is aligned to the right, and its cells.
type Columns = Vec<(&'static str, bool, Vec<String>)>;

fn section(console: &mut Console, title: &str) -> Result<()> {
    console.line("")?;
    console.line(console.paint(Tone::Strong, title))?;
    Ok(())
}

fn table(console: &mut Console, columns: Columns) -> Result<()> {
    for line in Table::of_columns(columns, console.width()).lines(console) {
        console.line(format_args!("  {line}"))?;
    }
    Ok(())
}

fn queries(queries: &[ServedQuery], of_log: bool) -> Columns {
    let column = |cell: fn(&ServedQuery) -> String| queries.iter().map(cell).collect();
    let mut columns: Columns = vec![
        ("query", false, column(|query| query.asked.name.clone())),
        ("served by", false, column(|query| query.view.clone())),
        (
            "",
            false,
            column(|query| if query.is_new { "new" } else { "" }.to_owned()),
        ),
        ("how", false, column(ServedQuery::how)),
    ];
    if queries.iter().any(|query| query.asked.per_day.is_some()) {
        let header = if of_log { "asked" } else { "a day" };
        columns.push((
            header,
            true,
            column(|query| query.asked.per_day.map_or(String::new(), grouped)),
        ));
    }
    columns.push(("filter", false, column(|query| query.asked.filter.clone())));
    columns.push(("order_by", false, column(|query| query.asked.order_by.clone())));
    columns
}

fn views(views: &[ProposedView]) -> Columns {
    let column = |cell: fn(&ProposedView) -> String| views.iter().map(cell).collect();
    vec![
        ("view", false, column(|view| view.name.clone())),
        ("by", false, column(|view| view.sort_order.clone())),
        ("serves", false, column(|view| view.serves.join(", "))),
    ]
}

fn alternatives(design: &Design) -> Columns {
    let rows = design.alternatives.iter();
    let rows = rows.flat_map(|without| without.queries.iter().map(|query| (&without.view, query)));
    let (mut views, mut names, mut then) = (Vec::new(), Vec::new(), Vec::new());
    for (view, one) in rows {
        views.push(view.clone());
        names.push(one.query.clone());
        then.push(one.instead.to_string());
    }
    vec![
        ("without", false, views),
        ("query", false, names),
        ("then", false, then),
    ]
}

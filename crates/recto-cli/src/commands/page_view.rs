//! Text of a page: a table with a footer.

use std::time::Duration;

use recto::schema::Collection;
use recto::session::PageReply;

use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::table::{Table, cut};
use crate::text::{bytes, counted, duration, printable, rows};

/// Page of records to print, with its collection and the requested fields.
pub(crate) struct View<'a> {
    pub(crate) collection: &'a Collection,
    /// Fields that the user requested; empty for all fields.
    pub(crate) fields: &'a [String],
    pub(crate) sort_order: &'a str,
    pub(crate) reply: &'a PageReply,
}

impl View<'_> {
    /// Prints the page as a table with a footer. Returns the number of printed lines.
    pub(crate) fn draw(&self, console: &mut Console) -> Result<usize> {
        let (mut lines, hidden) = self.table(console);
        if let Some(tokens) = &self.reply.row_page_tokens {
            for (index, token) in tokens.iter().enumerate() {
                lines.push(format!(
                    "{} {token}",
                    console.paint(Tone::Dim, &format!("row {}:", index + 1))
                ));
            }
        }
        for (index, version) in self.reply.versions.iter().flatten().enumerate() {
            let version = version.map_or("no version".to_owned(), |version| format!("version {version}"));
            let row = console.paint(Tone::Dim, &format!("row {}:", index + 1));
            lines.push(format!("{row} {version}"));
        }
        let count = rows(self.reply.records.len() as u64);
        let mut footer = format!("{count} · {}", printable(self.sort_order));
        if !self.reply.cost_hidden {
            footer.push_str(&format!(" · {}", cost(self.reply)));
        }
        lines.push(line(console, Tone::Dim, &footer));
        if let Some(row_count) = &self.reply.row_count {
            lines.push(line(
                console,
                Tone::Dim,
                &row_count.in_words(self.reply.records.len()),
            ));
        }
        if !hidden.is_empty() {
            let count = counted(hidden.len() as u64, "field does not fit", "fields do not fit");
            lines.push(line(
                console,
                Tone::Dim,
                &format!("{count} (select with --fields): {}", hidden.join(", ")),
            ));
        }
        if self.reply.lacks > 0 {
            let records = counted(self.reply.lacks, "record that does", "records that do");
            let text =
                format!("up to {records} not fit are missing from the view: `recto verify` lists them");
            lines.push(line(console, Tone::Warning, &text));
        }
        if let Some(stop) = &self.reply.stop {
            let text = format!(
                "the page stopped at its budget of {}; the next page in this direction continues",
                stop.budget()
            );
            lines.push(line(console, Tone::Warning, &text));
        }
        if console.is_interactive() {
            lines.push(self.keys(console));
        } else {
            lines.extend(self.tokens(console));
        }
        for line in &lines {
            console.line(line)?;
        }
        Ok(lines.len())
    }

    /// Returns the lines of the page's table, and the names of the fields that did not fit on the
    /// terminal.
    pub(crate) fn table(&self, console: &Console) -> (Vec<String>, Vec<String>) {
        if self.reply.records.is_empty() {
            // Print "no rows yet" if a budget (rows, bytes or time) ended the page: rows may follow
            // in either direction.
            let at_end = self.reply.next_page_token.is_empty() && self.reply.stop.is_none();
            return (
                vec![console.paint(Tone::Dim, if at_end { "no rows" } else { "no rows yet" })],
                Vec::new(),
            );
        }
        let fields: Vec<String> = if self.fields.is_empty() {
            self.collection
                .fields
                .iter()
                .map(|field| field.name.clone())
                .collect()
        } else {
            self.fields.to_vec()
        };
        let table = Table::new(&self.reply.records, &fields, self.collection, console.width());
        (table.lines(console), table.hidden)
    }

    /// Returns the page tokens of the neighboring pages, as options for the next command.
    fn tokens(&self, console: &Console) -> Vec<String> {
        [
            ("next page:    ", &self.reply.next_page_token),
            ("previous page:", &self.reply.previous_page_token),
        ]
        .into_iter()
        .filter(|(_, token)| !token.is_empty())
        .map(|(name, token)| format!("{} --page-token {token}", console.paint(Tone::Dim, name)))
        .collect()
    }

    /// Returns the line that explains the keys. A key that would do nothing is dim. On a narrow
    /// terminal, the line has only the letters of the keys.
    fn keys(&self, console: &Console) -> String {
        let more = !self.reply.next_page_token.is_empty();
        let less = !self.reply.previous_page_token.is_empty();
        let keys = [
            ("n", "next", more),
            ("p", "previous", less),
            ("f", "first", less),
            ("l", "last", more),
            ("q", "quit", true),
        ];
        let all: usize = keys.iter().map(|(key, name, _)| key.len() + name.len() + 4).sum();
        let named = console.width().is_none_or(|width| all <= width);
        keys.map(|(key, name, possible)| {
            let name = if named { format!(" {name}") } else { String::new() };
            if possible {
                format!("{}{name}", console.paint(Tone::Hint, key))
            } else {
                console.paint(Tone::Dim, &format!("{key}{name}"))
            }
        })
        .join(if named { "   " } else { " " })
    }
}

/// Cuts a line to the width of the terminal, so that it does not wrap.
fn line(console: &Console, tone: Tone, text: &str) -> String {
    console.paint(tone, &cut(text, console.width().unwrap_or(usize::MAX)))
}

/// Returns the text of a page's cost, such as `51 rows read, 9.8 kB · 1 round trip · 212 µs`.
pub(crate) fn cost(reply: &PageReply) -> String {
    let cost = &reply.cost;
    let mut parts = vec![format!(
        "{} read, {}",
        rows(cost.rows_read),
        bytes(cost.bytes_read)
    )];
    if cost.round_trips > 0 {
        parts.push(counted(cost.round_trips.into(), "round trip", "round trips"));
    }
    if cost.tombstones > 0 {
        parts.push(format!(
            "{} crossed",
            counted(cost.tombstones, "tombstone", "tombstones")
        ));
    }
    parts.push(duration(Duration::from_micros(cost.time_micros)));
    parts.join(" · ")
}

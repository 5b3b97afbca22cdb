//! Printing of a test case as a Rust test.

use std::fmt::Write;

use recto_model::schema::Schema;
use recto_model::table::Direction;
use recto_model::{Value, json};

use super::case::{Case, Change, Move};
use crate::oracle::{Condition, Row};

impl Case {
    /// Returns the source of a Rust test with this name, which builds the test case in a variable
    /// `case`, and then executes `statement`.
    pub fn rust_test(&self, name: &str, statement: &str) -> String {
        let mut lines = vec![format!("Case::declared({})", raw(&self.schema_text()))];
        let collations = self.collations.iter();
        lines.extend(collations.map(|(field, locale)| format!(".collate({field:?}, {locale:?})")));
        lines.extend(
            self.rows
                .iter()
                .map(|row| format!(".row({})", raw(&self.show(row)))),
        );
        let conditions = self.question.conditions.iter();
        lines.extend(conditions.map(|condition| self.condition_text(condition)));
        if !self.question.sort.is_empty() {
            lines.push(format!(".sort({})", self.sort_text()));
        }
        if self.question.allow_filter_scan {
            lines.push(".allow_filter_scan()".to_owned());
        }
        if self.built {
            lines.push(".built()".to_owned());
        }
        for page in &self.moves {
            lines.extend(self.move_lines(page));
        }
        let case = lines.join("\n        ");
        format!("#[test]\n#[rustfmt::skip]\nfn {name}() {{\n    let case = {case};\n    {statement}\n}}\n")
    }

    fn schema_text(&self) -> String {
        let schema = Schema {
            collections: vec![self.collection.clone()],
            ..Schema::default()
        };
        format!("\n{}\n", schema.to_toml().trim())
    }

    fn show(&self, row: &Row) -> String {
        self.oracle().show(row)
    }

    fn name(&self, field: usize) -> String {
        format!("{:?}", self.collection.fields[field].name)
    }

    fn text(&self, field: usize, value: &Value) -> String {
        raw(&json::to_text(&self.collection.fields[field].ty, value))
    }

    fn condition_text(&self, condition: &Condition) -> String {
        match condition {
            Condition::Compare {
                field,
                comparison,
                value,
            } => format!(
                ".compare({}, {:?}, {})",
                self.name(*field),
                comparison.as_str(),
                self.text(*field, value)
            ),
            Condition::AnyOf { field, values } => {
                let values: Vec<String> = values.iter().map(|value| self.text(*field, value)).collect();
                format!(".any_of({}, &[{}])", self.name(*field), values.join(", "))
            }
            Condition::StartsWith { field, prefix } => {
                format!(".starts_with({}, {})", self.name(*field), raw(prefix))
            }
            Condition::Tuple {
                fields,
                comparison,
                values,
            } => {
                let names: Vec<String> = fields.iter().map(|field| self.name(*field)).collect();
                let both = fields.iter().zip(values);
                let values: Vec<String> = both.map(|(field, value)| self.text(*field, value)).collect();
                format!(
                    ".tuple(&[{}], {:?}, &[{}])",
                    names.join(", "),
                    comparison.as_str(),
                    values.join(", ")
                )
            }
        }
    }

    fn sort_text(&self) -> String {
        let terms = self.question.sort.iter().map(|(field, direction)| {
            let sign = if *direction == Direction::Descending {
                "-"
            } else {
                ""
            };
            format!("\"{sign}{}\"", self.collection.fields[*field].name)
        });
        format!("&[{}]", terms.collect::<Vec<_>>().join(", "))
    }

    /// Returns the lines of source that add the page, with only the fields that differ from
    /// `Move::default()`.
    fn move_lines(&self, page: &Move) -> Vec<String> {
        let plain = Move::default();
        let mut text = String::from(".page(Move { ");
        let mut field = |is_other: bool, shown: String| {
            if is_other {
                write!(text, "{shown}, ").expect("a string takes everything");
            }
        };
        field(true, format!("size: {}", page.size));
        field(
            page.place != plain.place,
            format!("place: Place::{:?}", page.place),
        );
        field(page.row != plain.row, format!("row: {}", page.row));
        field(page.backwards, "backwards: true".to_owned());
        field(page.by_row, "by_row: true".to_owned());
        field(page.both_edges, "both_edges: true".to_owned());
        field(
            page.scan_budget != 0,
            format!("scan_budget: {}", page.scan_budget),
        );
        field(
            page.byte_budget != 0,
            format!("byte_budget: {}", page.byte_budget),
        );
        text.push_str("..Move::default() })");
        let mut lines = vec![text];
        if !page.from.is_empty() {
            let order = self.order();
            let both = order.iter().zip(&page.from);
            let values: Vec<String> = both.map(|((field, _), value)| self.text(*field, value)).collect();
            lines.push(format!(".from(&[{}])", values.join(", ")));
        }
        lines.extend(page.writes.iter().map(|change| match change {
            Change::Put(row) => format!(".put({})", raw(&self.show(row))),
            Change::Delete(index) => format!(".delete({index})"),
        }));
        lines
    }
}

/// Returns a text as a Rust string literal: a raw string if possible, so that JSON stays readable.
fn raw(text: &str) -> String {
    let is_plain = text
        .chars()
        .all(|char| char == '\n' || (' '..='~').contains(&char));
    if !is_plain || !text.contains(['"', '\n', '\\']) {
        return format!("{text:?}");
    }
    let mut marks = String::from("#");
    while text.contains(&format!("\"{marks}")) {
        marks.push('#');
    }
    if text.contains('"') {
        format!("r{marks}\"{text}\"{marks}")
    } else {
        format!("r\"{text}\"")
    }
}

//! Attributes of a struct, converted to the text of a schema file.
//!
//! The macro writes the attributes as TOML and passes this text to the parser of schema files, so
//! that the rules of the language have only one implementation. The macro records the attribute
//! from which each part of the text came, and reports the parser's errors there.

use std::ops::Range;

use proc_macro2::Span;
use syn::{Error, Lit, LitStr, Result};

use crate::attributes::{Entry, Value};

/// Options of a collection that a struct declares, as text of a schema file.
pub(crate) struct Declaration {
    /// Body of the TOML table `[collection.NAME]`, without its header and without `fields`.
    pub(crate) text: String,
    /// Ranges of bytes in `text`, each with the attribute that it came from. Two ranges do not
    /// overlap, unless one contains the other.
    pieces: Vec<(Range<usize>, Span)>,
    /// Names of the fields in the collection's key.
    pub(crate) key: Vec<String>,
    /// Names of the fields that are in a partition, an order or a unique constraint.
    pub(crate) ordered: Vec<String>,
}

impl Declaration {
    pub(crate) fn of(entries: &[Entry]) -> Result<Self> {
        let mut declaration = Self {
            text: String::new(),
            pieces: Vec::new(),
            key: Vec::new(),
            ordered: Vec::new(),
        };
        let (views, options): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.name == "view");
        for entry in options {
            declaration.note_fields(entry);
            declaration.line(entry)?;
        }
        let mut names: Vec<String> = Vec::new();
        for view in views {
            let name = declaration.view(view)?;
            if names.contains(&name.value()) {
                let message = format!("two views are named {:?}", name.value());
                return Err(Error::new(name.span(), message));
            }
            names.push(name.value());
        }
        Ok(declaration)
    }

    /// Returns the position of the attribute from which the byte at offset `at` of the text came.
    /// If several attributes contain the byte, returns the innermost; if none does, `None`.
    pub(crate) fn place(&self, at: usize) -> Option<Span> {
        let pieces = self.pieces.iter().filter(|(range, _)| range.contains(&at));
        let smallest = pieces.min_by_key(|(range, _)| range.len());
        smallest.map(|(_, span)| *span)
    }

    fn view(&mut self, entry: &Entry) -> Result<LitStr> {
        const NAMED: &str =
            "a view needs a name and options: view(name = \"by_status\", partition = [\"status\"])";
        let Value::Table(options, span) = &entry.value else {
            return Err(Error::new(entry.value.span(), NAMED));
        };
        let is_name = |option: &&Entry| option.name == "name";
        let name = options
            .iter()
            .find(is_name)
            .ok_or_else(|| Error::new(*span, NAMED))?;
        let name = name.text()?;
        self.text.push_str("[view.");
        self.piece(name.span(), |declaration| declaration.quoted(&name.value()));
        self.text.push_str("]\n");
        check_once(options)?;
        for option in options.iter().filter(|option| !is_name(option)) {
            self.note_fields(option);
            self.line(option)?;
        }
        Ok(name)
    }

    fn note_fields(&mut self, entry: &Entry) {
        let mut names = Vec::new();
        texts(&entry.value, &mut names);
        match entry.name.to_string().as_str() {
            "key" => self.key = names,
            "partition" | "order" | "unique" => {
                let names = names.iter().map(|name| name.trim_start_matches('-').to_owned());
                self.ordered.extend(names);
            }
            _ => {}
        }
    }

    fn line(&mut self, entry: &Entry) -> Result<()> {
        self.entry(entry)?;
        self.text.push('\n');
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        self.piece(entry.name.span(), |declaration| {
            declaration.text.push_str(&entry.name.to_string());
        });
        self.text.push_str(" = ");
        self.value(&entry.value)
    }

    fn value(&mut self, value: &Value) -> Result<()> {
        let begin = self.text.len();
        match value {
            Value::Literal(Lit::Str(text)) => self.quoted(&text.value()),
            Value::Literal(Lit::Int(number)) => self.text.push_str(number.base10_digits()),
            Value::Literal(Lit::Bool(flag)) => self.text.push_str(if flag.value { "true" } else { "false" }),
            Value::Literal(other) => {
                return Err(Error::new(
                    other.span(),
                    "expected text, a whole number, true or false",
                ));
            }
            Value::List(values, _) => {
                self.text.push('[');
                for value in values {
                    self.value(value)?;
                    self.text.push_str(", ");
                }
                self.text.push(']');
            }
            Value::Table(entries, _) => {
                check_once(entries)?;
                self.text.push_str("{ ");
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        self.text.push_str(", ");
                    }
                    self.entry(entry)?;
                }
                self.text.push_str(" }");
            }
        }
        self.pieces.push((begin..self.text.len(), value.span()));
        Ok(())
    }

    /// Appends text with `write`, and records that it came from the attribute `span`, for error
    /// messages.
    fn piece(&mut self, span: Span, write: impl FnOnce(&mut Self)) {
        let begin = self.text.len();
        write(self);
        self.pieces.push((begin..self.text.len(), span));
    }

    /// Appends `text` as a quoted TOML string.
    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                control if control.is_control() => {
                    self.text.push_str(&format!("\\u{:04X}", u32::from(control)));
                }
                plain => self.text.push(plain),
            }
        }
        self.text.push('"');
    }
}

fn check_once(entries: &[Entry]) -> Result<()> {
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].iter().any(|earlier| earlier.name == entry.name) {
            return Err(Error::new(entry.name.span(), "this option occurs twice"));
        }
    }
    Ok(())
}

/// Appends all strings in an attribute's value to `found`, also those in nested lists.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Literal(Lit::Str(text)) => found.push(text.value()),
        Value::List(values, _) => values.iter().for_each(|value| texts(value, found)),
        _ => {}
    }
}

//! Printer of schemas: converts the model to canonical TOML.
//!
//! Stores keep the canonical text, and later releases read it. The printer therefore uses the
//! simplest forms of the language. [`Schema::parse`] returns an equal schema.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;

use super::model::{Collection, Schema, View, WriteMode};
use super::options::{Bucket, BucketStrategy, Nulls, print_size};

impl Schema {
    /// Returns the schema as canonical text. [`Schema::parse`] returns an equal schema, and equal schemas
    /// have equal texts.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        if !self.queues.is_empty() {
            table(&mut text, "queues");
            for (option, number) in self.queues.said() {
                entry(&mut text, option, &number.to_string());
            }
        }
        for udt in &self.types {
            table(&mut text, &format!("type.{}", udt.name));
            let fields = udt.fields.iter().map(|(name, ty)| (name, ty));
            entry(&mut text, "fields", &inline_table(fields));
        }
        for collection in &self.collections {
            print_collection(&mut text, collection);
        }
        text
    }
}

impl Schema {
    /// Parses the text that [`View::definition`] returned, as a view named `name` of the collection
    /// `collection`. `None` if the text is not such a definition, or if the collection does not
    /// exist.
    pub fn view_of(&self, collection: &str, name: &str, definition: &str) -> Option<View> {
        let one = Self {
            types: self.types.clone(),
            collections: vec![Arc::new(Collection {
                views: Vec::new(),
                ..Collection::clone(self.collection(collection)?)
            })],
            ..Self::default()
        };
        let text = format!("{}view.{name} = {definition}\n", one.to_toml());
        let parsed = Self::parse(&text).ok()?;
        parsed.collections[0].view(name).cloned()
    }
}

impl View {
    /// Returns the declaration of the view without its name, as one line of TOML: `{ partition =
    /// ["status"] }`. [`Schema::view_of`] parses it.
    pub fn definition(&self) -> String {
        let mut text = String::new();
        print_view(&mut text, self);
        let entries: Vec<&str> = text.lines().collect();
        format!("{{ {} }}", entries.join(", "))
    }
}

impl Collection {
    /// Returns the declaration of a view in the schema language, which a user can insert after the
    /// declaration of the collection.
    pub fn view_declaration(&self, view: &View) -> String {
        let mut text = String::new();
        table(&mut text, &format!("collection.{}.view.{}", self.name, view.name));
        print_view(&mut text, view);
        text
    }
}

fn print_collection(text: &mut String, collection: &Collection) {
    table(text, &format!("collection.{}", collection.name));
    let fields = collection.fields.iter().map(|field| (&field.name, &field.ty));
    entry(text, "fields", &inline_table(fields));
    entry(text, "key", &list(&collection.key));
    // Print no sort order of an `update` collection: its base table is sorted by the key, and its
    // declared sort order is printed as a view.
    if collection.writes != WriteMode::Update {
        entry(text, "partition", &list(&collection.partition));
        if !collection.order.is_empty() {
            entry(text, "order", &list(&collection.order));
        }
    }
    match &collection.attached {
        Some(table) => entry(text, "attached", &quoted(table)),
        None => entry(text, "writes", &quoted(collection.writes)),
    }
    print_bucket(text, collection.bucket.as_ref());
    if !collection.unique.is_empty() {
        let sets: Vec<String> = collection.unique.iter().map(|set| list(set)).collect();
        entry(text, "unique", &format!("[{}]", sets.join(", ")));
    }
    for view in &collection.views {
        text.push('\n');
        text.push_str(&collection.view_declaration(view));
    }
}

fn print_view(text: &mut String, view: &View) {
    if !view.partition.is_empty() {
        entry(text, "partition", &list(&view.partition));
    }
    // A view without a partition must declare an order, even if only key fields are in it.
    if !view.order.is_empty() || view.partition.is_empty() {
        entry(text, "order", &list(&view.order));
    }
    print_bucket(text, view.bucket.as_ref());
    if view.nulls != Nulls::default() {
        entry(text, "nulls", &quoted(view.nulls.as_str()));
    }
    print_per_field(text, "collate", &view.collate);
    print_per_field(text, "rounding", &view.rounding);
    if let Some(fields) = &view.fields {
        entry(text, "fields", &list(fields));
    }
    if !view.verify {
        entry(text, "verify", "false");
    }
}

fn print_bucket(text: &mut String, bucket: Option<&Bucket>) {
    let Some(bucket) = bucket else {
        return;
    };
    let mut value = match &bucket.strategy {
        BucketStrategy::Time { field, width } => {
            format!("time = {}, width = {}", quoted(field), quoted(width))
        }
        BucketStrategy::Rows(rows) => format!("rows = {rows}"),
        BucketStrategy::Target { bytes } => format!("target = {}", quoted(print_size(*bytes))),
    };
    if bucket.shards > 1 {
        value += &format!(", shards = {}", bucket.shards);
    }
    if let Some(keep) = bucket.keep {
        value += &format!(", keep = {}", quoted(keep));
    }
    entry(text, "bucket", &format!("{{ {value} }}"));
}

fn print_per_field<T: Display>(text: &mut String, key: &str, values: &BTreeMap<String, T>) {
    if !values.is_empty() {
        entry(text, key, &inline_table(values.iter()));
    }
}

fn table(text: &mut String, path: &str) {
    let blank = if text.is_empty() { "" } else { "\n" };
    // Ignore the result, because writing to a string cannot fail.
    let _ = writeln!(text, "{blank}[{path}]");
}

fn entry(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

fn list<T: Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(quoted).collect();
    format!("[{}]", values.join(", "))
}

fn inline_table<K: Display, V: Display>(pairs: impl Iterator<Item = (K, V)>) -> String {
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key} = {}", quoted(value)))
        .collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Returns a TOML string without escapes. The texts in a checked schema (names, types, language
/// tags and values of options) consist of characters that need none.
fn quoted(value: impl Display) -> String {
    format!("\"{value}\"")
}

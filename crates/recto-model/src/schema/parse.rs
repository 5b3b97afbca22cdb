//! Parser of schemas: converts TOML to declarations.
//!
//! The TOML parser reads the text once and keeps all positions, and this module traverses its
//! result. After a TOML syntax error, the module reports nothing else, because declarations in an
//! incomplete text would be misleading.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::attached::AttachedTable;
use super::check;
use super::context::Context;
use super::declared::{
    DeclaredBucket, DeclaredCollection, DeclaredField, DeclaredSortOrder, DeclaredView, PerField, Placed,
    Span, Word,
};
use super::errors::{CollectionError, SchemaErrors};
use super::model::{Collection, Schema, WriteMode};
use super::names::nearest;
use super::options::{BucketStrategy, Nulls, parse_size};
use super::problem::Problem;
use super::queues::StoreQueues;
use super::type_order::{Later, uses_of_types};
use super::type_text::{is_cql_type, parse_type};
use super::{MAX_COLLECTIONS, MAX_FIELDS, MAX_SCHEMA_BYTES, MAX_SHARDS, MAX_TYPES};
use crate::Type;
use crate::collation::Collation;
use crate::types::UdtType;
use crate::width::Width;

const ROOT_KEYS: &[&str] = &["collection", "type", "queues"];
const QUEUES_KEYS: &[&str] = &["rotation_seconds", "grace_seconds", "tables", "units"];
const TYPE_KEYS: &[&str] = &["fields"];
const COLLECTION_KEYS: &[&str] = &[
    "fields",
    "key",
    "partition",
    "order",
    "writes",
    "attached",
    "bucket",
    "collate",
    "nulls",
    "rounding",
    "verify",
    "unique",
    "view",
];
const VIEW_KEYS: &[&str] = &[
    "partition",
    "order",
    "bucket",
    "collate",
    "nulls",
    "rounding",
    "fields",
    "verify",
];
/// Schema keys that earlier versions spelled differently: the old spelling and the new one. Stored
/// schemas can contain both.
const OLD_KEYS: &[(&str, &str)] = &[
    ("grain", "rounding"),
    ("slice_seconds", "rotation_seconds"),
    ("margin_seconds", "grace_seconds"),
];
/// Description of the values of `collate`, for error messages.
const LOCALE: &str =
    "the name of a collation: a language such as \"de\", \"sv\" or \"fr-CA\", or \"und\" for any";
const BUCKET_KEYS: &[&str] = &["time", "width", "rows", "target", "shards", "keep"];

/// Maximum number of reported TOML syntax errors. Later errors are often consequences of the first.
const MAX_SYNTAX_ERRORS: usize = 3;

/// Description of a width (length of time), for error messages.
const WIDTH: &str = "a length of time such as \"1 month\" or \"15 minutes\"";

impl Schema {
    /// Parses the text of a schema, and checks all rules of the language.
    ///
    /// # Errors
    /// All errors in the text, each with its position and a suggested replacement: see [`SchemaErrors`]. If
    /// the text is not TOML, or longer than [`MAX_SCHEMA_BYTES`], no further errors are reported.
    ///
    /// ```
    /// use recto_model::schema::Schema;
    ///
    /// let schema = Schema::parse(
    ///     r#"
    ///     [collection.timeline]
    ///     fields = { user_id = "uuid", post_id = "timeuuid", content = "text" }
    ///     key = ["user_id", "post_id"]
    ///     partition = ["user_id"]
    ///     order = ["-post_id"]
    ///     writes = "append"
    ///     "#,
    /// )?;
    /// assert_eq!(schema.collections[0].name, "timeline");
    ///
    /// let errors = Schema::parse("[collection.a]\nfileds = { b = \"int\" }\nkey = [\"b\"]").unwrap_err();
    /// assert!(errors.to_string().starts_with("schema.toml:2:1: unknown key `fileds`"));
    /// # Ok::<(), recto_model::schema::SchemaErrors>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, SchemaErrors> {
        if text.len() > MAX_SCHEMA_BYTES {
            let problem = Problem::Limit {
                what: "bytes of a schema",
                limit: MAX_SCHEMA_BYTES,
            };
            // Leave the text out of the error, because the text is too long.
            return Err(SchemaErrors::new("", vec![(0..0, problem)], 0));
        }
        let mut context = Context::with_text(text);
        let (document, syntax_errors) = DeTable::parse_recoverable(text);
        for error in syntax_errors.iter().take(MAX_SYNTAX_ERRORS) {
            let span = error.span().unwrap_or_default();
            context.report(&span, || Problem::Syntax {
                message: error.message().to_owned(),
                hint: syntax_hint(text, &span, error.message()),
            });
        }
        let mut schema = Self::default();
        if context.count() == 0 {
            schema = Parser {
                context: &mut context,
            }
            .schema(document.get_ref());
        }
        // Stores keep the canonical text, which also contains defaults. Reject a schema whose
        // canonical text would be too long to be parsed.
        if context.count() == 0 && schema.to_toml().len() > MAX_SCHEMA_BYTES {
            context.report(&(0..0), || Problem::Limit {
                what: "bytes of a schema in canonical form",
                limit: MAX_SCHEMA_BYTES,
            });
        }
        context.into_errors(text).map(|()| schema)
    }
}

impl Collection {
    /// Returns the collection with the given name and fields, and the options in `text`: the table
    /// `[collection.NAME]` of a schema without its header and without `fields`. A field whose type
    /// is unknown has the type `None`. No rule about its type is then checked, and the returned
    /// collection lacks the field.
    ///
    /// `#[derive(Record)]` calls this function.
    ///
    /// # Errors
    /// All errors, each with its range in the text, in bytes. An error about the collection's name
    /// is at the byte after the text, and errors about the names of fields are at the bytes that
    /// follow.
    #[doc(hidden)]
    pub fn declared(
        name: &str,
        fields: Vec<(String, Option<Type>)>,
        text: &str,
    ) -> Result<Option<Self>, Vec<(Range<usize>, Problem)>> {
        let mut context = Context::without_text();
        let beyond = |index: usize| text.len() + index..text.len() + index + 1;
        let (document, syntax_errors) = DeTable::parse_recoverable(text);
        for error in syntax_errors {
            context.report(&error.span().unwrap_or_default(), || Problem::Syntax {
                message: error.message().to_owned(),
                hint: None,
            });
        }
        let fields = fields.into_iter().zip(1..);
        let fields = fields.map(|((name, ty), index)| DeclaredField {
            name: Word::new(name, beyond(index)),
            ty,
        });
        let name = Word::new(name, beyond(0));
        let mut parser = Parser {
            context: &mut context,
        };
        parser.known_keys(document.get_ref(), COLLECTION_KEYS, "a collection");
        let declared = parser.options(name, fields.collect(), document.get_ref());
        let collection = declared.and_then(|declared| check::collection(&declared, &mut context));
        match context.into_problems() {
            problems if problems.is_empty() => Ok(collection),
            problems => Err(problems),
        }
    }

    /// Returns the collection with the given name and fields, and the options in `text`, like
    /// [`declared`](Self::declared) if all types are known.
    ///
    /// # Errors
    /// All errors in the declaration.
    #[doc(hidden)]
    pub fn of_record(name: &str, fields: Vec<(String, Type)>, text: &str) -> Result<Self, CollectionError> {
        let fields = fields.into_iter().map(|(name, ty)| (name, Some(ty)));
        let problems = match Self::declared(name, fields.collect(), text) {
            Ok(Some(collection)) => return Ok(collection),
            Ok(None) => Vec::new(),
            Err(problems) => problems.into_iter().map(|(_, problem)| problem).collect(),
        };
        Err(CollectionError {
            collection: name.to_owned(),
            problems,
        })
    }
}

impl std::str::FromStr for Schema {
    type Err = SchemaErrors;

    fn from_str(text: &str) -> Result<Self, SchemaErrors> {
        Self::parse(text)
    }
}

/// Returns a suggested replacement for the most common syntax mistakes in TOML.
fn syntax_hint(text: &str, span: &Span, message: &str) -> Option<String> {
    let word = text.get(span.clone()).unwrap_or_default();
    let in_list = text.get(..span.start).is_some_and(|before| {
        let before = before.trim_end_matches(' ');
        before.ends_with(['=', '[', ','])
    });
    if message == "duplicate key" {
        return Some("name it once".into());
    }
    let plain = |character: char| character.is_alphanumeric() || "_-<>".contains(character);
    (in_list && !word.is_empty() && word.chars().all(plain))
        .then(|| format!("put text in quotes: \"{word}\""))
}

type Key<'i> = Spanned<DeString<'i>>;
type Value<'i> = Spanned<DeValue<'i>>;

fn key_word(key: &Key<'_>) -> Word {
    Word::new(key.get_ref().as_ref(), key.span())
}

/// Returns the spelling of a schema key in earlier versions, or `None` if it was the same.
fn old_spelling(key: &str) -> Option<&'static str> {
    OLD_KEYS.iter().find(|(_, new)| *new == key).map(|(old, _)| *old)
}

/// Returns the value of a key from a table, in its current or its old spelling.
fn get_renamed<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t Value<'i>> {
    table.get(key).or_else(|| table.get(old_spelling(key)?))
}

/// Returns a description of a TOML value, for the message "must be …, not …".
fn found(value: &DeValue<'_>) -> String {
    /// Maximum length of a text that the message repeats, in characters.
    const SHOWN: usize = 40;
    match value {
        DeValue::String(text) if text.chars().count() <= SHOWN => format!("\"{text}\""),
        DeValue::String(text) => format!("\"{}…\"", text.chars().take(SHOWN).collect::<String>()),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(_) => "a float".into(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date or time".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// Returns the integer in a TOML value, or `None` if it is no integer or negative.
fn whole(value: &Value<'_>) -> Option<u64> {
    let DeValue::Integer(number) = value.get_ref() else {
        return None;
    };
    let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
    u64::try_from(number).ok()
}

struct Parser<'c, 't> {
    context: &'c mut Context<'t>,
}

impl Parser<'_, '_> {
    fn schema(&mut self, root: &DeTable<'_>) -> Schema {
        let mut schema = Schema::default();
        self.known_keys(root, ROOT_KEYS, "a schema");
        if let Some(types) = root.get("type").and_then(|types| self.table("type", types)) {
            schema.types = self.types(types);
        }
        if let Some(queues) = root.get("queues").and_then(|queues| self.table("queues", queues)) {
            schema.queues = self.queues(queues);
        }
        let collections = root
            .get("collection")
            .and_then(|collections| self.table("collection", collections));
        let Some(collections) = collections else {
            return schema;
        };
        let unnamed = collections
            .iter()
            .find(|(key, value)| key.get_ref() == "key" && !value.get_ref().is_table());
        if let Some((key, _)) = unnamed {
            self.context.report(&key.span(), || Problem::Unnamed);
            return schema;
        }
        if let Some((key, _)) = collections.iter().nth(MAX_COLLECTIONS) {
            self.limit(&key.span(), "collections of a schema", MAX_COLLECTIONS);
        }
        for (key, value) in collections.iter().take(MAX_COLLECTIONS) {
            let declared = self
                .table(key.get_ref(), value)
                .and_then(|table| self.collection(key, table, &schema.types));
            if let Some(collection) = declared.and_then(|declared| check::collection(&declared, self.context))
            {
                schema.collections.push(Arc::new(collection));
            }
        }
        schema
    }

    fn queues(&mut self, table: &DeTable<'_>) -> StoreQueues {
        self.known_keys(table, QUEUES_KEYS, "[queues]");
        let mut queues = StoreQueues::default();
        let options = [
            &mut queues.rotation_seconds,
            &mut queues.grace_seconds,
            &mut queues.tables,
            &mut queues.units,
        ];
        for (key, option) in QUEUES_KEYS.iter().zip(options) {
            let Some(value) = get_renamed(table, key) else {
                continue;
            };
            let number = whole(value).and_then(|number| u32::try_from(number).ok());
            *option = number.or_else(|| self.wrong(key, value, "a whole number", None));
            let position = self.context.position(&value.span());
            queues
                .places
                .0
                .extend(position.map(|position| ((*key).to_owned(), position)));
        }
        queues
    }

    fn types(&mut self, table: &DeTable<'_>) -> Vec<Arc<UdtType>> {
        let all: Vec<&str> = table.keys().map(|key| key.get_ref().as_ref()).collect();
        if let Some((key, _)) = table.iter().nth(MAX_TYPES) {
            self.limit(&key.span(), "types of a schema", MAX_TYPES);
        }
        let uses = uses_of_types(table);
        let mut types: Vec<Arc<UdtType>> = Vec::new();
        for (index, (key, value)) in table.iter().take(MAX_TYPES).enumerate() {
            let name = key_word(key);
            check::name(&name, "type", self.context);
            if is_cql_type(&name.text) {
                self.context.report(&name.span, || Problem::TypeName {
                    name: name.text.clone(),
                });
            }
            let Some(body) = self.table(&name.text, value) else {
                continue;
            };
            self.known_keys(body, TYPE_KEYS, "a type");
            let later = Later {
                user: &name.text,
                names: &all[index..],
                uses: &uses,
            };
            let fields = match body.get("fields") {
                Some(fields) => self.fields(fields, &types, Some(&later)),
                None => Vec::new(),
            };
            self.type_fields(&name, &fields);
            types.push(Arc::new(UdtType {
                name: name.text,
                fields: fields
                    .into_iter()
                    .filter_map(|field| Some((field.name.text, field.ty?)))
                    .collect(),
            }));
        }
        types
    }

    fn type_fields(&mut self, name: &Word, fields: &[DeclaredField]) {
        if fields.is_empty() {
            self.context.report(&name.span, || Problem::Missing {
                key: "fields",
                of: format!("type `{}`", name.text),
                example: "fields = { street = \"text\", city = \"text\" }",
            });
        }
        if let Some(field) = fields.get(MAX_FIELDS) {
            self.limit(&field.name.span, "fields of a type", MAX_FIELDS);
        }
        for field in fields.iter().take(MAX_FIELDS) {
            check::name(&field.name, "field", self.context);
        }
    }

    /// Parses the fields of a collection or a user-defined type. `later` contains the types that
    /// are not declared yet.
    fn fields(
        &mut self,
        value: &Value<'_>,
        types: &[Arc<UdtType>],
        later: Option<&Later<'_>>,
    ) -> Vec<DeclaredField> {
        let Some(table) = self.table("fields", value) else {
            return Vec::new();
        };
        let mut fields = Vec::new();
        // Parse one field more than the maximum, so that a later check detects the excess.
        for (key, value) in table.iter().take(MAX_FIELDS + 1) {
            let name = key_word(key);
            let ty = self
                .text(&name.text, value, "a type such as \"text\"")
                .and_then(|text| {
                    parse_type(&text.text, types)
                        .map_err(|error| {
                            let span = inside(&value.span(), &text.text, &error.span);
                            self.context.report(&span, || {
                                later
                                    .and_then(|later| later.problem(&text.text))
                                    .unwrap_or(Problem::Type {
                                        reason: error.reason,
                                        hint: error.hint,
                                    })
                            });
                        })
                        .ok()
                });
            fields.push(DeclaredField { name, ty });
        }
        fields
    }

    fn collection(
        &mut self,
        key: &Key<'_>,
        table: &DeTable<'_>,
        types: &[Arc<UdtType>],
    ) -> Option<DeclaredCollection> {
        self.known_keys(table, COLLECTION_KEYS, "a collection");
        let fields = match table.get("fields") {
            Some(fields) => self.fields(fields, types, None),
            None => Vec::new(),
        };
        let declared = self.options(key_word(key), fields, table);
        let is_unreadable = table
            .get("fields")
            .is_some_and(|fields| !fields.get_ref().is_table());
        // A misspelt or unreadable key was already reported. Do not report the same key as missing.
        let misspelt = |wanted: &str| {
            !table.contains_key(wanted)
                && table
                    .keys()
                    .any(|key| nearest(key.get_ref(), COLLECTION_KEYS.iter().copied()) == Some(wanted))
        };
        declared.filter(|_| !is_unreadable && !misspelt("fields") && !misspelt("key"))
    }

    /// Returns the declaration of a collection from its name, its fields and the table of its
    /// options. `None` if its key cannot be read.
    fn options(
        &mut self,
        name: Word,
        fields: Vec<DeclaredField>,
        table: &DeTable<'_>,
    ) -> Option<DeclaredCollection> {
        let key = table.get("key").map(|value| self.words("key", value));
        let is_readable = key.as_ref().is_none_or(Option::is_some);
        let declared = DeclaredCollection {
            name,
            fields,
            key: key.flatten().map(|key| key.value).unwrap_or_default(),
            writes: table.get("writes").and_then(|value| self.writes(value)),
            attached: table.get("attached").and_then(|value| self.attached(value)),
            unique: table.get("unique").and_then(|value| self.unique(value)),
            sort_order: self.sort_order(table, false),
            views: table
                .get("view")
                .map(|value| self.views(value))
                .unwrap_or_default(),
        };
        is_readable.then_some(declared)
    }

    fn views(&mut self, value: &Value<'_>) -> Vec<DeclaredView> {
        let Some(table) = self.table("view", value) else {
            return Vec::new();
        };
        let mut views = Vec::new();
        for (key, value) in table {
            let Some(body) = self.table(key.get_ref(), value) else {
                continue;
            };
            self.known_keys(body, VIEW_KEYS, "a view");
            views.push(DeclaredView {
                name: key_word(key),
                sort_order: self.sort_order(body, true),
            });
        }
        views
    }

    fn sort_order(&mut self, table: &DeTable<'_>, view: bool) -> DeclaredSortOrder {
        let words =
            |parser: &mut Self, key: &'static str| table.get(key).and_then(|value| parser.words(key, value));
        DeclaredSortOrder {
            partition: words(self, "partition"),
            order: words(self, "order"),
            fields: if view { words(self, "fields") } else { None },
            bucket: table.get("bucket").and_then(|value| self.bucket(value)),
            collate: table.get("collate").and_then(|value| {
                self.per_field("collate", value, LOCALE, Collation::named, Collation::nearest)
            }),
            rounding: get_renamed(table, "rounding")
                .and_then(|value| self.per_field("rounding", value, WIDTH, Width::parse, |_| None)),
            nulls: table.get("nulls").and_then(|value| self.nulls(value)),
            verify: table.get("verify").and_then(|value| match value.get_ref() {
                DeValue::Boolean(verify) => Some(Placed {
                    value: *verify,
                    span: value.span(),
                }),
                _ => self.wrong("verify", value, "true or false", None),
            }),
        }
    }

    fn writes(&mut self, value: &Value<'_>) -> Option<Placed<WriteMode>> {
        const EXPECTED: &str = "\"update\", \"overwrite\" or \"append\"";
        let modes = [WriteMode::Update, WriteMode::Overwrite, WriteMode::Append];
        let text = self.text("writes", value, EXPECTED)?;
        let Some(mode) = modes.into_iter().find(|mode| mode.as_str() == text.text) else {
            let near = nearest(&text.text, modes.into_iter().map(WriteMode::as_str));
            return self.wrong("writes", value, EXPECTED, near);
        };
        Some(Placed {
            value: mode,
            span: text.span,
        })
    }

    fn attached(&mut self, value: &Value<'_>) -> Option<Placed<AttachedTable>> {
        const EXPECTED: &str = "a table with its keyspace, such as \"shop.orders\"; both follow the rules \
            for names of collections";
        let text = self.text("attached", value, EXPECTED)?;
        let Ok(table) = text.text.parse() else {
            return self.wrong("attached", value, EXPECTED, None);
        };
        Some(Placed {
            value: table,
            span: text.span,
        })
    }

    fn nulls(&mut self, value: &Value<'_>) -> Option<Placed<Nulls>> {
        const EXPECTED: &str = "\"first\", \"last\" or \"skip\"";
        let text = self.text("nulls", value, EXPECTED)?;
        let Some(nulls) = Nulls::parse(&text.text) else {
            return self.wrong(
                "nulls",
                value,
                EXPECTED,
                nearest(&text.text, ["first", "last", "skip"].into_iter()),
            );
        };
        Some(Placed {
            value: nulls,
            span: text.span,
        })
    }

    /// Parses the unique constraints of a collection. Each is a field name, or a list of field
    /// names for a constraint over several fields.
    fn unique(&mut self, value: &Value<'_>) -> Option<Placed<Vec<Vec<Word>>>> {
        const EXPECTED: &str = "a list such as [\"email\"] or [[\"tenant\", \"email\"]]";
        let DeValue::Array(entries) = value.get_ref() else {
            return self.wrong("unique", value, EXPECTED, None);
        };
        let mut sets = Vec::new();
        for entry in entries {
            let set = match entry.get_ref() {
                DeValue::String(name) => vec![Word::new(name.as_ref(), entry.span())],
                _ => self.words("unique", entry)?.value,
            };
            if set.is_empty() {
                return self.wrong("unique", entry, EXPECTED, None);
            }
            sets.push(set);
        }
        Some(Placed {
            value: sets,
            span: value.span(),
        })
    }

    fn bucket(&mut self, value: &Value<'_>) -> Option<Placed<DeclaredBucket>> {
        const EXPECTED: &str = "{ time = \"occurred_on\", width = \"1 month\" }, { rows = 20000 } or { \
            target = \"10MB\" }, each optionally with `shards` and `keep`";
        let DeValue::Table(table) = value.get_ref() else {
            return self.wrong("bucket", value, EXPECTED, None);
        };
        if !self.known_keys(table, BUCKET_KEYS, "a bucket") {
            return None;
        }
        let get = |key: &str| table.get(key);
        let (strategy, by) = match (get("time"), get("width"), get("rows"), get("target")) {
            (Some(time), Some(width), None, None) => {
                let field = self.text("time", time, "the name of a field")?.text;
                let width = self.width("width", width)?.value;
                (BucketStrategy::Time { field, width }, time)
            }
            (None, None, Some(rows), None) => (BucketStrategy::Rows(self.rows(rows)?), rows),
            (None, None, None, Some(target)) => {
                let bytes = self.target(target)?;
                (BucketStrategy::Target { bytes }, target)
            }
            _ => return self.wrong("bucket", value, EXPECTED, None),
        };
        // Parse both options before using either, so that errors in both are reported.
        let shards = get("shards").map(|value| self.shards(value));
        let keep = get("keep").map(|value| self.width("keep", value));
        Some(Placed {
            value: DeclaredBucket {
                strategy,
                strategy_span: by.span(),
                shards: shards.flatten(),
                keep: keep.flatten(),
            },
            span: value.span(),
        })
    }

    fn target(&mut self, value: &Value<'_>) -> Option<u64> {
        const SIZE: &str = "a size such as \"10MB\" or \"64MiB\"";
        let text = self.text("target", value, SIZE)?;
        let bytes = parse_size(&text.text).filter(|bytes| i64::try_from(*bytes).is_ok());
        bytes.or_else(|| self.wrong("target", value, SIZE, None))
    }

    fn shards(&mut self, value: &Value<'_>) -> Option<Placed<u8>> {
        let shards = whole(value).and_then(|shards| u8::try_from(shards).ok());
        let Some(shards) = shards.filter(|shards| (1..=MAX_SHARDS).contains(shards)) else {
            const EXPECTED: &str = "a whole number from 1 to 64";
            return self.wrong("shards", value, EXPECTED, None);
        };
        Some(Placed {
            value: shards,
            span: value.span(),
        })
    }

    fn rows(&mut self, value: &Value<'_>) -> Option<u64> {
        let rows = whole(value).filter(|rows| *rows > 0);
        rows.or_else(|| self.wrong("rows", value, "a whole number, at least 1", None))
    }

    fn width(&mut self, key: &str, value: &Value<'_>) -> Option<Placed<Width>> {
        let text = self.text(key, value, WIDTH)?;
        let Some(width) = Width::parse(&text.text) else {
            return self.wrong(key, value, WIDTH, None);
        };
        Some(Placed {
            value: width,
            span: text.span,
        })
    }

    /// Parses an option for order fields. It is either one text, for all fields to which the option
    /// can apply, or a table of texts by field name.
    fn per_field<T>(
        &mut self,
        key: &'static str,
        value: &Value<'_>,
        expected: &'static str,
        parse: fn(&str) -> Option<T>,
        nearest: fn(&str) -> Option<&'static str>,
    ) -> Option<Placed<PerField<T>>> {
        let one = |parser: &mut Self, value: &Value<'_>| {
            let text = parser.text(key, value, expected)?;
            parse(&text.text).or_else(|| parser.wrong(key, value, expected, nearest(&text.text)))
        };
        let values = match value.get_ref() {
            DeValue::Table(table) => {
                let mut values = Vec::new();
                for (field, value) in table {
                    values.push((key_word(field), one(self, value)?));
                }
                if values.is_empty() {
                    return self.wrong(key, value, expected, None);
                }
                PerField::Each(values)
            }
            _ => PerField::All(one(self, value)?),
        };
        Some(Placed {
            value: values,
            span: value.span(),
        })
    }

    fn words(&mut self, key: &str, value: &Value<'_>) -> Option<Placed<Vec<Word>>> {
        const EXPECTED: &str = "a list of field names such as [\"user_id\"]";
        let DeValue::Array(entries) = value.get_ref() else {
            return self.wrong(key, value, EXPECTED, None);
        };
        let mut words = Vec::new();
        for entry in entries {
            let DeValue::String(text) = entry.get_ref() else {
                return self.wrong(key, entry, EXPECTED, None);
            };
            words.push(Word::new(text.as_ref(), entry.span()));
        }
        Some(Placed {
            value: words,
            span: value.span(),
        })
    }

    fn text(&mut self, key: &str, value: &Value<'_>, expected: &'static str) -> Option<Word> {
        match value.get_ref() {
            DeValue::String(text) => Some(Word::new(text.as_ref(), value.span())),
            _ => self.wrong(key, value, expected, None),
        }
    }

    fn table<'v, 'i>(&mut self, key: &str, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => self.wrong(key, value, "a table", None),
        }
    }

    /// Reports that the value of `key` is not `expected`. Returns `None` for the caller to return.
    fn wrong<T>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        expected: &'static str,
        nearest: Option<&str>,
    ) -> Option<T> {
        self.context.report(&value.span(), || Problem::Value {
            key: key.to_owned(),
            expected,
            found: found(value.get_ref()),
            nearest: nearest.map(str::to_owned),
        });
        None
    }

    /// Reports the keys of `table` that are not in `known`. Returns whether all keys are known.
    fn known_keys(
        &mut self,
        table: &DeTable<'_>,
        known: &'static [&'static str],
        place: &'static str,
    ) -> bool {
        let mut all_known = true;
        // If a table has a key in the old and in the new spelling, reject the old one, so that only
        // one value counts.
        let is_old = |key: &str| {
            known
                .iter()
                .any(|new| old_spelling(new) == Some(key) && !table.contains_key(*new))
        };
        for key in table.keys().filter(|key| {
            let key = key.get_ref().as_ref();
            !known.contains(&key) && !is_old(key)
        }) {
            all_known = false;
            self.context.report(&key.span(), || Problem::UnknownKey {
                key: key.get_ref().to_string(),
                place,
                nearest: nearest(key.get_ref(), known.iter().copied()).map(str::to_owned),
                known,
            });
        }
        all_known
    }

    fn limit(&mut self, span: &Span, what: &'static str, limit: usize) {
        self.context.report(span, || Problem::Limit { what, limit });
    }
}

/// Returns the position of a part of a TOML string in the schema text. `value` is the position of
/// the string with its quotes. In a string with escapes, positions of parts are unknown, so the
/// function returns `value`.
fn inside(value: &Span, text: &str, part: &Span) -> Span {
    const QUOTES: usize = 2;
    if value.len() == text.len() + QUOTES {
        return value.start + 1 + part.start..value.start + 1 + part.end;
    }
    value.clone()
}

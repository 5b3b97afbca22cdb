//! Collection under test, together with an oracle: an independent implementation that knows the
//! expected rows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use recto::filter::{Filter, field, tuple};
use recto::{Collection, Direction, DynamicRecord, ErrorKind, Page, PageQuery, Recto, Type, Value, schema};
use recto_model::{cell, key};
use recto_plan::text::{MAX_TEXT_BYTES, Operator};
use recto_testkit::oracle::{Comparison, Condition, Oracle, Question, Row};
use serde_json::{Map, Value as Json};

use super::Kind;

/// Names of the views that the tested collection can have:
///
/// - `FULL` has all fields.
/// - `NARROW` lacks a field that no query reads.
/// - `NULLS` and `NULLS_FIRST` have order fields that may be null, with nulls last or first. Before
///   each such field, the table has a column that marks null values.
/// - `BUCKETS` has partitions that are divided into buckets.
pub(crate) const FULL: &str = "full";
pub(crate) const NARROW: &str = "narrow";
pub(crate) const NULLS: &str = "nulls";
pub(crate) const NULLS_FIRST: &str = "nulls_first";
pub(crate) const BUCKETS: &str = "buckets";
pub(crate) const VIEWS: [&str; 5] = [BUCKETS, FULL, NARROW, NULLS, NULLS_FIRST];

/// Name of an additional view that declares the collations of fields which are not in the order of
/// the tested view.
const BESIDE: &str = "beside";

/// Maximum number of changes in one batch of the tests.
const BATCH_CHANGES: usize = 100;
/// Maximum number of attempts to store rows whose outcome is unknown.
const MAX_ATTEMPTS: u32 = 5;
/// Timeout of a page. It is long, because many tests share the machine and its Cassandra.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Collection under test: a collection in a store, and the oracle with its expected rows.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) recto: Recto,
    pub(crate) collection: Collection<DynamicRecord>,
    pub(crate) definition: Arc<schema::Collection>,
    pub(crate) oracle: Oracle,
    /// View that queries read. `None` if they read the base table.
    pub(crate) view: Option<View>,
}

/// View under test. It has the sort order of the oracle's collection. The collection in the store
/// has another key, the fields of the oracle's collection, and two more fields.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<String>,
    stored: Arc<schema::Collection>,
}

/// Names of the fields that the stored collection has in addition to the fields of the oracle's
/// collection: its key ([`OWN_KEY`]), and a field that a narrow view lacks ([`LEFT_OUT`]).
const OWN_KEY: &str = "beyond_key";
const LEFT_OUT: &str = "beyond_rest";

impl Subject {
    /// Returns the subject for an existing collection. The collection must not contain rows that
    /// the test's queries would return.
    pub(crate) fn new(recto: &Recto, name: &str) -> Self {
        let definition = Arc::clone(recto.schema().collection(name).unwrap());
        let collection = recto.dynamic(name).unwrap();
        Self {
            recto: recto.clone(),
            collection,
            oracle: Oracle::new(Arc::clone(&definition)),
            definition,
            view: None,
        }
    }

    /// Returns the schema of a store whose collection has a view `name` with the sort order of the
    /// oracle's collection. If fields outside the view's order have collations, the schema has
    /// another view that declares them.
    pub(crate) fn declared(oracle: &Oracle, name: &str, kind: Kind) -> String {
        let (definition, collations) = (oracle.collection(), oracle.collations());
        let mut fields = definition.fields.clone();
        for (name, ty) in [(OWN_KEY, Type::Blob), (LEFT_OUT, Type::Text)] {
            fields.push(schema::Field {
                name: name.into(),
                ty,
            });
        }
        let collection = schema::Collection::new(schema::Declaration {
            name: definition.name.clone(),
            fields,
            key: vec![OWN_KEY.into()],
            writes: schema::WriteMode::Append,
            ..schema::Declaration::default()
        });
        let schema = schema::Schema {
            collections: vec![Arc::new(collection.unwrap())],
            ..schema::Schema::default()
        };
        let base = definition.base();
        let order: Vec<String> = base.order.iter().map(ToString::to_string).collect();
        let is_by = |field: &str| base.order.iter().any(|column| column.field == field);
        let (own, others): (Vec<_>, Vec<_>) = collations.iter().partition(|(field, _)| is_by(field));
        let fields: Vec<&String> = definition.fields.iter().map(|field| &field.name).collect();
        let more = match name {
            NARROW => format!("nulls = \"skip\"\nfields = {fields:?}\n"),
            NULLS => String::new(),
            NULLS_FIRST => "nulls = \"first\"\n".to_owned(),
            BUCKETS => format!(
                "nulls = \"skip\"\nbucket = {}\n",
                smallest_bucket(definition, kind)
            ),
            _ => "nulls = \"skip\"\n".to_owned(),
        };
        let mut text = format!(
            "{}\n[collection.{}.view.{name}]\npartition = {:?}\norder = {order:?}\n{}{more}\n",
            schema.to_toml(),
            definition.name,
            base.partition,
            collate(&own)
        );
        if !others.is_empty() {
            let order: Vec<&String> = others.iter().map(|(field, _)| *field).collect();
            text.push_str(&format!(
                "[collection.{}.view.{BESIDE}]\npartition = [\"{OWN_KEY}\"]\norder = {order:?}\n{}fields = []\n",
                definition.name,
                collate(&others)
            ));
        }
        text
    }

    /// Returns the subject that reads the view `name`. The collection must be empty, and have the
    /// name of the oracle's collection.
    pub(crate) fn of_view(recto: &Recto, oracle: Oracle, name: &'static str) -> Self {
        let definition = Arc::clone(oracle.collection());
        let stored = Arc::clone(recto.schema().collection(&definition.name).unwrap());
        Self {
            recto: recto.clone(),
            collection: recto.dynamic(&definition.name).unwrap(),
            oracle,
            view: Some(View {
                name,
                fields: definition.fields.iter().map(|field| field.name.clone()).collect(),
                stored,
            }),
            definition,
        }
    }

    pub(crate) fn record(&self, row: &Row) -> DynamicRecord {
        let stored = self.view.as_ref().map_or(&self.definition, |view| &view.stored);
        let mut record = DynamicRecord::new(Arc::clone(stored));
        for (field, value) in self.definition.fields.iter().zip(row) {
            record.set(&field.name, value.clone()).unwrap();
        }
        if self.view.is_some() {
            record.set(OWN_KEY, Some(self.own_key(row))).unwrap();
            record.set(LEFT_OUT, Some(Value::Text("rest".into()))).unwrap();
        }
        record
    }

    /// Returns the key of a row for the collection in the store. The keys sort like the partitions
    /// of the oracle. Rows that are equal in the view's order therefore have the same order in the
    /// view as in the oracle.
    fn own_key(&self, row: &Row) -> Value {
        let mut bytes = Vec::new();
        for name in self.definition.base().partition {
            let (index, field) = self.definition.field(name).unwrap();
            let (mut cell, mut canonical) = (Vec::new(), Vec::new());
            cell::encode(&field.ty, row[index].as_ref().unwrap(), &mut cell).unwrap();
            cell::canonical_key(&field.ty, &cell, &mut canonical).unwrap();
            key::encode(&field.ty, Direction::Ascending, &canonical, &mut bytes).unwrap();
        }
        let mut cells = Vec::new();
        for name in &self.definition.key {
            let (index, field) = self.definition.field(name).unwrap();
            let mut cell = Vec::new();
            cell::encode(&field.ty, row[index].as_ref().unwrap(), &mut cell).unwrap();
            cells.push(Vec::new());
            cell::canonical_key(&field.ty, &cell, cells.last_mut().unwrap()).unwrap();
        }
        for seed in 0..2_u8 {
            let mut hasher = DefaultHasher::new();
            (seed, &cells).hash(&mut hasher);
            bytes.extend(hasher.finish().to_be_bytes());
        }
        Value::Blob(bytes)
    }

    /// Converts a JSON object to a row: one value for each field of the collection.
    pub(crate) fn row(&self, json: &Json) -> Row {
        let record =
            DynamicRecord::from_json(Arc::clone(&self.definition), json.as_object().unwrap()).unwrap();
        record.values().to_vec()
    }

    /// Writes rows to the store and to the oracle.
    pub(crate) async fn put_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        let rows: Vec<Row> = rows.into_iter().collect();
        for chunk in rows.chunks(BATCH_CHANGES) {
            self.send(chunk).await;
            for row in chunk {
                self.oracle.put(row.clone());
            }
        }
    }

    /// Writes rows to the store. If the outcome of a write is unknown, as can happen on a busy
    /// machine, writes the rows again.
    async fn send(&self, rows: &[Row]) {
        for attempt in 1.. {
            let mut batch = self.recto.batch();
            batch.each_for_itself();
            for row in rows {
                batch.put(&self.collection, &self.record(row)).unwrap();
            }
            match batch.commit().await {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown && attempt < MAX_ATTEMPTS => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Writes rows that are given as JSON to the store and to the oracle.
    pub(crate) async fn put(&mut self, rows: impl IntoIterator<Item = Json>) {
        let rows: Vec<Row> = rows.into_iter().map(|row| self.row(&row)).collect();
        self.put_rows(rows).await;
    }

    /// Deletes the row with the key of `row` from the store and from the oracle.
    pub(crate) async fn delete(&mut self, row: &Row) {
        let mut key = self.key(row);
        if self.view.is_some() {
            key = vec![self.own_key(row)];
        }
        self.collection.delete(key.as_slice()).await.unwrap();
        self.oracle.delete(row);
    }

    /// Returns the values of a row's key, in the order of the key fields.
    pub(crate) fn key(&self, row: &Row) -> Vec<Value> {
        let names = self.definition.key.iter();
        names
            .map(|name| row[self.definition.field(name).unwrap().0].clone().unwrap())
            .collect()
    }

    /// Returns the query with the given filter text and sort text.
    pub(crate) fn text(&self, filter: &str, sort: &str) -> PageQuery<DynamicRecord> {
        self.asked().filter(filter).order_by(sort)
    }

    /// Returns a query without a filter, of the view if the subject has one.
    fn asked(&self) -> PageQuery<DynamicRecord> {
        let query = self.collection.query().timeout(PAGE_TIMEOUT);
        match &self.view {
            Some(view) => query.view(view.name).looking_at(&view.fields),
            None => query,
        }
    }

    /// Converts a question of the oracle to a query of the store. The filter is text, or is built
    /// with the Rust API if `built` is true or the text would be too long.
    pub(crate) fn query(&self, question: &Question, built: bool) -> PageQuery<DynamicRecord> {
        let filter = question.filter_text(&self.definition);
        let mut query = self.asked().order_by(question.sort_text(&self.definition));
        query = if built || filter.len() > MAX_TEXT_BYTES {
            let filters = question.conditions.iter().map(|condition| self.filter(condition));
            query.matching(filters.fold(Filter::default(), Filter::and))
        } else {
            query.filter(filter)
        };
        if question.allow_filter_scan {
            query.allow_filter_scan()
        } else {
            query
        }
    }

    fn filter(&self, condition: &Condition) -> Filter {
        let name = |index: &usize| self.definition.fields[*index].name.clone();
        match condition {
            Condition::Compare {
                field: index,
                comparison,
                value,
            } => {
                let (field, value) = (field(name(index)), value.clone());
                match comparison {
                    Comparison::Equal => field.equal_to(value),
                    Comparison::Less => field.less_than(value),
                    Comparison::LessOrEqual => field.at_most(value),
                    Comparison::Greater => field.greater_than(value),
                    Comparison::GreaterOrEqual => field.at_least(value),
                }
            }
            Condition::AnyOf { field: index, values } => field(name(index)).any_of(values.iter().cloned()),
            Condition::StartsWith { field: index, prefix } => field(name(index)).starts_with(prefix),
            Condition::Tuple {
                fields,
                comparison,
                values,
            } => tuple(
                fields.iter().map(name),
                operator(*comparison),
                values.iter().cloned(),
            ),
        }
    }

    /// Asserts that the rows `found` equal the rows `expected`, in the same order.
    pub(crate) fn assert_rows(&self, found: &[Row], expected: &[Row], context: &str) {
        let is_same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(found, expected)| self.oracle.same_row(found, expected));
        assert!(
            is_same,
            "{context}\n  found:\n{}\n  expected:\n{}",
            self.show(found),
            self.show(expected)
        );
    }

    pub(crate) fn show(&self, rows: &[Row]) -> String {
        let lines: Vec<String> = rows
            .iter()
            .map(|row| format!("    {}", self.oracle.show(row)))
            .collect();
        lines.join("\n")
    }
}

/// Returns the line of a view's declaration that sets collations, given as pairs of field and
/// locale.
fn collate(fields: &[(&String, &String)]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let each: Vec<String> = fields
        .iter()
        .map(|(field, locale)| format!("{field} = {locale:?}"))
        .collect();
    format!("collate = {{ {} }}\n", each.join(", "))
}

/// Returns a bucket option that divides partitions into the smallest possible buckets: by time if
/// the first order field is an ascending time, otherwise by number of rows. Cassandra does not
/// count rows, so on Cassandra they are by size.
fn smallest_bucket(definition: &schema::Collection, kind: Kind) -> String {
    let base = definition.base();
    let by_time = base.order.first().filter(|column| {
        let field = definition.field(&column.field);
        let is_time =
            field.is_some_and(|(_, field)| matches!(field.ty, Type::Timestamp | Type::TimeUuid | Type::Date));
        is_time && column.direction == Direction::Ascending
    });
    match (by_time, kind) {
        (Some(column), _) => format!("{{ time = \"{}\", width = \"1 day\" }}", column.field),
        (None, Kind::Embedded) => "{ rows = 3 }".to_owned(),
        (None, Kind::Cassandra) => "{ target = \"64KiB\" }".to_owned(),
    }
}

fn operator(comparison: Comparison) -> Operator {
    match comparison {
        Comparison::Equal => Operator::Equal,
        Comparison::Less => Operator::Less,
        Comparison::LessOrEqual => Operator::LessOrEqual,
        Comparison::Greater => Operator::Greater,
        Comparison::GreaterOrEqual => Operator::GreaterOrEqual,
    }
}

/// Returns the rows of a page, without the fields that only the collection in the store has.
pub(crate) fn rows(page: &Page<DynamicRecord>) -> Vec<Row> {
    page.items().iter().map(row_of).collect()
}

/// Converts a record to a row of the oracle. Leaves out the fields [`OWN_KEY`] and [`LEFT_OUT`],
/// which only the stored collection has.
fn row_of(record: &DynamicRecord) -> Row {
    let fields = record.collection().fields.iter().zip(record.values());
    let own = fields.filter(|(field, _)| ![OWN_KEY, LEFT_OUT].contains(&field.name.as_str()));
    own.map(|(_, value)| value.clone()).collect()
}

/// Returns the values of some fields of a page's rows as text, for example `B01 D02, B01 D03`.
pub(crate) fn words(page: &Page<DynamicRecord>, fields: &[&str]) -> String {
    words_of(page.items(), fields)
}

/// Returns the values of some fields of records as text, for example `B01 D02, B01 D03`.
pub(crate) fn words_of(records: &[DynamicRecord], fields: &[&str]) -> String {
    let word = |json: &Map<String, Json>, field: &str| match json.get(field) {
        None => "-".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let row = |record: &DynamicRecord| {
        let json = record.to_json();
        fields
            .iter()
            .map(|field| word(&json, field))
            .collect::<Vec<_>>()
            .join(" ")
    };
    records.iter().map(row).collect::<Vec<_>>().join(", ")
}

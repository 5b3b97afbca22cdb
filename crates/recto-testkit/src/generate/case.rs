//! Test case: all inputs of a test of pages, as plain data that can be generated, simplified,
//! printed and repeated.

use std::sync::Arc;

use recto_model::schema::{Collection, Schema};
use recto_model::table::Direction;
use recto_model::{Value, json};

use super::{Data, Rng, from_values};
use crate::oracle::{Collations, Comparison, Condition, Oracle, Question, Row};

/// Maximum number of pages that a random test case requests.
const MAX_MOVES: usize = 6;
/// Page sizes from which the generator chooses, in rows.
const SIZES: [u32; 8] = [1, 1, 2, 3, 4, 5, 8, 100];

/// Test case: a collection, its rows, a query, and the pages to request.
#[derive(Debug, Clone)]
pub struct Case {
    /// Definition of the collection to query.
    pub collection: Arc<Collection>,
    /// Locale of each field that has a collation (language-specific order), by name.
    pub collations: Collations,
    /// Rows of the collection, all with different keys.
    pub rows: Vec<Row>,
    /// Filter and sort order of the query.
    pub question: Question,
    /// True if the test builds the filter with the Rust API; false if it passes the filter as text.
    pub built: bool,
    /// Pages to request, and the writes before each.
    pub moves: Vec<Move>,
}

/// Start of a page, relative to the row that [`Move::row`] selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // Each variant has the name of its place.
pub enum Place {
    #[default]
    After,
    Before,
    Around,
    From,
}

/// Request for one page. Tests of a traversal use the sizes, edges, budgets and writes. Tests of a
/// single page at a row also use `place`, `row` and `from`.
#[derive(Debug, Clone, Default)]
pub struct Move {
    /// Maximum number of rows of the page.
    pub size: u32,
    /// Start of the page: after, before, around or at a row, or at given values.
    pub place: Place,
    /// Index of the row at which the page starts, modulo the number of rows.
    pub row: usize,
    /// For [`Place::From`], the values of the first sort fields at which the page starts.
    pub from: Vec<Value>,
    /// True if a traversal starts with the last page of the query, and goes backward.
    pub backwards: bool,
    /// True to continue from the cursor of a row, not from the cursor of the page.
    pub by_row: bool,
    /// True to request cursors for the start and the end of the page.
    pub both_edges: bool,
    /// Maximum number of rows to examine for the page; 0: no limit is set.
    pub scan_budget: u64,
    /// Maximum size of the rows of the page, in bytes; 0: no limit is set.
    pub byte_budget: u64,
    /// Writes to execute before the page is requested.
    pub writes: Vec<Change>,
}

/// Write between two requests for pages.
#[derive(Debug, Clone)]
pub enum Change {
    /// Stores a row, unless a row with its key exists.
    Put(Row),
    /// Deletes the row with this index, modulo the number of rows.
    Delete(usize),
}

/// Returns one to six random requests for pages of the query `question` on the rows of `oracle`.
pub fn moves(rng: &mut Rng, data: &Data, oracle: &Oracle, question: &Question) -> Vec<Move> {
    let sequence = oracle.ask(question);
    let places = [Place::After, Place::Before, Place::Around, Place::From];
    let one = |rng: &mut Rng| Move {
        size: SIZES[rng.usize(0..SIZES.len())],
        place: places[rng.usize(0..places.len())],
        row: rng.usize(0..1_000),
        from: from_values(rng, data, &sequence),
        backwards: rng.bool(),
        by_row: rng.bool(),
        both_edges: rng.bool(),
        scan_budget: rng.u64(1..6),
        byte_budget: [1, 300, 1 << 20][rng.usize(0..3)],
        writes: (0..rng.usize(0..4))
            .map(|_| {
                if rng.bool() {
                    Change::Put(data.row(rng))
                } else {
                    Change::Delete(rng.usize(0..1_000))
                }
            })
            .collect(),
    };
    (0..rng.usize(1..=MAX_MOVES)).map(|_| one(rng)).collect()
}

/// Methods with which a person or a printed test builds a test case. They panic if a text is
/// invalid.
impl Case {
    /// Creates a test case for the only collection of a schema text, without rows and with a query
    /// without conditions.
    ///
    /// # Panics
    /// If the text is invalid or declares more than one collection.
    pub fn declared(schema: &str) -> Self {
        let schema = Schema::parse(schema).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(schema.collections.len(), 1, "a case is of one collection");
        Self {
            collection: Arc::clone(&schema.collections[0]),
            collations: Collations::new(),
            rows: Vec::new(),
            question: Question::default(),
            built: false,
            moves: Vec::new(),
        }
    }

    /// Gives a text field a collation: the language-specific order of a locale.
    #[must_use]
    pub fn collate(mut self, field: &str, locale: &str) -> Self {
        self.collations.insert(field.to_owned(), locale.to_owned());
        self
    }

    /// Adds a row, written as the JSON of a record.
    #[must_use]
    pub fn row(mut self, json: &str) -> Self {
        self.rows.push(row_of(&self.collection, json));
        self
    }

    /// Adds a comparison to the filter, such as `compare("c0", ">=", "5")`.
    #[must_use]
    pub fn compare(self, field: &str, comparison: &str, value: &str) -> Self {
        let value = self.value(field, value);
        let condition = Condition::Compare {
            field: self.field(field),
            comparison: comparison_of(comparison),
            value,
        };
        self.condition(condition)
    }

    /// Adds the condition to the filter that a field has one of these values.
    #[must_use]
    pub fn any_of(self, field: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| self.value(field, value)).collect();
        let condition = Condition::AnyOf {
            field: self.field(field),
            values,
        };
        self.condition(condition)
    }

    /// Adds the condition to the filter that a text field starts with a prefix.
    #[must_use]
    pub fn starts_with(self, field: &str, prefix: &str) -> Self {
        let condition = Condition::StartsWith {
            field: self.field(field),
            prefix: prefix.to_owned(),
        };
        self.condition(condition)
    }

    /// Adds a comparison of several fields with as many values to the filter. As in a tuple, the
    /// first difference decides.
    #[must_use]
    pub fn tuple(self, fields: &[&str], comparison: &str, values: &[&str]) -> Self {
        let both = fields.iter().zip(values);
        let condition = Condition::Tuple {
            fields: fields.iter().map(|field| self.field(field)).collect(),
            comparison: comparison_of(comparison),
            values: both.map(|(field, value)| self.value(field, value)).collect(),
        };
        self.condition(condition)
    }

    /// Sets the sort order of the query. A field with the prefix `-` is descending.
    #[must_use]
    pub fn sort(mut self, terms: &[&str]) -> Self {
        let terms = terms.iter().map(|term| match term.strip_prefix('-') {
            Some(name) => (self.field(name), Direction::Descending),
            None => (self.field(term), Direction::Ascending),
        });
        self.question.sort = terms.collect();
        self
    }

    /// Allows the query to scan and filter rows that no sort order can skip.
    #[must_use]
    pub fn allow_filter_scan(mut self) -> Self {
        self.question.allow_filter_scan = true;
        self
    }

    /// Makes the test build the filter with the Rust API, not as text.
    #[must_use]
    pub fn built(mut self) -> Self {
        self.built = true;
        self
    }

    /// Adds a request for a page of the query.
    #[must_use]
    pub fn page(mut self, page: Move) -> Self {
        self.moves.push(page);
        self
    }

    /// Sets the values of the first sort fields at which the last added page starts. Set the query
    /// before.
    #[must_use]
    pub fn from(mut self, values: &[&str]) -> Self {
        let order = self.order();
        let values = order.iter().zip(values).map(|((field, _), value)| {
            json::from_text(&self.collection.fields[*field].ty, value)
                .unwrap_or_else(|error| panic!("{value}: {error}"))
        });
        let values = values.collect();
        self.last_move().from = values;
        self
    }

    /// Adds a write before the last added page: stores this row, written as the JSON of a record.
    #[must_use]
    pub fn put(mut self, json: &str) -> Self {
        let row = row_of(&self.collection, json);
        self.last_move().writes.push(Change::Put(row));
        self
    }

    /// Adds a write before the last added page: deletes the row with this index.
    #[must_use]
    pub fn delete(mut self, index: usize) -> Self {
        self.last_move().writes.push(Change::Delete(index));
        self
    }

    /// Returns the indexes (from 0) of the fields by which the result of the query is sorted, with
    /// their directions.
    pub fn order(&self) -> Vec<(usize, Direction)> {
        self.oracle().ask(&self.question).order().to_vec()
    }

    /// Returns a reference implementation of the collection, without rows.
    pub fn oracle(&self) -> Oracle {
        Oracle::collated(Arc::clone(&self.collection), self.collations.clone())
    }

    fn last_move(&mut self) -> &mut Move {
        self.moves.last_mut().expect("a page stands before")
    }

    fn condition(mut self, condition: Condition) -> Self {
        self.question.conditions.push(condition);
        self
    }

    fn field(&self, name: &str) -> usize {
        self.collection
            .field(name)
            .unwrap_or_else(|| panic!("there is no field {name}"))
            .0
    }

    fn value(&self, field: &str, text: &str) -> Value {
        let ty = &self.collection.fields[self.field(field)].ty;
        json::from_text(ty, text).unwrap_or_else(|error| panic!("{field}: {error}"))
    }
}

fn comparison_of(text: &str) -> Comparison {
    let all = [
        Comparison::Equal,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    all.into_iter()
        .find(|comparison| comparison.as_str() == text)
        .unwrap_or_else(|| panic!("{text} is no comparison"))
}

fn row_of(collection: &Collection, text: &str) -> Row {
    let record: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let fields = collection.fields.iter();
    fields
        .map(|field| {
            let value = record.get(&field.name)?;
            json::from_json(&field.ty, value)
                .unwrap_or_else(|error| panic!("{text}: {}: {error}", field.name))
        })
        .collect()
}

//! Case: all inputs of a check of pages, as plain data that can be generated, simplified, printed and run again.

use std::sync::Arc;

use recto_model::schema::{Collection, Schema};
use recto_model::table::Direction;
use recto_model::{Value, json};

use super::{Data, Rng, from_values};
use crate::oracle::{Collations, Comparison, Condition, Oracle, Question, Row};

/// Maximum number of pages that a generated case requests.
const MAX_MOVES: usize = 6;
/// Page sizes from which the generator chooses, in rows.
const SIZES: [u32; 8] = [1, 1, 2, 3, 4, 5, 8, 100];

/// Input of one test: a collection, its rows, a question, and the pages to request.
#[derive(Debug, Clone)]
pub struct Case {
    /// Collection to query.
    pub collection: Arc<Collection>,
    /// Locale of each field that has a collation.
    pub collations: Collations,
    /// Rows of the collection, with different keys.
    pub rows: Vec<Row>,
    /// Filter and sort of the query.
    pub question: Question,
    /// True if the test builds the filter with the Rust API. If false, the test passes the filter
    /// as text.
    pub built: bool,
    /// Pages to request: their starts, their sizes, and the writes before them.
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

/// Request for one page. A check of a traversal uses the sizes, edges, budgets and writes. A check
/// of a single page next to a row also uses the fields `place`, `row` and `from`.
#[derive(Debug, Clone, Default)]
pub struct Move {
    /// Number of rows of the page.
    pub size: u32,
    /// Side of the row on which the page starts, or a start from given values.
    pub place: Place,
    /// Row next to which the page starts: an index, modulo the number of rows.
    pub row: usize,
    /// Values of the first order fields from which the page starts, for [`Place::From`].
    pub from: Vec<Value>,
    /// True if the first page of a traversal is the last page of the query.
    pub backwards: bool,
    /// True to continue by the cursor of a row instead of the cursor of the page.
    pub by_row: bool,
    /// True to request the cursors of both edges of the page.
    pub both_edges: bool,
    /// Maximum number of rows to examine for the page.
    pub scan_budget: u64,
    /// Maximum number of bytes of the rows of the page.
    pub byte_budget: u64,
    /// Writes to execute before the page is read.
    pub writes: Vec<Change>,
}

/// Write between two pages.
#[derive(Debug, Clone)]
pub enum Change {
    /// Stores a row, if no row has its key.
    Put(Row),
    /// Deletes the row with this index, modulo the number of rows.
    Delete(usize),
}

/// Returns one to six random pages to request for a question on the rows of `oracle`.
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

/// Methods to build a case that a person writes, or that a failure printed. They panic if a text is invalid.
impl Case {
    /// Returns a case of a collection without rows. The schema text declares only this collection. The question has no
    /// conditions.
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

    /// Adds a collation to a field.
    #[must_use]
    pub fn collate(mut self, field: &str, locale: &str) -> Self {
        self.collations.insert(field.to_owned(), locale.to_owned());
        self
    }

    /// Adds a row, given as the JSON of a record.
    #[must_use]
    pub fn row(mut self, json: &str) -> Self {
        self.rows.push(row_of(&self.collection, json));
        self
    }

    /// Adds a comparison of a field with a value: `compare("c0", ">=", "5")`.
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

    /// Adds the condition that a field equals one of these values.
    #[must_use]
    pub fn any_of(self, field: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| self.value(field, value)).collect();
        let condition = Condition::AnyOf {
            field: self.field(field),
            values,
        };
        self.condition(condition)
    }

    /// Adds the condition that a text field starts with a prefix.
    #[must_use]
    pub fn starts_with(self, field: &str, prefix: &str) -> Self {
        let condition = Condition::StartsWith {
            field: self.field(field),
            prefix: prefix.to_owned(),
        };
        self.condition(condition)
    }

    /// Adds a comparison of several fields with as many values, as a tuple: the first difference
    /// decides.
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

    /// Sets the sort by these fields. A field with the prefix `-` is descending.
    #[must_use]
    pub fn sort(mut self, terms: &[&str]) -> Self {
        let terms = terms.iter().map(|term| match term.strip_prefix('-') {
            Some(name) => (self.field(name), Direction::Descending),
            None => (self.field(term), Direction::Ascending),
        });
        self.question.sort = terms.collect();
        self
    }

    /// Allows a filter scan.
    #[must_use]
    pub fn allow_filter_scan(mut self) -> Self {
        self.question.allow_filter_scan = true;
        self
    }

    /// Makes the test build the filter with the Rust API instead of passing it as text.
    #[must_use]
    pub fn built(mut self) -> Self {
        self.built = true;
        self
    }

    /// Adds a request for a page.
    #[must_use]
    pub fn page(mut self, page: Move) -> Self {
        self.moves.push(page);
        self
    }

    /// Makes the last added page start from these values of the question's order. Set the question
    /// first.
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

    /// Adds a write before the last added page: it stores this row, given as the JSON of a record.
    #[must_use]
    pub fn put(mut self, json: &str) -> Self {
        let row = row_of(&self.collection, json);
        self.last_move().writes.push(Change::Put(row));
        self
    }

    /// Adds a write before the last added page: it deletes the row with this index.
    #[must_use]
    pub fn delete(mut self, index: usize) -> Self {
        self.last_move().writes.push(Change::Delete(index));
        self
    }

    /// Returns the fields by which the answer to the question is ordered, with their directions.
    pub fn order(&self) -> Vec<(usize, Direction)> {
        self.oracle().ask(&self.question).order().to_vec()
    }

    /// Returns an oracle for the collection of the case, without rows.
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

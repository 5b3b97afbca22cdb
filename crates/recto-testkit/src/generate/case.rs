//! A case: everything that a check of pages depends on, as plain data that can be drawn, made
//! simpler, printed and run again.

use std::sync::Arc;

use recto_model::schema::{Collection, Schema};
use recto_model::table::Direction;
use recto_model::{Value, json};

use super::{Data, Rng, from_values};
use crate::oracle::{Collations, Comparison, Condition, Oracle, Question, Row};

/// The most moves of a drawn case.
const MAX_MOVES: usize = 6;
/// Page sizes that are drawn.
const SIZES: [u32; 8] = [1, 1, 2, 3, 4, 5, 8, 100];

/// A collection, its rows, a question, and the pages to ask for.
#[derive(Debug, Clone)]
pub struct Case {
    /// The collection.
    pub collection: Arc<Collection>,
    /// The fields that sort as people do.
    pub collations: Collations,
    /// Its rows, no two of one key.
    pub rows: Vec<Row>,
    /// What is asked.
    pub question: Question,
    /// Whether the filter is built in Rust, or text.
    pub built: bool,
    /// Where pages start, how large they are, and what is written in between.
    pub moves: Vec<Move>,
}

/// Where a page starts, beside the row of its move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each variant is the place of its name
pub enum Place {
    #[default]
    After,
    Before,
    Around,
    From,
}

/// One page, as a check understands it: a traversal takes sizes, edges, budgets and writes, a page
/// beside a row the place.
#[derive(Debug, Clone, Default)]
pub struct Move {
    /// Rows of the page.
    pub size: u32,
    /// Where the page starts.
    pub place: Place,
    /// Which row it starts beside: an index into the rows there are, counted round.
    pub row: usize,
    /// The values that a page starts from.
    pub from: Vec<Value>,
    /// Whether the first page of a traversal is the last of the query.
    pub backwards: bool,
    /// Whether to go on by the cursor of a row and not by the page's.
    pub by_row: bool,
    /// Whether to ask for both edges.
    pub both_edges: bool,
    /// The most rows to look at.
    pub scan_budget: u64,
    /// The most bytes of rows.
    pub byte_budget: u64,
    /// What is written before the page is read.
    pub writes: Vec<Change>,
}

/// Something written.
#[derive(Debug, Clone)]
pub enum Change {
    /// A row is stored, if its key is free.
    Put(Row),
    /// The row of this index, counted round, is deleted.
    Delete(usize),
}

/// Moves for a question on the rows of `oracle`, at least one.
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

/// Written down by a person, or pasted from what a failure printed. Text that does not fit panics.
impl Case {
    /// A collection without rows, from schema text that declares it alone; everything is asked.
    ///
    /// # Panics
    /// If the text declares anything else.
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

    /// With a field that sorts as people do.
    #[must_use]
    pub fn collate(mut self, field: &str, locale: &str) -> Self {
        self.collations.insert(field.to_owned(), locale.to_owned());
        self
    }

    /// With this row, record JSON.
    #[must_use]
    pub fn row(mut self, json: &str) -> Self {
        self.rows.push(row_of(&self.collection, json));
        self
    }

    /// With a comparison: `("c0", ">=", "5")`.
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

    /// With a list of values.
    #[must_use]
    pub fn any_of(self, field: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| self.value(field, value)).collect();
        let condition = Condition::AnyOf {
            field: self.field(field),
            values,
        };
        self.condition(condition)
    }

    /// With a text prefix.
    #[must_use]
    pub fn starts_with(self, field: &str, prefix: &str) -> Self {
        let condition = Condition::StartsWith {
            field: self.field(field),
            prefix: prefix.to_owned(),
        };
        self.condition(condition)
    }

    /// With a comparison of tuples.
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

    /// Sorted by these fields, `-` before a descending one.
    #[must_use]
    pub fn sort(mut self, terms: &[&str]) -> Self {
        let terms = terms.iter().map(|term| match term.strip_prefix('-') {
            Some(name) => (self.field(name), Direction::Descending),
            None => (self.field(term), Direction::Ascending),
        });
        self.question.sort = terms.collect();
        self
    }

    /// Conditions may be checked row by row.
    #[must_use]
    pub fn allow_filter_scan(mut self) -> Self {
        self.question.allow_filter_scan = true;
        self
    }

    /// The filter is built in Rust.
    #[must_use]
    pub fn built(mut self) -> Self {
        self.built = true;
        self
    }

    /// With a page more.
    #[must_use]
    pub fn page(mut self, page: Move) -> Self {
        self.moves.push(page);
        self
    }

    /// The page starts from these values of the question's order, which has been said by now.
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

    /// Before the page, this row is stored.
    #[must_use]
    pub fn put(mut self, json: &str) -> Self {
        let row = row_of(&self.collection, json);
        self.last_move().writes.push(Change::Put(row));
        self
    }

    /// Before the page, the row of this index is deleted.
    #[must_use]
    pub fn delete(mut self, index: usize) -> Self {
        self.last_move().writes.push(Change::Delete(index));
        self
    }

    /// The fields that the question's rows are ordered by, with directions.
    pub fn order(&self) -> Vec<(usize, Direction)> {
        self.oracle().ask(&self.question).order().to_vec()
    }

    /// An oracle without rows.
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

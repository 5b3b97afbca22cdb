//! Drawing cases, and what is done with one that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use recto::{Environment, OpenOptions, Recto, Type, schema};
use recto_model::collation::IS_BUILT_IN;
use recto_store::memory::MemoryStore;
use recto_testkit::generate::{self, Case, Data, Rng};
use recto_testkit::oracle::{Collations, Condition, Oracle};

use super::asked::Failure;
use super::guarantee::Guarantee;
use super::planted::Planted;
use crate::common::stores::parse;
use crate::common::subject::{NULLS, NULLS_FIRST, VIEWS};
use crate::common::{Fresh, Kind, Subject};

/// The variable that holds the seed to draw with.
const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
/// The variable that holds by how much to multiply what is drawn.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// How long a failure is made simpler: one that is planted takes 30 s, and its test asserts what is left, so that a machine may be as busy as it likes.
const MAX_SHRINKING: Duration = Duration::from_secs(300);
/// How often a case is tried on Cassandra while it is made simpler: each takes a keyspace of the node
/// that all tests share.
const MAX_CASSANDRA_TRIES: usize = 100;
/// Collections made in one store.
const COLLECTIONS_PER_STORE: u64 = 60;

/// How much one test draws.
struct Amount {
    collections: u64,
    rows: usize,
    questions: u64,
}

const EMBEDDED: Amount = Amount {
    collections: 75,
    rows: 80,
    questions: 12,
};
/// Where pages are of views.
const VIEWED: Amount = Amount {
    collections: 15,
    rows: 40,
    questions: 10,
};
const CASSANDRA: Amount = Amount {
    collections: 4,
    rows: 40,
    questions: 40,
};

/// Where cases are put to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ground {
    pub(crate) kind: Kind,
    /// What is wrong there, to be found.
    pub(crate) defect: Option<Defect>,
    /// Whether pages are of views that the test keeps; and of a store in memory.
    pub(crate) views: bool,
    pub(crate) in_memory: bool,
}

/// A defect that is there to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Of the store's reads.
    Reads,
    /// The store is told nothing of the collations: they are ignored.
    ForgetsCollations,
}

impl Ground {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            defect: None,
            views: false,
            in_memory: false,
        }
    }

    /// As Rust; without what is there to be found.
    fn expression(self) -> String {
        let new = format!("Ground::new(Kind::{:?})", self.kind);
        match (self.views, self.in_memory) {
            (false, _) => new,
            (true, false) => format!("Ground {{ views: true, ..{new} }}"),
            (true, true) => format!("Ground {{ views: true, in_memory: true, ..{new} }}"),
        }
    }

    /// The view that a collection's pages are of, by its number.
    fn view(self, number: u64) -> Option<&'static str> {
        self.views.then(|| VIEWS[(number % VIEWS.len() as u64) as usize])
    }
}

impl Ground {
    async fn open(self) -> Recto {
        if self.in_memory {
            let store = Arc::new(MemoryStore::new(Environment::system()));
            return Recto::with_store(store, OpenOptions::new()).await.unwrap();
        }
        let recto = Fresh::new(self.kind).open().await;
        if self.defect != Some(Defect::Reads) {
            return recto;
        }
        let store = Arc::new(Planted::new(Arc::clone(recto.store())));
        Recto::with_store(store, OpenOptions::new().create())
            .await
            .unwrap()
    }

    /// A store of its own with the collection and rows of a case.
    async fn subject(self, case: &Case) -> Subject {
        let number = case.collection.name.rsplit('_').next();
        let number = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        let recto = self.open().await;
        let collections = [(number, case.oracle())];
        let mut subject = self.subjects(recto, &collections).await.remove(0);
        subject.put_rows(case.rows.iter().cloned()).await;
        subject
    }

    /// The collections of these numbers, made in a store.
    async fn subjects(self, recto: Recto, collections: &[(u64, Oracle)]) -> Vec<Subject> {
        if !self.views {
            let collections = || collections.iter().map(|(_, oracle)| oracle.collection());
            let schema = schema_of(collections().map(Arc::clone).collect());
            recto.apply(&schema).await.unwrap();
            return collections().map(|one| Subject::new(&recto, &one.name)).collect();
        }
        let kind = |number: u64| self.view(number).unwrap();
        let declared = collections.iter();
        let declared: String = declared
            .map(|(number, oracle)| Subject::declared(&self.said(oracle), kind(*number), self.kind))
            .collect();
        recto.apply(&parse(&declared)).await.unwrap();
        let subjects = collections.iter();
        let subjects =
            subjects.map(|(number, oracle)| Subject::of_view(&recto, oracle.clone(), kind(*number)));
        subjects.collect()
    }

    /// What the store is told of an oracle's collection.
    fn said(self, oracle: &Oracle) -> Oracle {
        if self.defect == Some(Defect::ForgetsCollations) {
            return Oracle::new(Arc::clone(oracle.collection()));
        }
        oracle.clone()
    }

    /// Checks a case in a store of its own.
    pub(crate) async fn check(self, guarantee: Guarantee, case: &Case) -> Result<usize, Failure> {
        guarantee.check(&mut self.subject(case).await, case).await
    }
}

fn schema_of(collections: Vec<Arc<schema::Collection>>) -> schema::Schema {
    schema::Schema {
        collections,
        ..schema::Schema::default()
    }
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    from_environment(SEED_VARIABLE).unwrap_or_else(now)
}

/// Asserts that a guarantee holds of everything drawn.
pub(crate) async fn holds(guarantee: Guarantee, ground: Ground) {
    let kind = ground.kind;
    let seed = seed();
    println!("{SEED_VARIABLE}={seed}");
    let scale = from_environment(SCALE_VARIABLE).unwrap_or(1);
    let (collections, questions, rows) = match (kind, ground.views) {
        (Kind::Embedded, false) => (EMBEDDED.collections * scale, EMBEDDED.questions, EMBEDDED.rows),
        (Kind::Embedded, true) => (VIEWED.collections * scale, VIEWED.questions, VIEWED.rows),
        (Kind::Cassandra, false) => (CASSANDRA.collections, CASSANDRA.questions * scale, CASSANDRA.rows),
        (Kind::Cassandra, true) => (VIEWS.len() as u64, VIEWED.questions * scale, CASSANDRA.rows),
    };
    let mut tally = Tally::default();
    for first in (0..collections).step_by(COLLECTIONS_PER_STORE as usize) {
        let last = collections.min(first + COLLECTIONS_PER_STORE);
        for (mut subject, data, mut rng) in draw(ground, first..last, seed, rows).await {
            for _ in 0..questions {
                let case = draw_case(&subject, &data, &mut rng);
                let answer = subject.oracle.ask(&case.question).rows().len();
                match guarantee.check(&mut subject, &case).await {
                    Ok(pages) => tally.add(&case, pages, answer),
                    Err(failure) => report(ground, guarantee, seed, case, failure).await,
                }
            }
        }
    }
    println!("{kind:?}: {guarantee}: {tally}");
    let is_large = kind == Kind::Embedded && !ground.views;
    assert!(!is_large || tally.has_every_kind(), "{tally}");
    let is_collated = kind == Kind::Embedded && ground.views && IS_BUILT_IN;
    assert!(!is_collated || tally.kinds.contains_key(COLLATED), "{tally}");
}

/// A store that holds some of the drawn collections, with the data of each. Every collection is drawn
/// from a seed of its own.
async fn draw(
    ground: Ground,
    numbers: std::ops::Range<u64>,
    seed: u64,
    rows: usize,
) -> Vec<(Subject, Data, Rng)> {
    let mut drawn = Vec::new();
    for number in numbers {
        let mut rng = generate::rng(seed.wrapping_add(number));
        let oracle = draw_collection(ground, number, &mut rng);
        drawn.push((number, oracle, rng));
    }
    let recto = ground.open().await;
    let collections = drawn.iter().map(|(number, oracle, _)| (*number, oracle.clone()));
    let made = ground.subjects(recto, &collections.collect::<Vec<_>>()).await;
    let mut subjects = Vec::new();
    for ((_, oracle, mut rng), mut subject) in drawn.into_iter().zip(made) {
        let count = rng.usize(0..=rows);
        let data = generate::data(&mut rng, &oracle, count);
        subject.put_rows(data.oracle.rows().iter().cloned()).await;
        subjects.push((subject, data, rng));
    }
    subjects
}

/// A collection; of those that are asked by a view, half have collations, of fields of its order and sometimes of one that
/// is checked row by row.
fn draw_collection(ground: Ground, number: u64, rng: &mut Rng) -> Oracle {
    let mut collection = generate::collection(rng, &format!("drawn_{number}"));
    let mut collations = Collations::new();
    if ground.views && IS_BUILT_IN && rng.bool() {
        let base = collection.base();
        let order = base.order.iter();
        let mut fields: Vec<String> = order.map(|column| column.field.clone()).collect();
        if rng.u8(0..3) == 0 {
            fields.push("v0".to_owned());
        }
        collations = generate::collations(rng, &mut collection, &fields);
    }
    Oracle::collated(Arc::new(collection), collations)
}

fn draw_case(subject: &Subject, data: &Data, rng: &mut Rng) -> Case {
    let mut question = generate::question(rng, data);
    // Tuple ranges over fields that may be null are checked row by row.
    let view = subject.view.as_ref();
    question.allow_filter_scan |= view.is_some_and(|view| [NULLS, NULLS_FIRST].contains(&view.name));
    let moves = generate::moves(rng, data, &subject.oracle, &question);
    Case {
        collection: Arc::clone(&subject.definition),
        collations: subject.oracle.collations().clone(),
        rows: subject.oracle.rows().to_vec(),
        question,
        built: rng.bool(),
        moves,
    }
}

/// Makes a failure simpler and panics with it: the seed, what is wrong, and a test to paste.
async fn report(ground: Ground, guarantee: Guarantee, seed: u64, case: Case, failure: Failure) {
    println!("{SEED_VARIABLE}={seed}: {}; making it simpler", failure.message);
    // Where it fails on the embedded store too, that is where steps are cheap.
    let embedded = Ground {
        kind: Kind::Embedded,
        ..ground
    };
    let mut found = (case, failure);
    for ground in [embedded, ground] {
        match ground.check(guarantee, &found.0).await {
            Err(failure) if failure.kind == found.1.kind => {
                found = shrink(ground, guarantee, found.0, failure).await;
                break;
            }
            _ => {}
        }
    }
    let (case, failure) = found;
    panic!("{}", message(ground, guarantee, seed, &case, &failure));
}

/// What is printed of a failure.
pub(crate) fn message(
    ground: Ground,
    guarantee: Guarantee,
    seed: u64,
    case: &Case,
    failure: &Failure,
) -> String {
    let kind = ground.kind;
    format!(
        "{guarantee}, does not hold on {kind:?}; {SEED_VARIABLE}={seed} draws it again\n{}\n  filter: {}\n  sort: {}\n\
         To keep it, paste this into crates/recto/tests/models/property/pasted.rs:\n\n{}",
        failure.message,
        case.question.filter_text(&case.collection),
        case.question.sort_text(&case.collection),
        test(ground, guarantee, case, seed)
    )
}

/// A failure as a test.
pub(crate) fn test(ground: Ground, guarantee: Guarantee, case: &Case, seed: u64) -> String {
    case.rust_test(
        &format!("seed_{seed}"),
        &format!("holds(Guarantee::{guarantee:?}, {}, &case);", ground.expression()),
    )
}

/// The simplest case found that fails in the same way.
pub(crate) async fn shrink(
    ground: Ground,
    guarantee: Guarantee,
    case: Case,
    failure: Failure,
) -> (Case, Failure) {
    let (mut case, mut failure) = (case, failure);
    let started = Instant::now();
    let mut tries = 0;
    let most = match ground.kind {
        Kind::Embedded => usize::MAX,
        Kind::Cassandra => MAX_CASSANDRA_TRIES,
    };
    'simpler: loop {
        for simpler in case.simpler() {
            tries += 1;
            if started.elapsed() > MAX_SHRINKING || tries > most {
                println!(
                    "it could be simpler still: {tries} tries, {:?}",
                    started.elapsed()
                );
                break 'simpler;
            }
            match ground.check(guarantee, &simpler).await {
                Err(other) if other.kind == failure.kind => {
                    (case, failure) = (simpler, other);
                    continue 'simpler;
                }
                _ => {}
            }
        }
        break;
    }
    (case, failure)
}

/// How much was drawn, of what kinds.
#[derive(Debug, Default)]
struct Tally {
    cases: usize,
    pages: usize,
    kinds: BTreeMap<&'static str, usize>,
    /// Types of order columns, and how many columns of each kind collections have.
    types: BTreeSet<String>,
    partition_columns: BTreeSet<usize>,
    order_columns: BTreeSet<usize>,
}

/// The kinds of conditions and questions that are drawn.
const KINDS: [&str; 9] = [
    "equality",
    "list",
    "range",
    "prefix",
    "tuple range",
    "filter_scan",
    "sorted",
    "own order",
    "several rows",
];

/// Drawn where pages are of views.
const COLLATED: &str = "collated";

impl Tally {
    fn add(&mut self, case: &Case, pages: usize, answer: usize) {
        let collection = &case.collection;
        let base = collection.base();
        self.partition_columns.insert(base.partition.len());
        self.order_columns.insert(base.order.len());
        let ty = |column: &schema::OrderColumn| collection.field(&column.field).unwrap().1.ty.to_string();
        self.types.extend(base.order.iter().map(ty));
        self.cases += 1;
        self.pages += pages;
        let mut kinds: Vec<&str> = case.question.conditions.iter().map(kind_of).collect();
        if case.question.allow_filter_scan {
            kinds.push("filter_scan");
        }
        kinds.push(if case.question.sort.is_empty() {
            "own order"
        } else {
            "sorted"
        });
        if !case.collations.is_empty() {
            kinds.push(COLLATED);
        }
        if answer > 1 {
            kinds.push("several rows");
        }
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            *self.kinds.entry(kind).or_default() += 1;
        }
    }

    fn has_every_kind(&self) -> bool {
        KINDS.iter().all(|kind| self.kinds.contains_key(kind))
            && self.types.len() == Type::ORDERABLE.len()
            && self.partition_columns.len() == generate::MAX_PARTITION_COLUMNS
            && self.order_columns.len() == generate::MAX_ORDER_COLUMNS
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} pages of {} cases, {} types",
            self.pages,
            self.cases,
            self.types.len()
        )?;
        self.kinds
            .iter()
            .try_for_each(|(kind, count)| write!(f, ", {count} {kind}"))
    }
}

fn kind_of(condition: &Condition) -> &'static str {
    match condition {
        Condition::Compare { comparison, .. } if comparison.as_str() == "=" => "equality",
        Condition::Compare { .. } => "range",
        Condition::AnyOf { .. } => "list",
        Condition::StartsWith { .. } => "prefix",
        Condition::Tuple { .. } => "tuple range",
    }
}

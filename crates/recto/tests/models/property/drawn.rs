//! Generator of random test cases, and the report of a failed case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use recto::{Environment, OpenOptions, Recto, Type, schema};
use recto_model::collation::IS_BUILT_IN;
use recto_store::memory::MemoryStore;
use recto_testkit::generate::{self, Case, Data, Rng};
use recto_testkit::oracle::{Collations, Condition, Oracle};

use super::guarantee::Guarantee;
use super::loaded_case::Failure;
use super::planted::Planted;
use crate::common::stores::parse;
use crate::common::subject::{NULLS, NULLS_FIRST, VIEWS};
use crate::common::{Fresh, Kind, Subject};

/// Environment variable with the seed of the random cases, to repeat a failure.
const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
/// Environment variable with a factor for the number of random cases.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Maximum time for simplifying a failed case. One test expects the simplified case of a deliberate
/// defect, which takes 30 s to find. The limit leaves time for a busy machine.
const MAX_SHRINKING: Duration = Duration::from_secs(300);
/// Maximum number of attempts on Cassandra while a failed case is simplified. Each attempt creates
/// a keyspace on a node that all tests share.
const MAX_CASSANDRA_TRIES: usize = 100;
/// Maximum number of tested collections in one store.
const COLLECTIONS_PER_STORE: u64 = 60;

/// Number of random cases of one test: the number of collections, of rows in each collection, and
/// of queries on each collection.
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
/// Number of cases of a test that reads pages from views.
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

/// Store and settings with which test cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ground {
    pub(crate) kind: Kind,
    /// Deliberate defect of the store, which the test must find. `None` for a correct store.
    pub(crate) defect: Option<Defect>,
    /// True if pages are read from views that the test declares, false if from the base table.
    pub(crate) views: bool,
    pub(crate) in_memory: bool,
}

/// Deliberate defect of a store, which the property tests must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Backward reads of the store lose one row.
    Reads,
    /// The store does not know the collations of fields, and therefore sorts text by its bytes.
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

    /// Returns a Rust expression for this value without the defect, to print a failed case as a
    /// test.
    fn expression(self) -> String {
        let new = format!("Ground::new(Kind::{:?})", self.kind);
        match (self.views, self.in_memory) {
            (false, _) => new,
            (true, false) => format!("Ground {{ views: true, ..{new} }}"),
            (true, true) => format!("Ground {{ views: true, in_memory: true, ..{new} }}"),
        }
    }

    /// Returns the name of the view from which pages of the collection with the id `number` are
    /// read. Returns `None` if pages are read from the base table.
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

    /// Creates a store with the collection and the rows of a test case.
    async fn subject(self, case: &Case) -> Subject {
        let number = case.collection.name.rsplit('_').next();
        let number = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        let recto = self.open().await;
        let collections = [(number, case.oracle())];
        let mut subject = self.subjects(recto, &collections).await.remove(0);
        subject.put_rows(case.rows.iter().cloned()).await;
        subject
    }

    /// Creates collections in a store, given by number and expected content. Returns the tested
    /// subject for each.
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

    /// Returns the oracle from which the store's schema is derived. If the store has the defect
    /// that ignores collations, it is `oracle` without its collations.
    fn said(self, oracle: &Oracle) -> Oracle {
        if self.defect == Some(Defect::ForgetsCollations) {
            return Oracle::new(Arc::clone(oracle.collection()));
        }
        oracle.clone()
    }

    /// Checks a guarantee of pages for a test case in a new store. Returns the number of pages
    /// read.
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

/// Asserts that a guarantee of pages holds for all random cases of a run.
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

/// Creates a store with random collections, numbered as in `numbers`. For each, returns the tested
/// subject, its data, and its random generator.
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

/// Returns a random collection. If pages are read from views, half of the collections have
/// collations for order fields, and sometimes for a field that a filter scan checks.
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
    // Recto checks tuple ranges over nullable fields by a filter scan, so allow a scan for views
    // with nulls.
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

/// Simplifies a failed case, and panics with the seed, the failure, and a test to paste into
/// `pasted.rs`.
async fn report(ground: Ground, guarantee: Guarantee, seed: u64, case: Case, failure: Failure) {
    println!("{SEED_VARIABLE}={seed}: {}; making it simpler", failure.message);
    // Try the embedded store first. If the case also fails there, attempts are fast.
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

/// Returns the message with which a failed test describes its case.
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

/// Returns the source of a Rust test that repeats a failed case.
pub(crate) fn test(ground: Ground, guarantee: Guarantee, case: &Case, seed: u64) -> String {
    case.rust_test(
        &format!("seed_{seed}"),
        &format!("holds(Guarantee::{guarantee:?}, {}, &case);", ground.expression()),
    )
}

/// Returns the simplest case found that fails in the same way as `case`.
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

/// Statistics of the random cases, to check that every kind of case occurred.
#[derive(Debug, Default)]
struct Tally {
    cases: usize,
    pages: usize,
    kinds: BTreeMap<&'static str, usize>,
    /// Types of order columns that occurred. The next two fields have the numbers of partition
    /// columns, and of order columns, that occurred.
    types: BTreeSet<String>,
    partition_columns: BTreeSet<usize>,
    order_columns: BTreeSet<usize>,
}

/// Kinds of conditions and queries that must occur in the random cases.
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

/// Name of the kind of cases with collations, which occurs only if pages are read from views.
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

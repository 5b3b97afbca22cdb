//! Checks the embedded store under injected faults: a seed determines which store calls fail, wait,
//! are repeated, or report an unknown outcome. Every page must agree with the oracle, or be a typed
//! error. Another test sets the clock back.
//!
//! Each run uses new random faults. A failure prints its seed, and `RECTO_TEST_SEED=…` repeats it.
//! `RECTO_TEST_SCALE=20` tests twenty times as many stores, for a long run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use recto::store::faults::{FaultKind, FaultRates, FaultyStore};
use recto::{
    Collection, DynamicRecord, Environment, Error, ErrorKind, OpenOptions, Page, PageQuery, Recto, Value,
};
use recto_model::environment::Source;
use recto_testkit::generate::{self, Rng};

const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Number of stores that a run tests, unless `RECTO_TEST_SCALE` multiplies it.
const STORES: u64 = 8;
/// Number of steps (writes and page reads) on one store.
const STEPS: usize = 250;
/// Probability of each kind of fault at each store call.
const RATE: f64 = 0.06;
const PARTS: i32 = 3;
const SLOTS: i32 = 40;

const SCHEMA: &str = r#"
[collection.slots]
fields = { part = "int", slot = "int", round = "bigint" }
key = ["part", "slot"]
partition = ["part"]
order = ["slot"]
writes = "overwrite"
"#;

static TESTS: Suite = Suite::new(module_path!(), 2);

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

/// Record as a tuple: part, slot and round.
type Row = (i32, i32, i64);

fn row(record: &DynamicRecord) -> Row {
    match (record.get("part"), record.get("slot"), record.get("round")) {
        (Some(Value::Int(part)), Some(Value::Int(slot)), Some(Value::BigInt(round))) => {
            (*part, *slot, *round)
        }
        other => panic!("a torn record: {other:?}"),
    }
}

/// Asserts that an error is one of the typed errors that the injected faults can cause.
fn is_told(error: &Error, report: &str) {
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::OutcomeUnknown,
    ];
    assert!(kinds.contains(&error.kind()), "{error:?}\n{report}");
}

/// Values that a slot may have: the value of the last acknowledged write, and the values of later
/// writes with an unknown outcome. `None` means that the slot has no record.
///
/// A delayed write arrives with its original timestamp, so a newer put wins over it. A deletion
/// leaves nothing in the store, so a delayed put from before the deletion may reappear.
#[derive(Debug, Default, Clone)]
struct Possible {
    rounds: BTreeSet<Option<i64>>,
    /// Rounds (numbers) of puts of which a delayed copy may still arrive, even if a repeated
    /// attempt was acknowledged.
    late: BTreeSet<i64>,
}

impl Possible {
    fn acknowledged(&mut self, value: Option<i64>) {
        self.rounds = BTreeSet::from([value]);
        if value.is_none() {
            self.rounds.extend(self.late.iter().copied().map(Some));
        }
    }

    fn unknown(&mut self, value: Option<i64>) {
        self.rounds.insert(value);
        if value.is_none() {
            self.rounds.extend(self.late.iter().copied().map(Some));
        }
    }

    fn holds(&self, value: Option<i64>) -> bool {
        self.rounds.contains(&value) || (self.rounds.is_empty() && value.is_none())
    }
}

/// Collection in a store with injected faults, and the values that its slots may have.
struct Faulted {
    faulty: FaultyStore,
    recto: Recto,
    slots: Collection<DynamicRecord>,
    possible: BTreeMap<(i32, i32), Possible>,
    round: i64,
    pages: u64,
    errors: u64,
}

impl Faulted {
    async fn new(seed: u64) -> Self {
        let plain = Fresh::new(Kind::Embedded).open().await;
        plain.apply(&parse(SCHEMA)).await.unwrap();
        let faulty = FaultyStore::new(Arc::clone(plain.store()), seed, FaultRates::NONE);
        let options = OpenOptions::new().request_timeout(Duration::from_secs(30));
        let recto = Recto::with_store(Arc::new(faulty.clone()), options)
            .await
            .unwrap();
        recto.apply(&parse(SCHEMA)).await.unwrap();
        faulty.set_rates(FaultRates {
            delay: RATE,
            ..FaultRates::all(RATE)
        });
        Self {
            slots: recto.dynamic("slots").unwrap(),
            recto,
            faulty,
            possible: BTreeMap::new(),
            round: 0,
            pages: 0,
            errors: 0,
        }
    }

    fn record(&self, (part, slot, round): Row) -> DynamicRecord {
        let definition = Arc::clone(self.recto.schema().collection("slots").unwrap());
        let mut record = DynamicRecord::new(definition);
        for (field, value) in [
            ("part", Value::Int(part)),
            ("slot", Value::Int(slot)),
            ("round", Value::BigInt(round)),
        ] {
            record.set(field, Some(value)).unwrap();
        }
        record
    }

    /// Returns the number of writes that the store delayed so far.
    fn late_writes(&self) -> u64 {
        self.faulty.counts().get(&FaultKind::Late).copied().unwrap_or(0)
    }

    /// Puts or deletes some random records in one atomic batch.
    async fn write(&mut self, random: &mut Rng) {
        self.round += 1;
        let mut batch = self.recto.batch();
        let mut changes = BTreeMap::new();
        for _ in 0..random.usize(1..=6) {
            let key = (random.i32(0..PARTS), random.i32(0..SLOTS));
            let value = (random.u32(0..5) > 0).then_some(self.round);
            // If the batch changes a key twice, the later change wins.
            changes.insert(key, value);
            match value {
                Some(round) => batch
                    .put(&self.slots, &self.record((key.0, key.1, round)))
                    .map(drop)
                    .unwrap(),
                None => batch.delete(&self.slots, key).map(drop).unwrap(),
            }
        }
        let late = self.late_writes();
        let outcome = batch.commit().await;
        let is_late = self.late_writes() > late;
        for (key, value) in changes {
            let possible = self.possible.entry(key).or_insert_with(|| Possible {
                rounds: BTreeSet::from([None]),
                late: BTreeSet::new(),
            });
            if let (Some(round), true) = (value, is_late) {
                possible.late.insert(round);
            }
            match &outcome {
                Ok(()) => possible.acknowledged(value),
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => possible.unknown(value),
                Err(_) => {}
            }
        }
        if let Err(error) = outcome {
            is_told(&error, &self.faulty.report());
            self.errors += 1;
        }
    }

    /// Reads a page. Returns `None` for an error, after checking that it is a typed error.
    async fn page(&mut self, query: PageQuery<DynamicRecord>) -> Option<Page<DynamicRecord>> {
        match query.await {
            Ok(page) => {
                self.pages += 1;
                Some(page)
            }
            Err(error) => {
                is_told(&error, &self.faulty.report());
                self.errors += 1;
                None
            }
        }
    }

    /// Asserts that rows are in order, and that each has a possible value of its slot. No slot of the
    /// given parts and slots that must have a value may be missing.
    fn assert_stretch(&self, rows: &[Row], parts: &[i32], slots: std::ops::Range<i32>, context: &str) {
        let report = || format!("{context}\n{rows:?}\n{}", self.faulty.report());
        let in_order = rows
            .windows(2)
            .all(|pair| (pair[0].1, pair[0].0) < (pair[1].1, pair[1].0));
        assert!(in_order, "out of order, or twice: {}", report());
        let found: BTreeMap<(i32, i32), i64> = rows
            .iter()
            .map(|(part, slot, round)| ((*part, *slot), *round))
            .collect();
        let never = Possible::default();
        for slot in slots {
            for part in parts {
                let value = found.get(&(*part, slot)).copied();
                let possible = self.possible.get(&(*part, slot)).unwrap_or(&never);
                assert!(
                    possible.holds(value),
                    "{part} {slot} is {value:?}, not of {possible:?}: {}",
                    report()
                );
            }
        }
    }

    /// Reads pages of random parts, forwards or backwards, from one end of the list. Checks the
    /// rows of each page.
    async fn walk(&mut self, random: &mut Rng) {
        let parts: Vec<i32> = (0..PARTS).filter(|_| random.bool()).collect();
        let is_forward = random.bool();
        if parts.is_empty() {
            return;
        }
        let filter: Vec<String> = parts.iter().map(|part| format!("part = {part}")).collect();
        let query = self
            .slots
            .query()
            .filter(filter.join(" OR "))
            .order_by("slot, part");
        let mut cursor: Option<String> = None;
        // `edge` is the last row that was read. All slots that come before it, in the direction of
        // reading, are complete.
        let mut edge: Option<Row> = None;
        for _ in 0..PARTS * SLOTS {
            let size = random.u32(1..=25);
            let query = query.clone();
            let query = match (&cursor, is_forward) {
                (None, true) => query.first(size),
                (None, false) => query.last(size),
                (Some(cursor), true) => query.first(size).after(cursor.clone()),
                (Some(cursor), false) => query.last(size).before(cursor.clone()),
            };
            let Some(page) = self.page(query).await else {
                continue; // Request the same page again, because the cursor has not moved.
            };
            let rows: Vec<Row> = page.items().iter().map(row).collect();
            let next = if is_forward {
                page.next_cursor()
            } else {
                page.previous_cursor()
            };
            self.assert_page(&rows, &parts, edge, is_forward, next.is_none());
            let last = if is_forward { rows.last() } else { rows.first() };
            edge = last.copied().or(edge);
            match next {
                Some(next) => cursor = Some(next.to_string()),
                None => return,
            }
        }
    }

    /// Asserts that the rows of a page are possible values. Checks only the slots after `edge` for
    /// which the page has the rows of all parts.
    fn assert_page(&self, rows: &[Row], parts: &[i32], edge: Option<Row>, is_forward: bool, ends: bool) {
        let context = format!("parts {parts:?}, edge {edge:?}, forwards {is_forward}, ends {ends}");
        let slots = if is_forward {
            let from = edge.map_or(0, |edge| edge.1 + 1);
            let to = rows.last().filter(|_| !ends).map_or(SLOTS, |last| last.1);
            from..if rows.is_empty() && !ends { from } else { to }
        } else {
            let to = edge.map_or(SLOTS, |edge| edge.1);
            let from = rows.first().filter(|_| !ends).map_or(0, |first| first.1 + 1);
            (if rows.is_empty() && !ends { to } else { from })..to
        };
        self.assert_stretch(rows, parts, slots, &context);
    }
}

#[test]
fn pages_under_faults_are_right_or_say_so() {
    let _scope = Scope::new(&TESTS);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed = from_environment(SEED_VARIABLE).unwrap_or_else(now);
    println!("{SEED_VARIABLE}={seed}");
    let stores = STORES * from_environment(SCALE_VARIABLE).unwrap_or(1);
    let (mut pages, mut errors) = (0, 0);
    for index in 0..stores {
        let seed = seed.wrapping_add(index);
        let mut random = generate::rng(seed);
        let counts = run(async {
            let mut faulted = Faulted::new(seed).await;
            for _ in 0..STEPS {
                if random.bool() {
                    faulted.write(&mut random).await;
                } else {
                    faulted.walk(&mut random).await;
                }
            }
            // Let the delayed writes arrive. From then on, every row must have a possible value,
            // and pages must not fail.
            faulted.faulty.set_rates(FaultRates::NONE);
            faulted.faulty.settle().await;
            let before = faulted.errors;
            for _ in 0..10 {
                faulted.walk(&mut random).await;
            }
            assert_eq!(faulted.errors, before, "errors without faults");
            (faulted.pages, faulted.errors)
        });
        pages += counts.0;
        errors += counts.1;
    }
    println!("{pages} pages, {errors} errors");
    assert!(pages > 1_000 && errors > 100, "{pages} pages, {errors} errors");
}

/// Source of time whose wall clock shows the time that the test sets.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Source for Clock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        Environment::system().monotonic_nanos()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| Environment::system().random::<1>()[0]);
    }
}

/// Checks that a put after a restart replaces the stored row, even if the clock was set back before
/// the restart.
#[test]
fn a_clock_that_was_set_back_makes_no_write_older() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let clock = Clock(Arc::new(AtomicI64::new(1_800_000_000_000_000)));
        let fresh = Fresh::new(Kind::Embedded);
        for (round, hours_back) in [(1_i64, 0), (2, 1), (3, 1_000), (4, 0)] {
            clock.0.fetch_sub(hours_back * 3_600_000_000, Ordering::Relaxed);
            let environment = Environment::new(clock.clone());
            let recto = fresh.open_with(OpenOptions::new().environment(environment)).await;
            recto.apply(&parse(SCHEMA)).await.unwrap();
            let slots = recto.dynamic("slots").unwrap();
            let definition = Arc::clone(recto.schema().collection("slots").unwrap());
            let mut record = DynamicRecord::new(definition);
            for (field, value) in [
                ("part", Value::Int(1)),
                ("slot", Value::Int(1)),
                ("round", Value::BigInt(round)),
            ] {
                record.set(field, Some(value)).unwrap();
            }
            slots.put(&record).await.unwrap();
            let stored = slots.get((1, 1)).await.unwrap().expect("it was put");
            assert_eq!(row(&stored), (1, 1, round));
            if round == 3 {
                slots.delete((1, 1)).await.unwrap();
                assert!(slots.get((1, 1)).await.unwrap().is_none(), "it was deleted");
            }
            assert!(recto.store().newest_stamp().is_some());
        }
    });
}

//! Test of pages of views while records change between any two reads of a page. If the pages of a
//! whole list are read, a record that does not change must be on exactly one page.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt;
use recto::store::{ReadOptions, RowsRead, Snapshot, Store, StoreError};
use recto::{DynamicRecord, OpenOptions, Page, PageQuery, Recto};
use recto_model::schema::Schema;
use recto_model::{Cells, Slice};
use recto_protocol::views::{Entry, KeyCells, Version};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_testkit::generate::{self, Rng};
use serde_json::{Value as Json, json};

use super::planted::Planted;
use super::{SCHEMA, run, store};

const TRAVERSALS: u64 = 300;
/// Number of records that do not change during the test. `MOVING` is the number of records that
/// change.
const STAYING: i64 = 14;
const MOVING: i64 = 8;
/// One in this number of writes to a view is not executed, as if its writer had been killed.
const LOST_ONE_IN: usize = 6;

/// Write to one row of a view that a simulated writer has not executed yet.
enum Step {
    Put(Entry<KeyCells, Cells>, Version),
    Remove(Entry<KeyCells, Cells>, Version),
}

/// State of the simulated writers: their pending writes, and every content that any record has had.
struct World {
    planted: Planted,
    rng: Rng,
    under_way: VecDeque<Step>,
    ever: HashSet<String>,
    stays: BTreeMap<i64, Json>,
}

impl World {
    async fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let mut world = Self {
            planted: Planted::new(store, SCHEMA).await,
            rng: generate::rng(seed),
            under_way: VecDeque::new(),
            ever: HashSet::new(),
            stays: BTreeMap::new(),
        };
        for id in 0..STAYING {
            let record = world.drawn(id);
            let cells = world.planted.cells(&record);
            world.planted.put(&cells).await;
            world.stays.insert(id, record);
        }
        for _ in 0..20 {
            world.stir();
        }
        world
    }

    fn drawn(&mut self, id: i64) -> Json {
        let status = ["open", "closed", "held"][self.rng.usize(0..3)];
        let mut record = json!({ "id": id, "status": status, "note": format!("{}", self.rng.u16(..)) });
        if self.rng.usize(0..4) > 0 {
            record["day"] = self.rng.i64(0..6).into();
        }
        self.ever.insert(text(&record));
        record
    }

    /// Executes between zero and three random steps: changes of base rows, or pending writes to
    /// views.
    fn stir(&mut self) {
        for _ in 0..self.rng.usize(0..4) {
            if self.under_way.is_empty() || self.rng.usize(0..3) == 0 {
                self.decide();
            } else {
                let index = self.rng.usize(0..self.under_way.len());
                let step = self.under_way.remove(index).unwrap();
                self.write(step);
            }
        }
    }

    /// Changes or deletes the base row of a random record. The writes of its rows in the views
    /// become pending.
    fn decide(&mut self) {
        let id = STAYING + self.rng.i64(0..MOVING);
        let record = self.drawn(id);
        let (record, deletes) = (self.planted.cells(&record), self.rng.usize(0..5) == 0);
        let before = self
            .planted
            .decide(&record, deletes, None)
            .now_or_never()
            .unwrap();
        let version = self.planted.version(&record);
        let now = if deletes {
            Vec::new()
        } else {
            self.planted.entries(&record)
        };
        let before = before.and_then(|known| known.record);
        let gone = before.map_or_else(Vec::new, |record| self.planted.entries(&record));
        let gone = gone
            .into_iter()
            .filter(|entry| now.iter().all(|one| one.key != entry.key));
        let removed = gone.map(|entry| Step::Remove(entry, version)).collect::<Vec<_>>();
        let put = now.iter().map(|entry| Step::Put(entry.clone(), version));
        for step in removed.into_iter().chain(put) {
            if self.rng.usize(0..LOST_ONE_IN) > 0 {
                self.under_way.push_back(step);
            }
        }
    }

    fn write(&self, step: Step) {
        let written = match &step {
            Step::Put(entry, version) => self.planted.put_entry(entry, *version).now_or_never(),
            Step::Remove(entry, version) => self.planted.remove_entry(entry, *version).now_or_never(),
        };
        written.unwrap();
    }
}

/// Store that executes some random changes of records before each read.
struct Moving {
    inner: Arc<dyn Store>,
    world: Arc<Mutex<World>>,
}

impl StoreWrapper for Moving {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn on_snapshot(&self, inner: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        let world = Arc::clone(&self.world);
        Arc::new(MovingSnapshot { inner, world })
    }
}

struct MovingSnapshot {
    inner: Arc<dyn Snapshot>,
    world: Arc<Mutex<World>>,
}

#[async_trait]
impl SnapshotWrapper for MovingSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.world.lock().unwrap().stir();
        self.inner.slice(slice, options).await
    }

    fn on_other_read(&self) {
        self.world.lock().unwrap().stir();
    }
}

/// Returns a record as text that does not depend on the order of its fields, so that texts can be
/// compared.
fn text(record: &Json) -> String {
    let fields: BTreeMap<&String, &Json> = record.as_object().unwrap().iter().collect();
    format!("{fields:?}")
}

/// Returns the sort key of a record in the list. Records with later days are first, and records
/// without a day are last.
fn place(record: &Json) -> (bool, i64, i64) {
    let day = record.get("day").and_then(Json::as_i64);
    (day.is_none(), -day.unwrap_or(0), record["id"].as_i64().unwrap())
}

/// Returns the records of a page. Asserts that they are sorted, that none appears twice, and that
/// each has a content that the record had at some time.
fn records(page: &Page<DynamicRecord>, world: &Mutex<World>) -> Vec<Json> {
    let records: Vec<Json> = page.iter().map(|record| Json::from(record.to_json())).collect();
    let places = records.windows(2);
    assert!(
        places.into_iter().all(|two| place(&two[0]) < place(&two[1])),
        "{records:?}"
    );
    let ids: HashSet<i64> = records
        .iter()
        .map(|record| record["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids.len(), records.len(), "a record twice: {records:?}");
    let world = world.lock().unwrap();
    for record in &records {
        assert!(world.ever.contains(&text(record)), "never was: {record}");
    }
    records
}

/// Returns the ids of those `records` that do not change during the test, in the order of
/// `records`.
fn staying(records: &[Json]) -> Vec<i64> {
    let ids = records.iter().map(|record| record["id"].as_i64().unwrap());
    ids.filter(|id| *id < STAYING).collect()
}

struct Case {
    world: Arc<Mutex<World>>,
    query: PageQuery<DynamicRecord>,
    /// Ids of the records that do not change and belong to the list, in the order of the list.
    stay: Vec<i64>,
    rng: Rng,
}

impl Case {
    async fn new(seed: u64) -> Self {
        let inner = store();
        let world = Arc::new(Mutex::new(World::new(Arc::clone(&inner), seed).await));
        let moving = Moving {
            inner,
            world: Arc::clone(&world),
        };
        let recto = Recto::with_store(Arc::new(moving), OpenOptions::new())
            .await
            .unwrap();
        recto.assume(Schema::parse(SCHEMA).unwrap());
        let mut rng = generate::rng(seed.wrapping_mul(7));
        let asked = [&["open"][..], &["open", "held"], &["open", "closed", "held"]][rng.usize(0..3)];
        let conditions: Vec<String> = asked.iter().map(|one| format!(r#"status = "{one}""#)).collect();
        let query = recto.dynamic("suspensions").unwrap().query();
        let query = query.filter(conditions.join(" OR ")).order_by("day desc, id");
        let mut stay: Vec<Json> = world.lock().unwrap().stays.values().cloned().collect();
        stay.retain(|record| asked.contains(&record["status"].as_str().unwrap()));
        stay.sort_by_key(place);
        let stay = staying(&stay);
        Self {
            world,
            query,
            stay,
            rng,
        }
    }

    /// Returns the query of the list with a random page size. In some cases, the query also has a
    /// small scan budget.
    fn some(&mut self) -> PageQuery<DynamicRecord> {
        let mut query = self.query.clone().page_size(self.rng.u32(1..7));
        if self.rng.bool() {
            query = query.scan_budget(self.rng.u64(3..12));
        }
        if self.rng.bool() {
            query = query.both_edges();
        }
        query
    }

    /// Reads all pages of the list from one end to the other. Asserts that they contain each
    /// unchanged record once. `back` reads from the end of the list.
    async fn traverse(&mut self, back: bool) {
        let (mut found, mut token, mut pages) = (Vec::new(), None, 0);
        loop {
            let query = self.some();
            let page = match token {
                None if back => query.last(5).await,
                None => query.await,
                Some(token) => query.page_token(token).await,
            };
            let page = page.unwrap();
            let rows = records(&page, &self.world);
            let place = if back { 0 } else { found.len() };
            found.splice(place..place, rows);
            pages += 1;
            assert!(pages < 1_000, "it does not end");
            token = if back {
                page.previous_cursor()
            } else {
                page.next_cursor()
            };
            if token.is_none() {
                break;
            }
        }
        // A record that moves during the read may appear twice: at its old and at its new position.
        assert!(
            found.windows(2).all(|two| place(&two[0]) <= place(&two[1])),
            "{found:?}"
        );
        assert_eq!(staying(&found), self.stay, "backwards: {back}");
    }

    /// Reads a page around a random row. Asserts that no unchanged record is missing between two
    /// unchanged records of the page.
    async fn around(&mut self) {
        let whole = self.query.clone().page_size(1_000).await.unwrap();
        let all = records(&whole, &self.world);
        assert_eq!(staying(&all), self.stay);
        let Some(index) = all.len().checked_sub(1).map(|last| self.rng.usize(0..=last)) else {
            return;
        };
        let page = self.some().around(whole.cursor(index)).await.unwrap();
        let near = staying(&records(&page, &self.world));
        let is_run = near.is_empty() || self.stay.windows(near.len()).any(|some| some == near);
        assert!(is_run, "{near:?} of {:?}", self.stay);
        if page.has_next() == Some(false) && !near.is_empty() {
            assert_eq!(near.last(), self.stay.last());
        }
        if page.has_previous() == Some(false) && !near.is_empty() {
            assert_eq!(near.first(), self.stay.first());
        }
    }
}

#[test]
fn returns_unchanged_records_exactly_once() {
    run(async {
        for seed in 0..TRAVERSALS {
            println!("seed {seed}");
            let mut case = Case::new(seed).await;
            case.traverse(false).await;
            case.traverse(true).await;
            case.around().await;
        }
    });
}

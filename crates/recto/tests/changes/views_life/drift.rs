//! Tests of views whose tables another program changed, so that they no longer agree with the
//! records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recto::Recto;
use recto::session::{VerifiedView, VerifyReport, VerifyRequest, ViewProgress};
use recto::store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, WriteOptions, WriteOutcome,
};
use recto_model::{Cells, Table};
use serde_json::Value as Json;

use super::{assert_all_is_well, event, fill, person, record, verify, with_views};

const RECORDS: i32 = 300;
/// Number of tasks that change other records while a view is compared with its records.
const WRITERS: i32 = 3;
/// Pause of each such task after a change.
const WRITER_PAUSE: Duration = Duration::from_millis(2);
/// Number that the test adds to the id of a record to get an id without a record.
const FIRST_ABSENT: i32 = 100_000;
/// Number of old view rows without a record that the test writes, for each of two kinds.
const OLD_ORPHANS: usize = 40;
/// Maximum difference between the clocks of processes that Recto tolerates, in microseconds.
const HOUR_MICROS: i64 = 3_600_000_000;
/// Memory limit of a comparison, in bytes. It is so small that the comparison needs about a dozen
/// passes.
const LITTLE_MEMORY_BYTES: u64 = 2_000;

/// Rows of a view's table, and methods to change the table directly, as another program could.
struct Rows {
    recto: Recto,
    table: Arc<Table>,
    cells: Vec<Cells>,
    stamps: Vec<i64>,
}

impl Rows {
    /// Reads the view rows of the records that [`fill`] stored. Ignores records that other tasks
    /// may change at the same time.
    async fn read(recto: &Recto, view: &str) -> Self {
        let mut rows = Self::read_all(recto, view).await;
        // The last cell of the key is the id of the record, which distinguishes the records of
        // `fill` from others.
        let last = rows.table.key_len() - 1;
        let ours = rows.cells.into_iter().zip(rows.stamps).filter(|(row, _)| {
            row.get(last)
                .is_some_and(|cell| *cell < RECORDS.to_be_bytes()[..])
        });
        (rows.cells, rows.stamps) = ours.unzip();
        rows
    }

    async fn read_all(recto: &Recto, view: &str) -> Self {
        let views = recto.views().await.unwrap();
        let name = &views.iter().find(|one| one.view == view).unwrap().table;
        let tables = recto.store().list_tables().await.unwrap();
        let table = Arc::new(tables.into_iter().find(|table| table.name() == name).unwrap());
        let (snapshot, mut rows, mut stamps) = (recto.store().snapshot().unwrap(), Vec::new(), Vec::new());
        let options = ReadOptions {
            stamps: true,
            ..ReadOptions::default()
        };
        for range in snapshot.token_ranges(&table, 1).await.unwrap() {
            let read = snapshot
                .scan(&table, &range, None, 10_000, &options)
                .await
                .unwrap();
            rows.extend(read.rows.iter().map(|row| row.to_cells()));
            stamps.extend(read.stamps);
        }
        Self {
            recto: recto.clone(),
            table,
            cells: rows,
            stamps,
        }
    }

    /// Writes the row with index `number`, or deletes it if `cells` is `None`. With `key`, writes
    /// the row whose key differs in this cell.
    async fn write(&self, number: usize, key: Option<(usize, Vec<u8>)>, stamp: i64, cells: Option<Cells>) {
        let row = &self.cells[number];
        let cell = |column: usize| match &key {
            Some((changed, cell)) if *changed == column => Some(cell.as_slice()),
            _ => row.get(column),
        };
        let partition = self.table.partition().len();
        let clustering: Cells = (partition..self.table.key_len()).map(cell).collect();
        let operation = match cells {
            Some(cells) => Operation::Put {
                clustering,
                cells,
                replace: true,
            },
            None => Operation::DeleteRow { clustering },
        };
        let write = PartitionWrite {
            table: Arc::clone(&self.table),
            partition: (0..partition).map(cell).collect(),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        };
        let store = self.recto.store();
        let outcome = store.write_many(vec![write], Atomicity::Each, WriteOptions::default());
        assert!(matches!(outcome.await.unwrap(), WriteOutcome::Done));
    }

    /// Returns the id of the record to which the row with index `number` belongs.
    fn id(&self, number: usize) -> i32 {
        let cell = self.cells[number].get(self.table.key_len() - 1).unwrap();
        i32::from_be_bytes(cell.try_into().unwrap())
    }

    /// Returns the column and cell that change the key of a row into the key of a view row whose
    /// record does not exist.
    fn absent(&self, number: usize) -> (usize, Vec<u8>) {
        let id = self.id(number) + FIRST_ABSENT;
        (self.table.key_len() - 1, id.to_be_bytes().to_vec())
    }

    /// Returns the missing record to which the view row of [`absent`](Self::absent) would belong.
    fn absent_record(&self, number: usize) -> Json {
        let mut record = person(self.id(number));
        record["id"] = (self.id(number) + FIRST_ABSENT).into();
        record
    }

    /// Returns the key of the record to which a row belongs, as `verify` prints it.
    fn key_text(&self, number: usize) -> String {
        let id = self.id(number);
        match &event(id)["day"] {
            day if self.table.name().starts_with("events") => format!("({day}, {id})"),
            _ => format!("({id})"),
        }
    }

    /// Returns the cells of a row after its key, with the last cell replaced by `changed`. The
    /// version is kept only if `version` is true.
    fn regular(&self, number: usize, changed: Option<&[u8]>, version: bool) -> Cells {
        let row = &self.cells[number];
        let (key_len, last) = (self.table.key_len(), self.table.columns().len() - 1);
        let cell = |column: usize| match column {
            _ if column == key_len && !version => None,
            _ if column == last => changed,
            _ => row.get(column),
        };
        (key_len..=last).map(cell).collect()
    }
}

/// Creates faults in a view: removes two rows, adds three, and changes three. Returns the kind of
/// each fault, with the key of its record.
pub(crate) async fn plant(recto: &Recto, view: &str) -> Vec<(&'static str, String)> {
    let rows = Rows::read(recto, view).await;
    let newest = rows.stamps.iter().max().unwrap();
    for lost in [0, 1] {
        rows.write(lost, None, rows.stamps[lost], None).await;
    }
    let place = |text: &str| Some((0, text.as_bytes().to_vec()));
    let invented = rows.regular(2, Some(b"x"), true);
    rows.write(2, place("nowhere"), rows.stamps[2], Some(invented.clone()))
        .await;
    rows.write(2, place("elsewhere"), newest + 5, Some(invented))
        .await;
    // If neither the store nor a version gives the time of a row, the repair deletes the row only
    // after an hour. Give it an old timestamp.
    let is_told = view == "by_city" || !recto.store().limits().remote;
    let nothing = Some(rows.regular(3, None, false));
    let stamp = if is_told { newest + 6 } else { newest - HOUR_MICROS };
    rows.write(3, place("nothing said"), stamp, nothing).await;
    for (number, (changed, version)) in [(Some(&b"changed"[..]), true), (Some(b"changed"), false)]
        .iter()
        .enumerate()
    {
        let number = number + 5;
        rows.write(
            number,
            None,
            newest + 7,
            Some(rows.regular(number, *changed, *version)),
        )
        .await;
    }
    // Row 8 keeps its content, but loses its version.
    let same = rows.cells[8]
        .get(rows.table.columns().len() - 1)
        .map(<[u8]>::to_vec);
    rows.write(8, None, newest + 8, Some(rows.regular(8, same.as_deref(), false)))
        .await;
    let invented = [("orphan", 2), ("orphan", 2), ("orphan", 3)];
    let others = ["missing", "missing", "differing", "differing", "differing"];
    let wrong = others.into_iter().zip([0, 1, 5, 6, 8]).chain(invented);
    let mut wrong: Vec<_> = wrong
        .map(|(kind, number)| (kind, rows.key_text(number)))
        .collect();
    wrong.sort();
    wrong
}

/// Returns the kinds of the faults that a report lists for a view, with the keys of their records.
fn told(view: &VerifiedView) -> Vec<(&str, String)> {
    let examples = view.examples.iter();
    let mut told: Vec<_> = examples.map(|drift| (&*drift.kind, drift.key.clone())).collect();
    told.sort();
    told
}

/// Changes people with other ids than those of `fill`, until `stop` is set. Returns the number of
/// changes.
async fn write_beside(recto: Recto, writer: i32, stop: Arc<AtomicBool>) -> i32 {
    let people = recto.dynamic("people").unwrap();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = RECORDS + writer + WRITERS * (turn % 20);
        if turn % 3 == 0 {
            people.delete(number).await.unwrap();
        } else {
            let mut person = person(number);
            person["city"] = format!("c{}", turn % 7).into();
            people.put(&record(&people, &person)).await.unwrap();
        }
        turn += 1;
        tokio::time::sleep(WRITER_PAUSE).await;
    }
    turn
}

fn of<'r>(report: &'r VerifyReport, view: &str) -> &'r VerifiedView {
    report.views.iter().find(|one| one.view == view).unwrap()
}

/// Rate of a comparison in rows per second. It is so low that each step has only a few rows, with
/// pauses between steps.
const FEW_ROWS: u32 = 20;

/// Checks that a comparison finds missing view rows while other tasks insert records. To find
/// missing rows, the comparison reads each step twice, and then also finds newly inserted rows
/// between them.
pub(crate) async fn finds_missing_entries_during_inserts(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    let people = recto.dynamic("people").unwrap();
    let put = async |number: i32| {
        people.put(&record(&people, &person(number))).await.unwrap();
    };
    // Put the records with even ids first, so that the others are inserted between them during the
    // verification.
    for number in 0..RECORDS / 2 {
        put(number * 2).await;
    }
    let rows = Rows::read(&recto, "by_city").await;
    for lost in 0..rows.cells.len() {
        rows.write(lost, None, rows.stamps[lost], None).await;
    }
    let (inserts, inserting) = tokio::sync::oneshot::channel();
    let inserts = std::sync::Mutex::new(Some(inserts));
    let request = VerifyRequest {
        collections: vec!["people".to_owned()],
        rows_per_second: Some(FEW_ROWS),
        ..VerifyRequest::default()
    };
    let told = |told: ViewProgress| {
        // Let the inserts begin once all records were read.
        if told.rows >= u64::try_from(RECORDS / 2).unwrap()
            && let Some(inserts) = inserts.lock().unwrap().take()
        {
            inserts.send(()).unwrap();
        }
    };
    let verified = recto.verify(&request, &told);
    let inserted = async {
        inserting.await.unwrap();
        for number in 0..RECORDS / 2 {
            put(number * 2 + 1).await;
        }
    };
    let (report, ()) = futures::future::join(verified, inserted).await;
    let report = report.unwrap();
    assert_eq!(
        of(&report, "by_city").missing,
        rows.cells.len() as u64,
        "{report:?}"
    );
}

/// Maximum time until Recto removes an outdated view row that a page has read.
const GONE: Duration = Duration::from_secs(10);

pub(crate) async fn removes_stale_entries_found_by_a_page(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let rows = Rows::read(&recto, "by_city").await;
    let nowhere = Some((0, b"nowhere".to_vec()));
    rows.write(
        2,
        nowhere,
        rows.stamps[2],
        Some(rows.regular(2, Some(b"x"), true)),
    )
    .await;
    assert_eq!(verify(&recto, &VerifyRequest::default()).await.wrong(), 1);
    let people = recto.dynamic("people").unwrap();
    let page = people
        .query()
        .filter(r#"city = "nowhere""#)
        .first(5)
        .await
        .unwrap();
    assert_eq!(page.len(), 0);
    let begun = std::time::Instant::now();
    while recto.writer_metrics().removed_stale == 0 {
        assert!(begun.elapsed() < GONE, "it is still there");
        tokio::time::sleep(WRITER_PAUSE).await;
    }
    assert_all_is_well(&recto).await;
    assert_eq!(Rows::read(&recto, "by_city").await.cells.len(), rows.cells.len());
}

pub(crate) async fn finds_and_repairs_wrong_entries(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    assert_all_is_well(&recto).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers =
        (0..WRITERS).map(|writer| tokio::spawn(write_beside(recto.clone(), writer, Arc::clone(&stop))));
    let writers: Vec<_> = writers.collect();
    for view in ["by_what", "by_city"] {
        let planted = plant(&recto, view).await;
        let all = planted.len() as u64;
        for memory_bytes in [None, Some(LITTLE_MEMORY_BYTES)] {
            let request = VerifyRequest {
                memory_bytes,
                ..VerifyRequest::default()
            };
            let report = verify(&recto, &request).await;
            let found = of(&report, view);
            assert_eq!(told(found), planted, "{found:?}");
            assert_eq!((report.wrong(), found.repaired), (all, 0), "{report:?}");
        }
        let request = VerifyRequest {
            collections: vec![
                of(&verify(&recto, &VerifyRequest::default()).await, view)
                    .collection
                    .clone(),
            ],
            repair: true,
            ..VerifyRequest::default()
        };
        let report = verify(&recto, &request).await;
        assert_eq!(
            (report.wrong(), report.left(), of(&report, view).repaired),
            (all, 0, all),
            "{report:?}"
        );
        let left = verify(&recto, &VerifyRequest::default()).await;
        assert_eq!(left.wrong(), 0, "{left:?}");
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    assert_all_is_well(&recto).await;
    let unknown = VerifyRequest {
        collections: vec!["peple".to_owned()],
        ..VerifyRequest::default()
    };
    let error = recto.verify(&unknown, &|_| {}).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no collection peple (did you mean people?)"
    );
}

/// Checks old view rows without a record (orphans) that are older than the maximum difference
/// between clocks. A repair must remove them together. Records must keep their versions, and a
/// record inserted later must have its view row.
pub(crate) async fn old_orphans_are_removed_and_records_keep_their_versions(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let people = recto.dynamic("people").unwrap();
    let rows = Rows::read(&recto, "by_city").await;
    let old = rows.stamps.iter().min().unwrap() - 2 * HOUR_MICROS;
    let regular = |number: usize| rows.regular(number, Some(b"x"), true);
    for number in 0..OLD_ORPHANS {
        let elsewhere = (0, b"elsewhere".to_vec());
        rows.write(number, Some(elsewhere), old, Some(regular(number)))
            .await;
        rows.write(number, Some(rows.absent(number)), old, Some(regular(number)))
            .await;
    }
    let version = async |number: i32| people.get_versioned(number).await.unwrap().unwrap().version;
    let mut before = Vec::new();
    for number in 0..RECORDS {
        before.push(version(number).await);
    }
    let request = VerifyRequest {
        repair: true,
        ..VerifyRequest::default()
    };
    let report = verify(&recto, &request).await;
    let all = 2 * OLD_ORPHANS as u64;
    assert_eq!(of(&report, "by_city").repaired, all, "{report:?}");
    assert_all_is_well(&recto).await;
    for (number, before) in (0..RECORDS).zip(before) {
        assert_eq!(version(number).await, before, "record {number}");
    }
    for number in 0..OLD_ORPHANS {
        let record = rows.absent_record(number);
        people.put(&self::record(&people, &record)).await.unwrap();
    }
    assert_all_is_well(&recto).await;
    let found = Rows::read_all(&recto, "by_city").await;
    assert_eq!(found.cells.len(), rows.cells.len() + OLD_ORPHANS);
}

/// Checks that view rows that are, or may be, too new are not repaired until they are older.
/// `verify` reports rows with a timestamp ahead of the clock. `repair` also reports rows that may
/// be too new.
pub(crate) async fn reports_entries_that_are_too_new_to_repair(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let ahead = "ahead of this machine's clock";
    let mut left = 0;
    for view in ["by_what", "by_city"] {
        let rows = Rows::read(&recto, view).await;
        let newest = rows.stamps.iter().max().unwrap();
        let changed = rows.regular(5, Some(b"changed"), true);
        rows.write(5, None, newest + 2 * HOUR_MICROS, Some(changed)).await;
        if view == "by_what" {
            let nothing = Some(rows.regular(3, None, false));
            rows.write(3, Some((0, b"nothing said".to_vec())), *newest, nothing)
                .await;
        }
        let outcomes = async |repair: bool| {
            let request = VerifyRequest {
                repair,
                ..VerifyRequest::default()
            };
            let report = verify(&recto, &request).await;
            assert_eq!(of(&report, view).repaired, 0, "{report:?}");
            let examples = of(&report, view).examples.iter();
            let mut outcomes: Vec<_> = examples
                .map(|one| (one.kind.clone(), one.outcome.clone()))
                .collect();
            outcomes.sort();
            outcomes
        };
        let (before, after) = (outcomes(false).await, outcomes(true).await);
        left += after.len();
        assert_eq!((&*before[0].0, &*after[0].0), ("differing", "differing"));
        assert!(
            before[0].1.contains(ahead) && after[0].1.contains(ahead),
            "{before:?} {after:?}"
        );
        if view == "by_what" {
            assert_eq!(before[1], ("orphan".to_owned(), String::new()));
            assert!(
                after[1].1.contains("less than an hour old: repair again"),
                "{after:?}"
            );
        }
    }
    assert_eq!(left, 3);
}

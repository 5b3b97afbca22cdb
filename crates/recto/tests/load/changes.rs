//! Tests of loading files into collections whose records can be updated, on stores without
//! transactions. Each row of a file is an update of a record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recto::session::LoadRequest;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::{Limits, Store};
use recto::{Environment, ErrorKind, LocalSession, Recto};

use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use crate::support::{Fault, Unreliable, load_into, open_with, records_of};
use crate::views::{CHANGING, counts, sample};

/// Limits of the store in memory, which make it behave like Cassandra.
const LIMITS: Limits = Limits {
    remote: true,
    leaves_tombstones: true,
    sees_conflicts: false,
    transactions: false,
    ..DEFAULT_LIMITS
};
const FLIGHTS: usize = 1_200;
/// Size of a load's buffer in bytes. It is so small that a file fills it several times.
const BUFFER_BYTES: u64 = 192 << 10;

/// Test suite of the tests that use stores on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 1);

fn store() -> MemoryStore {
    MemoryStore::with_limits(Environment::system(), LIMITS)
}

fn little(request: &mut LoadRequest) {
    request.collections = vec!["updated".to_owned()];
    request.buffer_bytes = Some(BUFFER_BYTES);
}

/// Loads a file, even if it was loaded before. Returns the numbers of stored, replaced, repeated
/// and rejected rows.
async fn load(recto: &Recto, file: &Path) -> [u64; 4] {
    let session = LocalSession::new(recto.clone());
    let again = |request: &mut LoadRequest| {
        little(request);
        request.again = true;
    };
    counts(&load_into(&session, file, again).await.unwrap(), "updated")
}

/// Checks three loads: of a file, of a file with other values for some records, and of the second
/// file under another name.
async fn files_are_loaded_and_replace_what_is_there(recto: &Recto) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let all = FLIGHTS as u64;
    assert_eq!(
        load(recto, &file("a.csv", sample(FLIGHTS, false))).await,
        [all, 0, 0, 0]
    );
    assert_eq!(assert_views_are_exact(recto, "updated").await, FLIGHTS);
    let (changed, same) = (all / 3, all - all / 3);
    let second = sample(FLIGHTS, true);
    assert_eq!(
        load(recto, &file("b.csv", second.clone())).await,
        [0, changed, same, 0]
    );
    assert_eq!(assert_views_are_exact(recto, "updated").await, FLIGHTS);
    assert_eq!(load(recto, &file("c.csv", second.clone())).await, [0, 0, all, 0]);
    // The last of several rows with the same key must win, whatever their distance in the file.
    let both = sample(FLIGHTS, false) + second.split_once('\n').unwrap().1;
    let counted = load(recto, &file("d.csv", both)).await;
    assert_eq!(
        (counted.iter().sum::<u64>(), counted[3]),
        (2 * all, 0),
        "{counted:?}"
    );
    assert_eq!(assert_views_are_exact(recto, "updated").await, FLIGHTS);
    let session = LocalSession::new(recto.clone());
    let there = records_of(&session, "updated").await;
    assert_eq!(load(recto, &file("e.csv", second)).await, [0, 0, all, 0]);
    assert_eq!(there, records_of(&session, "updated").await);
    // A row that does not fit a view must be rejected with the reason, and the other rows must
    // load.
    let line = |number: usize, origin: &str| format!("2013-01-01T10:00:00Z,ZZ,{number},{origin},LAX,N1,1,\n");
    let long = "x".repeat(9_000);
    let header = sample(0, false);
    let text = format!("{header}{}{}", line(1, &long), line(2, "JFK"));
    assert_eq!(load(recto, &file("f.csv", text)).await, [1, 0, 0, 1]);
    let rejects = std::fs::read_to_string(folder.path().join("f.csv.rejects.csv")).unwrap();
    assert!(
        rejects.contains("2,updated,a record of updated does not fit view by_route: origin is too large"),
        "{rejects}"
    );
    assert_eq!(assert_views_are_exact(recto, "updated").await, FLIGHTS + 1);
}

#[test]
fn a_file_is_loaded_where_there_are_no_transactions() {
    run(async {
        let recto = open_with(Arc::new(store()), CHANGING).await;
        files_are_loaded_and_replace_what_is_there(&recto).await;
    });
}

#[test]
fn a_file_is_loaded_into_cassandra() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let recto = Fresh::new(Kind::Cassandra).open().await;
        recto.apply(&parse(CHANGING)).await.unwrap();
        files_are_loaded_and_replace_what_is_there(&recto).await;
    });
}

/// Checks that a resumed load recognizes rows that are already stored, and keeps changes that other
/// clients made since the load began.
#[test]
fn resumes_and_keeps_later_changes() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        std::fs::write(&file, sample(FLIGHTS, false)).unwrap();
        let mut resumed = 0;
        for good in [30, 900, 2_500, 4_000] {
            let memory = store();
            let whole = open_with(Arc::new(memory.clone()), CHANGING).await;
            let failing = Unreliable::new(&memory, Fault::Fails, i64::MAX, i64::MAX);
            let stopped = open_with(Arc::clone(&failing) as Arc<dyn Store>, CHANGING).await;
            failing.begin(good);
            let session = LocalSession::new(stopped.clone());
            let error = load_into(&session, &file, little).await.unwrap_err();
            assert!(error.to_string().contains("the disk is full"), "{error}");
            // Let the store work again, so that the stopped load can complete the changes that it
            // has begun.
            failing.begin(i64::MAX);
            while stopped.writer_metrics().under_way > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The stopped load may not have stored the record, so the update may find none.
            let flights = whole.dynamic("updated").unwrap();
            let lines = std::fs::read_to_string(&file).unwrap();
            for line in [lines.lines().nth(1).unwrap(), lines.lines().last().unwrap()] {
                let cells: Vec<&str> = line.split(',').collect();
                let key = (
                    cells[0].to_owned(),
                    cells[1].to_owned(),
                    cells[2].parse::<i32>().unwrap(),
                );
                let update = flights.update(key).set("dest", "later").await;
                assert!(update.is_ok() || update.is_err_and(|error| error.kind() == ErrorKind::NotFound));
            }
            let session = LocalSession::new(whole.clone());
            let before = records_of(&session, "updated").await;
            let later = before.iter().filter(|record| record.contains("later")).count();
            let report = load_into(&session, &file, little).await.unwrap();
            resumed = resumed.max(report.rows_resumed);
            let counted = counts(&report, "updated");
            assert_eq!(
                (counted.iter().sum::<u64>(), counted[3]),
                (FLIGHTS as u64, 0),
                "{counted:?}"
            );
            let after = records_of(&session, "updated").await;
            let still = after.iter().filter(|record| record.contains("later")).count();
            assert_eq!(still, later, "after {good} writes");
            assert_eq!(assert_views_are_exact(&whole, "updated").await, FLIGHTS);
        }
        assert!(resumed > 0, "no load got as far as a checkpoint");
    });
}

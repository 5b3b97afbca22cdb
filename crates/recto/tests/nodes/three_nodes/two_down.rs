//! Test that each request reports a typed error while two of three nodes are down, because no
//! request can reach a quorum.

use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::{CassandraAddress, Error, ErrorKind};

use super::data::{MIXED, PLAIN, SCHEMA, SHAPES, Tables, key_values};
use super::history::{History, Key, Outcome};
use super::reader::{Reader, Tally};
use super::writer::{Writer, outcome_of};
use crate::nodes::{Lease, address, open};

/// Maximum time until the remaining node marks the killed nodes as dead.
const SEEN: Duration = Duration::from_secs(120);
/// Maximum time until a request fails, once the client knows that two nodes are down.
const QUICK: Duration = Duration::from_secs(4);
/// Maximum time until the driver uses restarted nodes again.
const COMES_BACK: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(200);

const KEY: Key = Key {
    collection: MIXED,
    tenant: 0,
    slot: 0,
};
/// Request timeout while the test prepares the collections.
const PREPARED: Duration = Duration::from_secs(60);
/// Version of a record whose write must fail. No other write uses this version.
const LOST: i64 = 1_000_000;

#[test]
#[ignore = "slow: three nodes, of which two are killed, minutes in all"]
fn without_a_quorum_requests_fail_fast_and_recover() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    super::runtime().block_on(async {
        let address = address(cluster);
        let patient = CassandraAddress {
            request_timeout: Some(PREPARED),
            ..address.clone()
        };
        let recto = open(&patient).await.unwrap();
        recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
        recto.close().await.unwrap();
        let recto = open(&address).await.unwrap();
        let generation = recto.generation();
        let tables = Tables::new(&recto);
        let (history, tally) = (History::default(), Tally::default());
        let versions = std::sync::atomic::AtomicI64::new(1);
        let writer = Writer {
            tables: &tables,
            history: &history,
            versions: &versions,
            index: 0,
            of: 1,
        };
        writer.fill().await;
        let reader = Reader {
            tables: &tables,
            history: &history,
            tally: &tally,
        };
        let [_, two, three] = cluster.nodes() else { panic!("three nodes") };
        two.kill().unwrap();
        three.kill().unwrap();
        // The remaining node does not know yet that the other nodes are down. A request therefore
        // waits for their answers until its timeout.
        let unaware = Instant::now();
        let error = SHAPES[0].query(&tables).await.unwrap_err();
        assert_typed(&error, "a page, unaware");
        println!("a page at once after both died: {:?} after {:.1?}", error.kind(), unaware.elapsed());

        let alive = cluster.node(1);
        alive.wait_until_sees(two, false, SEEN).unwrap();
        alive.wait_until_sees(three, false, SEEN).unwrap();
        println!("both are held for dead after {:.1?}", unaware.elapsed());
        for shape in &SHAPES {
            let error = quick(shape.query(&tables).first(10)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{}: {error:?}", shape.name);
            assert!(error.hint().is_some(), "{error:?}");
        }
        let put = quick(tables.collections[MIXED].put(&tables.record(KEY, LOST))).await;
        assert_eq!(outcome_of(&put.unwrap_err()), Outcome::NotDone);
        let deleted = quick(tables.collections[MIXED].delete(&key_values(KEY)[..])).await;
        assert_eq!(outcome_of(&deleted.unwrap_err()), Outcome::NotDone);
        let mut batch = recto.batch();
        for key in [KEY, Key { collection: PLAIN, ..KEY }] {
            let record = tables.record(key, LOST);
            batch.put(&tables.collections[key.collection], &record).unwrap();
        }
        assert_eq!(outcome_of(&quick(batch.commit()).await.unwrap_err()), Outcome::NotDone);
        let more = format!(
            "{SCHEMA}\n[collection.more]\nfields = {{ id = \"bigint\" }}\nkey = [\"id\"]\nwrites = \"append\"\n"
        );
        let more = Schema::parse(&more).unwrap();
        let begun = Instant::now();
        let error = recto.apply(&more).await.unwrap_err();
        assert_typed(&error, "apply");
        println!("apply without a quorum: {error:?} after {:.1?}", begun.elapsed());
        let error = recto.rotate_cursor_keys(3).await.unwrap_err();
        assert_typed(&error, "rotate");
        let error = open(&address).await.unwrap_err();
        assert_typed(&error, "open");

        std::thread::scope(|scope| {
            for node in [two, three] {
                scope.spawn(|| node.start().unwrap());
            }
        });
        let begun = Instant::now();
        while let Err(error) = SHAPES[0].query(&tables).await {
            tally.note(&error, "coming back");
            assert!(begun.elapsed() < COMES_BACK, "{error:?}");
            tokio::time::sleep(PAUSE).await;
        }
        println!("served again {:.1?} after the nodes answered", begun.elapsed());
        // The rows that the test wrote before the faults must be stored. Rows whose write failed
        // must not.
        for shape in &SHAPES {
            reader.traverse(shape, false, 20).await;
            reader.traverse(shape, true, 20).await;
        }
        while let Err(error) = recto.apply(&more).await {
            assert_typed(&error, "apply again");
            assert!(begun.elapsed() < COMES_BACK, "{error:?}");
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(recto.generation(), generation + 1, "applied once");
    });
}

/// Awaits a request, and asserts that it ends within the time [`QUICK`].
async fn quick<T>(request: impl IntoFuture<Output = T>) -> T {
    let begun = Instant::now();
    let given = request.await;
    assert!(begun.elapsed() < QUICK, "took {:.1?}", begun.elapsed());
    given
}

fn assert_typed(error: &Error, what: &str) {
    let typed = matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
    );
    assert!(typed && error.hint().is_some(), "{what}: {error:?}");
}

//! Tests in which one node at a time is killed or paused, and restarts or resumes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::store::ConsistencyLevel;
use recto::{CassandraAddress, ErrorKind, Recto};
use recto_testkit::generate::Rng;
use recto_testkit::rig::{Cluster, Node};

use super::data::{COLLECTIONS, SCHEMA, SHAPES, Tables};
use super::history::{History, Outcome};
use super::reader::{Reader, Tally};
use super::writer::Writer;
use crate::nodes::{Lease, address, open};

const WRITERS: i64 = 3;
const READERS: usize = 2;
/// Request timeout of some clients. It ends before an unresponsive node is marked as dead.
const HASTE: Duration = Duration::from_millis(1_200);
/// Time for which requests continue between two faults.
const CALM: Duration = Duration::from_secs(2);
/// Time for which requests continue before the first fault. Every 5 s, coordinators compute after
/// which time they query another replica. Before the first computation, they would wait for half of
/// the read timeout.
const WARM: Duration = Duration::from_secs(6);
/// Time for which a node is stopped or paused.
const DOWN: Duration = Duration::from_secs(7);
/// Maximum time until a store opens, and until a schema is applied, while a node is down.
const SETTLES: Duration = Duration::from_secs(45);
/// Maximum number of earlier cursor keys that a store keeps in addition to the key that encrypts
/// new cursors.
const EARLIER_KEYS: u32 = 15;
/// Number of key rotations, half of them by each of two handles. The store keeps all of these keys,
/// and the first key.
const ROTATIONS: usize = 6;

#[test]
#[ignore = "slow: three nodes are killed and paused in turn, minutes in all"]
fn no_page_is_wrong_and_no_acknowledged_row_missing() {
    let seed = super::seed();
    let lease = Lease::new();
    let cluster = lease.cluster();
    let runtime = super::runtime();
    let address = address(cluster);
    let recto = runtime.block_on(async {
        let recto = open(&address).await.unwrap();
        recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
        recto
    });
    let hasty = CassandraAddress {
        request_timeout: Some(HASTE),
        ..address.clone()
    };
    let hasty = Tables::new(&runtime.block_on(open(&hasty)).unwrap());
    let tables = Tables::new(&recto);
    let (history, tally, versions) = (History::default(), Tally::default(), AtomicI64::new(1));
    let writers = [(0, &tables), (1, &tables), (2, &hasty)].map(|(index, tables)| Writer {
        tables,
        history: &history,
        versions: &versions,
        index,
        of: WRITERS,
    });
    let reader = Reader {
        tables: &tables,
        history: &history,
        tally: &tally,
    };
    let readers = [
        reader,
        Reader {
            tables: &hasty,
            ..reader
        },
    ];
    let stop = AtomicBool::new(false);
    let mut seeds = Rng::with_seed(seed);
    let mut draw = || Rng::with_seed(seeds.u64(..));
    let for_faults = draw();
    let rotated = thread::scope(|scope| {
        let faults = scope.spawn(|| {
            let _stop = SetOnDrop(&stop);
            runtime.block_on(hurt(cluster, &address, &recto, for_faults))
        });
        let _stop = SetOnDrop(&stop);
        runtime.block_on(requests(&readers, &writers, &stop, draw));
        faults
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    println!(
        "{tally:?}; changes done {}, unknown {}, not done {}",
        history.count(Outcome::Done),
        history.count(Outcome::Unknown),
        history.count(Outcome::NotDone)
    );
    cluster.wait_until_all_up().unwrap();
    runtime.block_on(verify(&reader));
    let everywhere = CassandraAddress {
        consistency: Some(ConsistencyLevel::All),
        ..address
    };
    let (recto, kept) = runtime.block_on(async {
        let recto = open(&everywhere).await.unwrap();
        let kept = recto.cursor_keys().await.unwrap();
        (recto, kept)
    });
    let tables = Tables::new(&recto);
    runtime.block_on(verify(&Reader {
        tables: &tables,
        ..reader
    }));
    let kept: BTreeSet<u32> = kept.iter().map(|key| key.id).collect();
    assert!(rotated.is_subset(&kept), "rotated to {rotated:?}, kept {kept:?}");
}

/// Sends pages, scans, puts, deletions and batches until `stop` is set.
async fn requests(
    readers: &[Reader<'_>],
    writers: &[Writer<'_>],
    stop: &AtomicBool,
    mut draw: impl FnMut() -> Rng,
) {
    futures::future::join_all(writers.iter().map(Writer::fill)).await;
    let mut reading = Vec::new();
    for reader in readers {
        reading.extend((0..READERS).map(|_| reader.page_until(stop, draw())));
    }
    let scanning = readers.iter().map(|reader| reader.scan_until(stop));
    let writing: Vec<_> = writers
        .iter()
        .map(|writer| writer.write_until(stop, draw()))
        .collect();
    futures::future::join3(
        futures::future::join_all(reading),
        futures::future::join_all(writing),
        futures::future::join_all(scanning),
    )
    .await;
}

/// Guard that sets a flag when it is dropped, even by a panic. Two concurrent tasks use it to stop
/// each other.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads and checks all rows and all queries again, with all nodes up.
async fn verify(reader: &Reader<'_>) {
    for collection in 0..COLLECTIONS.len() {
        reader.scan(collection).await;
    }
    for shape in &SHAPES {
        reader.traverse(shape, false, 50).await;
        reader.traverse(shape, true, 7).await;
    }
}

/// Kills a node and restarts it, pauses another node and resumes it, and changes the catalog during
/// each fault. Returns the ids of the cursor keys whose rotation succeeded.
async fn hurt(
    cluster: &Cluster,
    address: &CassandraAddress,
    recto: &Recto,
    mut random: Rng,
) -> BTreeSet<u32> {
    let mut order = [1, 2, 3];
    random.shuffle(&mut order);
    let [killed, paused, both] = order.map(|number| cluster.node(number));
    let mut rotated = BTreeSet::new();
    tokio::time::sleep(WARM).await;

    say("kill", killed);
    killed.kill().unwrap();
    rotated.extend(while_down(address, recto, "killed").await);
    say("start", killed);
    killed.start().unwrap();
    tokio::time::sleep(CALM).await;

    say("pause", paused);
    paused.pause().unwrap();
    rotated.extend(while_down(address, recto, "paused").await);
    say("resume", paused);
    paused.resume().unwrap();
    tokio::time::sleep(CALM).await;

    // The node `both` is paused for a short time and then killed. Clients that are about to return
    // to it find it dead.
    say("pause, then kill", both);
    both.pause().unwrap();
    tokio::time::sleep(CALM).await;
    both.kill().unwrap();
    both.start().unwrap();
    tokio::time::sleep(CALM).await;
    rotated
}

/// Checks that a store opens, a schema is applied, and two handles rotate keys concurrently while
/// one node is down. Returns the ids of the new cursor keys.
async fn while_down(address: &CassandraAddress, recto: &Recto, how: &str) -> BTreeSet<u32> {
    let begun = Instant::now();
    let other = until_settled(how, "open", || open(address)).await;
    let generation_before = other.generation();
    let added = format!(
        "{SCHEMA}\n[collection.made_{how}]\nfields = {{ id = \"bigint\" }}\nkey = [\"id\"]\nwrites = \"append\"\n{}",
        if how == "paused" { EARLIER } else { "" }
    );
    let schema = Schema::parse(&added).unwrap();
    let applied = loop {
        match other.apply(&schema).await {
            Ok(applied) => break applied,
            Err(error) => assert_passes(&error, how, "apply", begun),
        }
        tokio::time::sleep(CALM).await;
    };
    assert_eq!(applied.generation, generation_before + 1, "applied once");
    assert!(other.dynamic(&format!("made_{how}")).is_ok());
    println!("opened and applied while {how} after {:.1?}", begun.elapsed());
    let (one, two) = futures::future::join(rotate(recto, how), rotate(&other, how)).await;
    let left = DOWN.saturating_sub(begun.elapsed());
    tokio::time::sleep(left).await;
    one.into_iter().chain(two).collect()
}

/// Declaration of the collection that the test added while a node was killed. The schema that it
/// applies while a node is paused must contain this collection, too.
const EARLIER: &str =
    "[collection.made_killed]\nfields = { id = \"bigint\" }\nkey = [\"id\"]\nwrites = \"append\"\n";

async fn rotate(recto: &Recto, how: &str) -> Vec<u32> {
    let begun = Instant::now();
    let mut rotated = Vec::new();
    for _ in 0..ROTATIONS / 2 {
        match recto.rotate_cursor_keys(EARLIER_KEYS).await {
            Ok(keys) => rotated.extend(keys.iter().filter(|key| key.encrypts).map(|key| key.id)),
            Err(error) => assert_passes(&error, how, "rotate", begun),
        }
    }
    rotated
}

async fn until_settled<T, F: Future<Output = recto::Result<T>>>(
    how: &str,
    what: &str,
    request: impl Fn() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        match request().await {
            Ok(done) => return done,
            Err(error) => assert_passes(&error, how, what, begun),
        }
    }
}

/// Asserts that an error is one after which a caller should retry, and that the time limit of
/// retries is not over.
fn assert_passes(error: &recto::Error, how: &str, what: &str, begun: Instant) {
    println!("{what} while {how}, after {:.1?}: {error:?}", begun.elapsed());
    let passes = matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
    );
    assert!(passes && error.hint().is_some(), "{what} while {how}: {error:?}");
    assert!(begun.elapsed() < SETTLES, "{what} while {how}: {error:?}");
}

fn say(what: &str, node: &Node) {
    println!("{what} node {}", node.number());
}

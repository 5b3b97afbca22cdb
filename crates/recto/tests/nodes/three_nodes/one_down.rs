//! Test in which one node at a time is killed and restarted, or paused and resumed, while clients
//! read and write.

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
/// Request timeout of some clients. It ends before the other nodes mark an unresponsive node as
/// dead.
const HASTE: Duration = Duration::from_millis(1_200);
/// Time between two faults, in which requests continue.
const CALM: Duration = Duration::from_secs(2);
/// Time before the first fault, in which requests continue. Every 5 s, a coordinator computes after
/// which time it asks another replica. Before the first computation, it waits for half of the read
/// timeout.
const WARM: Duration = Duration::from_secs(6);
/// Time for which a node is down or paused.
const DOWN: Duration = Duration::from_secs(7);
/// Maximum time until a store opens, and until a schema is applied, while a node is down.
const SETTLES: Duration = Duration::from_secs(45);
/// Maximum number of earlier cursor keys that a store keeps, in addition to the key that encrypts
/// new cursors.
const EARLIER_KEYS: u32 = 15;
/// Number of rotations of cursor keys during one fault. Each of two handles of the store does half
/// of them. The store must keep the keys of all rotations, and its first key.
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

/// Sends requests until `stop` is set: pages, scans, puts, deletions and batches. `draw` returns a
/// generator of random values for each client.
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

/// Guard that sets a flag when it is dropped. The flag stops a concurrent task, even if the owner
/// of the guard panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads and checks all rows and the pages of all queries. All nodes must be up.
async fn verify(reader: &Reader<'_>) {
    for collection in 0..COLLECTIONS.len() {
        reader.scan(collection).await;
    }
    for shape in &SHAPES {
        reader.traverse(shape, false, 50).await;
        reader.traverse(shape, true, 7).await;
    }
}

/// Kills and restarts a node, and pauses and resumes another node. During each fault, applies a
/// schema and rotates cursor keys. Returns the ids of the keys whose rotation succeeded.
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

    // The node `both` is paused for a short time and then killed. Clients may find it dead when
    // they are about to use it again.
    say("pause, then kill", both);
    both.pause().unwrap();
    tokio::time::sleep(CALM).await;
    both.kill().unwrap();
    both.start().unwrap();
    tokio::time::sleep(CALM).await;
    rotated
}

/// Checks requests that change the catalog while one node is down. A store must open, a schema must
/// be applied, and two handles must rotate cursor keys concurrently. Returns the ids of the new
/// keys. `how` is `killed` or `paused`.
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

/// Declaration of the collection that the test added while a node was killed. The schema that the
/// test applies while another node is paused must contain this collection, too.
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

/// Asserts that the caller of a request should retry it after this error, and that the time limit
/// [`SETTLES`] is not over.
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

//! Test that completed jobs do not run again when a node restarts that was down while they
//! completed. Article 002 describes this fault of naive queues.

use std::time::Duration;

use recto::queues::QueueOptions;
use recto_protocol::queues::{BodyTable, Phase};
use recto_queues::TableStatus;
use recto_testkit::rig::Cluster;

use super::naive::{Naive, TABLE, rows};
use super::ring::{Bed, receive, send, slices_of, work_until_empty};
use crate::common::run;
use crate::nodes::{Lease, address};

const JOBS: usize = 50;
/// Long rotation interval, in seconds. With it, the table of message bodies is not emptied before
/// the stopped node is back.
const LONG_SLICE: u32 = 300;
const SHORT_SLICE: u32 = 10;
/// Time after which a node can purge a deletion from its files. A deletion must be at least one
/// second old.
const PURGED: Duration = Duration::from_secs(2);
/// Maximum time until a table of message bodies is emptied: a rotation interval, and the steps that
/// precede the emptying.
const EMPTIED: Duration = Duration::from_secs(90);
/// Time for which a receiver waits to show that no messages are delivered.
const QUIET: Duration = Duration::from_secs(10);

#[test]
#[ignore = "slow: repairs of three nodes, minutes in all"]
fn repeats_no_finished_jobs_unlike_a_naive_queue() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    let kept = tempfile::tempdir().unwrap();
    run(async {
        let bed = Bed::new(address(cluster), slices_of(LONG_SLICE)).await;
        let keyspace = bed.address.keyspace.as_str();
        let naive = Naive::create(&bed.address, 0).await;
        let jobs = bed.create("jobs", QueueOptions::default()).await.shards;
        naive.send(JOBS).await;
        send(&jobs, JOBS).await;
        let bodies = open_table(&bed).await;
        let [one, two, three] = cluster.nodes() else {
            panic!("three nodes")
        };
        for node in cluster.nodes() {
            node.nodetool(&["disablehandoff"]).unwrap();
            node.nodetool(&["flush", keyspace]).unwrap();
            let folder = kept.path().join(node.number().to_string());
            node.keep_files(keyspace, &bodies.1, &folder).unwrap();
        }

        three.kill().unwrap();
        assert_eq!(naive.work_until_empty().await.len(), JOBS);
        assert_eq!(work_until_empty(&jobs).await.len(), JOBS);
        tokio::time::sleep(PURGED).await;
        for node in [one, two] {
            node.nodetool(&["flush", keyspace]).unwrap();
            node.nodetool(&["compact", keyspace]).unwrap();
            assert_eq!(node.tombstones(keyspace, TABLE).unwrap(), 0, "they were purged");
        }
        assert!(naive.work_until_empty().await.is_empty());
        three.start().unwrap();
        cluster.wait_until_all_up().unwrap();
        three.nodetool(&["repair", "-full", keyspace]).unwrap();

        let again = naive.work_until_empty().await;
        println!("{} of {JOBS} jobs of the naive queue fired again", again.len());
        assert!(
            !again.is_empty(),
            "this is why there are queues without tombstones"
        );
        assert!(jobs.receive(JOBS, None, QUIET).await.unwrap().is_empty());

        restored_bodies_are_nothing(cluster, &bed, &bodies, kept.path()).await;
    });
}

/// Checks that no message is delivered again if the files of an emptied table of message bodies are
/// restored from a copy.
async fn restored_bodies_are_nothing(
    cluster: &Cluster,
    bed: &Bed,
    (number, name): &(BodyTable, String),
    kept: &std::path::Path,
) {
    let (keyspace, jobs) = (
        bed.address.keyspace.as_str(),
        bed.queues.find("jobs").await.unwrap().shards,
    );
    bed.queues.configure(slices_of(SHORT_SLICE)).await.unwrap();
    let is_free = |table: &TableStatus| table.number == *number && table.phase == Phase::Free;
    bed.wait_for_ring(EMPTIED, |ring| ring.tables.iter().any(is_free))
        .await;
    // Set a long rotation interval, so that the table is not emptied while its files are restored.
    bed.queues.configure(slices_of(LONG_SLICE)).await.unwrap();
    for node in cluster.nodes() {
        let folder = kept.join(node.number().to_string());
        node.put_files_back(keyspace, name, &folder).unwrap();
    }
    let restored = rows(&bed.address, name).await;
    assert!(restored >= JOBS, "{restored} bodies of {JOBS} are there again");
    assert!(jobs.receive(JOBS, None, QUIET).await.unwrap().is_empty());
    send(&jobs, 3).await;
    assert_eq!(work_until_empty(&jobs).await, ["0", "1", "2"]);
    assert!(receive(&jobs, JOBS).await.is_empty());
}

/// Returns the number and the name of the table to which new message bodies are written. The number
/// is the table's position among the rotating tables.
async fn open_table(bed: &Bed) -> (BodyTable, String) {
    let ring = bed.queues.rotation().await.unwrap();
    let is_open = |phase| matches!(phase, Phase::Open { .. });
    let open = ring
        .tables
        .into_iter()
        .find(|table| is_open(table.phase))
        .unwrap();
    (open.number, open.name)
}

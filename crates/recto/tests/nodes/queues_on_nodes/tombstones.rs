//! Test of the number of tombstones (records of deletions) after some thousands of jobs. It counts
//! the tombstones that a receive reads over, and the tombstones on disk.

use std::time::Duration;

use recto::queues::{DeadLetters, QueueName, QueueOptions};
use recto_protocol::queues::{BodyTable, Phase};
use recto_queues::{NewMessage, Queue, TableStatus};

use super::naive::{Naive, TABLE, cql};
use super::ring::{Bed, receive, send, slices_of, work_until_empty};
use super::scale;
use crate::common::run;
use crate::nodes::{Lease, address};

/// Number of jobs, multiplied by the environment variable `RECTO_TEST_SCALE`. With a scale of 100,
/// it is the number of tombstones after which Cassandra aborts a query.
const JOBS: usize = 1_000;
/// Number of messages that the queue holds at a time.
const BATCH: usize = 50;
/// Default of Cassandra's setting `gc_grace_seconds`: ten days, in seconds.
const TEN_DAYS: u32 = 864_000;
const SLICE: u32 = 10;
/// Number of the first rotating table to which message bodies are written.
const FIRST: BodyTable = BodyTable(1);
/// Maximum time until a table of message bodies is emptied.
const EMPTIED: Duration = Duration::from_secs(60);

#[test]
#[ignore = "slow: thousands of messages on three nodes, minutes in all"]
fn writes_none_unlike_a_naive_queue() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    run(async {
        let bed = Bed::new(address(cluster), slices_of(SLICE)).await;
        let keyspace = bed.address.keyspace.as_str();
        let naive = Naive::create(&bed.address, TEN_DAYS).await;
        let jobs = bed.create("jobs", QueueOptions::default()).await;
        let count = JOBS * scale();
        naive.send(count).await;
        naive.finish(count).await;
        assert!(naive.work_until_empty().await.is_empty());
        for _ in 0..count / BATCH {
            send(&jobs.shards, BATCH).await;
            assert_eq!(work_until_empty(&jobs.shards).await.len(), BATCH);
        }
        do_everything(&bed, &jobs).await;
        // Wait until Recto has emptied the first table of message bodies, which must not leave
        // tombstones.
        let is_emptied = |table: &TableStatus| table.number == FIRST && table.phase == Phase::Free;
        bed.wait_for_ring(EMPTIED, |ring| ring.tables.iter().any(is_emptied))
            .await;

        let crossed = naive.met_by_a_receive().await;
        let most = crossed.iter().map(|met| met.tombstones).max().unwrap();
        println!("after {count} jobs a receive of the naive queue crosses {most} tombstones");
        assert!(most >= count, "{crossed:?}");
        let cql = cql(&bed.address).await;
        let tables = bed.tables().await;
        assert!(tables.len() >= 9, "{tables:?}");
        for table in &tables {
            let met = cql.met(&format!("SELECT * FROM {table}")).await.unwrap();
            assert!(met.iter().all(|met| met.tombstones == 0), "{table}: {met:?}");
        }
        for node in cluster.nodes() {
            node.nodetool(&["flush", keyspace]).unwrap();
            assert!(node.tombstones(keyspace, TABLE).unwrap() >= count as u64);
            for table in &tables {
                assert_eq!(node.tombstones(keyspace, table).unwrap(), 0, "{table}");
            }
        }
    });
}

/// Executes every kind of operation that changes the stored state of a queue.
async fn do_everything(bed: &Bed, jobs: &Queue) {
    let dead = bed.create("dead", QueueOptions::default()).await;
    let options = QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: QueueName::new("queue", "dead").unwrap(),
            attempts: 1,
        }),
        ..QueueOptions::default()
    };
    bed.queues.change(jobs.id, None, options).await.unwrap();
    send(&jobs.shards, 3).await;
    let received = receive(&jobs.shards, 3).await;
    jobs.shards
        .nack(&[received[0].receipt], Duration::ZERO, "no disk")
        .await
        .unwrap();
    jobs.shards.give_back(&[received[1].receipt]).await.unwrap();
    jobs.shards
        .extend(&[received[2].receipt], Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(bed.queues.redrive(&dead, jobs, None).await.unwrap(), 1);
    let twice = NewMessage {
        deduplication_id: Some("once".to_owned()),
        delay: Some(Duration::from_secs(1)),
        ..NewMessage::new("later")
    };
    jobs.shards.send(vec![twice.clone(), twice]).await;
    jobs.shards.purge().await.unwrap();
    let night = bed.queues.begin_unit(jobs.id, "night").await.unwrap();
    send(&night.shards, 3).await;
    bed.queues.end_unit(jobs.id, "night").await.unwrap();
    let ordered = bed.create("groups.fifo", QueueOptions::ordered()).await;
    let grouped = NewMessage {
        group: Some("g".to_owned()),
        ..NewMessage::new("grouped")
    };
    ordered.shards.send(vec![grouped]).await[0].as_ref().unwrap();
    bed.queues.delete(ordered.id).await.unwrap();
}

//! Queues on Cassandra: rates, and receives after many messages beside a queue of rows that are deleted.

use std::time::{Duration, Instant};

use futures::future::join_all;
use recto::queues::{Queue, QueueOptions, Receive};
use recto::{CassandraAddress, OpenOptions, Recto, StoreAddress};
use tokio::runtime::Runtime;

use crate::measure::{median, micros};
use crate::peers::deleted_rows::DeletedRows;
use crate::report::{Section, Table, Target};
use crate::world::World;

use super::queues::{BODY, cycle, cycles, send};

/// Clients and messages a call.
const CASES: [(usize, usize); 5] = [(1, 1), (4, 1), (16, 1), (4, 10), (4, 50)];
const SPELL: Duration = Duration::from_secs(6);
const ROUNDS: usize = 3;
/// Messages that go through both queues between two measurements, and how often.
const STEP: usize = 30_000;
const STEPS: usize = 4;
const QUICK_STEP: usize = 1_000;
/// Messages a call, and clients, while they do.
const STEP_BATCH: usize = 50;
const STEP_CLIENTS: usize = 8;
/// Receives that are timed.
const TIMED: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let quick = world.arguments.quick;
    let (time, step) = if quick {
        (SPELL / 6, QUICK_STEP)
    } else {
        (SPELL, STEP)
    };
    let keyspace = format!("recto_benches_queues_{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = world.arguments.cassandra.clone();
    let (_recto, queue) = runtime.block_on(open(&address, &keyspace))?;
    let mut rates = Table::new(
        "Sent, received, acknowledged, each call after the one before",
        &["clients, messages a call", "messages/s"],
    );
    for (clients, batch) in CASES {
        world.progress.say(&format!("{clients} clients, {batch} a call"));
        let rate = median(
            (0..rounds)
                .map(|_| cycles(&runtime, &queue, (clients, batch), time))
                .collect(),
        );
        rates.push(format!("{clients}, {batch}"), [Some(rate)]);
    }
    let naive = runtime.block_on(DeletedRows::make(&address, &keyspace));
    let mut targets = Vec::new();
    let after = after_many(world, &runtime, &queue, &naive, step, &mut targets);
    Ok(Section {
        title: "Queues on Cassandra".to_owned(),
        text: format!(
            "One node. Messages of {} bytes; the median of {rounds} rounds of {:.1} s. Then {TIMED} receives of one message by one \
             client, before and after so many others went through: of Recto's queue (a claim, which is durable), and of a table with a \
             row a message, in one partition, which is read with LIMIT 1 and deleted when it is done with (no claim, and no \
             conditional write: two clients would get the same).",
            BODY.len(),
            time.as_secs_f64()
        ),
        tables: vec![rates, after],
        targets,
        ..Section::default()
    })
}

async fn open(address: &str, keyspace: &str) -> Result<(Recto, Queue), String> {
    let address = CassandraAddress::new(vec![address.to_owned()], keyspace);
    let options = OpenOptions::new().create().request_timeout(TIMEOUT);
    let recto = Recto::open_with(StoreAddress::Cassandra(Box::new(address)), options)
        .await
        .map_err(|error| format!("Cassandra: {error}; `recto-rig start` starts one"))?;
    let queues = recto.queues().await.map_err(|error| error.to_string())?;
    let queue = queues.create("jobs", QueueOptions::default()).await.unwrap();
    Ok((recto, queue))
}

/// What a receive takes, before and after many messages.
fn after_many(
    world: &mut World,
    runtime: &Runtime,
    queue: &Queue,
    naive: &DeletedRows,
    step: usize,
    targets: &mut Vec<Target>,
) -> Table {
    let mut table = Table::new(
        "A receive, before and after so many messages went through",
        &["messages processed", "Recto, µs", "rows that are deleted, µs"],
    );
    let mut found = Vec::new();
    let mut number = 0;
    for part in 0..=STEPS {
        if part > 0 {
            world
                .progress
                .say(&format!("{} of {} processed", part * step, STEPS * step));
            runtime.block_on(process(queue, naive, step, &mut number));
        }
        let ours = runtime.block_on(receives(queue));
        let theirs = runtime.block_on(naive_receives(naive, &mut number));
        found.push(ours);
        table.push((part * step).to_string(), [Some(ours), theirs]);
    }
    targets.push(Target::at_most(
        format!("a receive after {} messages over one before any", STEPS * step),
        1.1,
        found[STEPS] / found[0],
    ));
    table
}

/// Lets messages go through both.
async fn process(queue: &Queue, naive: &DeletedRows, step: usize, number: &mut i64) {
    let rounds = step / STEP_BATCH / STEP_CLIENTS;
    let ours = (0..STEP_CLIENTS).map(|_| async {
        for _ in 0..rounds {
            cycle(queue, STEP_BATCH).await;
        }
    });
    join_all(ours).await;
    queue.purge().await.unwrap();
    for _ in 0..step / STEP_BATCH {
        let numbers: Vec<i64> = (*number..*number + STEP_BATCH as i64).collect();
        *number += STEP_BATCH as i64;
        join_all(numbers.iter().map(|number| naive.send(*number, &BODY))).await;
        join_all(numbers.iter().map(|number| naive.delete(*number))).await;
    }
}

/// What a receive of one message takes in the middle, in microseconds.
async fn receives(queue: &Queue) -> f64 {
    send(queue, TIMED).await;
    let mut taken = Vec::new();
    for _ in 0..TIMED {
        let started = Instant::now();
        let received = queue.receive(Receive::up_to(1)).await.unwrap();
        taken.push(micros(started.elapsed()));
        queue.ack(&[received[0].receipt]).await.unwrap();
    }
    queue.purge().await.unwrap();
    median(taken)
}

/// The same of rows that are deleted; none: Cassandra refuses the read.
async fn naive_receives(naive: &DeletedRows, number: &mut i64) -> Option<f64> {
    let numbers: Vec<i64> = (*number..*number + TIMED as i64).collect();
    *number += TIMED as i64;
    join_all(numbers.iter().map(|number| naive.send(*number, &BODY))).await;
    let (mut taken, mut is_refused) = (Vec::new(), false);
    for number in numbers {
        let started = Instant::now();
        is_refused |= naive.first(1).await.is_err();
        taken.push(micros(started.elapsed()));
        naive.delete(number).await;
    }
    (!is_refused).then(|| median(taken))
}

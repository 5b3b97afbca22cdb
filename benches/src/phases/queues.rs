//! Phase: queues of Recto, compared with a PostgreSQL table that serves as a queue with `SKIP
//! LOCKED`. Also measures a queue after it has processed millions of messages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use recto::queues::{NewMessage, Queue, QueueOptions, Receive};
use recto::{OpenOptions, Recto};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::measure::{median, micros};
use crate::peers::postgresql::Cluster;
use crate::report::{Section, Table, Target, number};
use crate::world::World;

const CLIENTS: usize = 64;
/// Measured numbers of messages per call.
const BATCHES: [usize; 2] = [1, 10];
/// Time for which Recto and PostgreSQL each process messages in a round.
const SPELL: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
pub(super) const BODY: [u8; 100] = [b'x'; 100];
const CACHE_BYTES: u64 = 256 << 20;
/// Number of processed messages after which a queue is measured for the last time.
const PROCESSED: u64 = 3_000_000;
/// Number of messages per call while the queue processes [`PROCESSED`] messages.
const PROCESSED_BATCH: usize = 100;
/// Number of successive receives in one measurement.
const TIMED: usize = 500;
/// Number of rounds in which an old and a new queue are measured in turn.
pub(super) const BESIDE_ROUNDS: usize = 7;

const TABLE: &str = "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL, \
                     claimed_until timestamptz, attempts int NOT NULL DEFAULT 0)";
/// The fastest PostgreSQL statements for sending, receiving and acknowledging. The first of each
/// pair is for one message, the second for several messages.
const SEND: [&str; 2] = [
    "INSERT INTO jobs (body) VALUES ($1)",
    "INSERT INTO jobs (body) SELECT $1 FROM generate_series(1, $2::int)",
];
const RECEIVE: [&str; 2] = [
    "UPDATE jobs SET claimed_until = now() + interval '30 seconds', attempts = attempts + 1 WHERE id = (SELECT id \
     FROM jobs WHERE claimed_until IS NULL OR claimed_until < now() ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) \
     RETURNING id, body",
    "WITH taken AS MATERIALIZED (SELECT id FROM jobs WHERE claimed_until IS NULL OR claimed_until < now() ORDER BY id \
     FOR UPDATE SKIP LOCKED LIMIT $1) UPDATE jobs SET claimed_until = now() + interval '30 seconds', \
     attempts = attempts + 1 WHERE id = ANY(ARRAY(SELECT id FROM taken)) RETURNING id, body",
];
const ACK: [&str; 2] = [
    "DELETE FROM jobs WHERE id = $1",
    "DELETE FROM jobs WHERE id = ANY($1)",
];

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let (time, processed) = if world.arguments.quick {
        (SPELL / 5, PROCESSED / 100)
    } else {
        (SPELL, PROCESSED)
    };
    let folder = world.folder.join("queues");
    let _ = std::fs::remove_dir_all(&folder);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_recto, queue) = runtime.block_on(open(&folder.join("beside")));
    let cluster = if world.arguments.postgresql {
        Some(postgresql()?)
    } else {
        None
    };
    let mut targets = Vec::new();
    let mut table = Table::new("", &["", "Recto, messages/s", "PostgreSQL, messages/s", "ratio"]);
    for batch in BATCHES {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            world
                .progress
                .say(&format!("round {} of {rounds}: {batch} a call", round + 1));
            ours.push(cycles(&runtime, &queue, (CLIENTS, batch), time));
            if let Some(cluster) = &cluster {
                theirs.push(cycles_of_postgresql(&runtime, cluster, batch, time));
            }
        }
        let ratio = median(ours.iter().zip(&theirs).map(|(our, their)| our / their).collect());
        if batch == 1 {
            targets.push(Target::at_least(
                "queues, messages/s, 1 a call",
                10_000.0,
                median(ours.clone()),
            ));
        }
        if cluster.is_some() {
            let what = format!("queues, messages/s, {batch} a call: Recto / PostgreSQL");
            targets.push(Target::at_least(what, 2.0, ratio));
        }
        let found = cluster.is_some();
        table.push(
            format!("{batch} a call"),
            [
                Some(median(ours)),
                found.then(|| median(theirs)),
                found.then_some(ratio),
            ],
        );
    }
    drop(queue);
    let after = after_many(world, &runtime, &folder.join("many"), processed, &mut targets);
    Ok(Section {
        title: "Queues".to_owned(),
        text: format!(
            "{CLIENTS} clients send messages of {} bytes, receive and acknowledge them, each step durably. PostgreSQL \
             claims rows by `UPDATE … (SELECT … FOR UPDATE SKIP LOCKED)`, with a connection for each client \
             (`tokio-postgres`, prepared statements, `synchronous_commit = on`, autovacuum). {rounds} rounds of {:.1} s. \
             Then many messages go through another queue, and {BESIDE_ROUNDS} rounds of {TIMED} receives of one message \
             compare it with a new queue in another store.",
            BODY.len(),
            time.as_secs_f64()
        ),
        tables: vec![table, after],
        targets,
        ..Section::default()
    })
}

async fn open(folder: &Path) -> (Recto, Queue) {
    let options = OpenOptions::new().create();
    let recto = Recto::open_with(folder, options).await.unwrap();
    let queues = recto.queues().await.unwrap();
    let queue = queues.create("jobs", QueueOptions::default()).await.unwrap();
    (recto, queue)
}

/// Lets clients send, receive and acknowledge messages for some time. `case` is the number of
/// clients, and the number of messages per call. Returns the number of messages per second.
fn cycles(runtime: &Runtime, queue: &Queue, case: (usize, usize), time: Duration) -> f64 {
    let spell = spell(runtime, queue, case, time);
    // Remove messages that clients sent but did not receive before they stopped. Each round must
    // start with an empty queue.
    runtime.block_on(queue.purge()).unwrap();
    spell.rate
}

/// Number of messages that clients have processed, and their rate.
pub(super) struct Spell {
    pub(super) messages: u64,
    /// Rate in messages per second.
    pub(super) rate: f64,
}

/// Lets `clients` concurrent clients send, receive and acknowledge messages for the given time,
/// with `batch` messages per call.
pub(super) fn spell(
    runtime: &Runtime,
    queue: &Queue,
    (clients, batch): (usize, usize),
    time: Duration,
) -> Spell {
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    runtime.block_on(async {
        let clients = (0..clients).map(|_| {
            let (queue, done) = (queue.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while started.elapsed() < time {
                    let count = cycle(&queue, batch).await;
                    done.fetch_add(count as u64, Ordering::Relaxed);
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
    });
    let messages = done.load(Ordering::Relaxed);
    let rate = messages as f64 / started.elapsed().as_secs_f64();
    Spell { messages, rate }
}

pub(super) async fn cycle(queue: &Queue, batch: usize) -> usize {
    send(queue, batch).await;
    let receive = Receive::up_to(batch).wait(Duration::from_secs(1));
    let received = queue.receive(receive).await.unwrap();
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    if !receipts.is_empty() {
        queue.ack(&receipts).await.unwrap();
    }
    receipts.len()
}

pub(super) async fn send(queue: &Queue, count: usize) {
    let messages = (0..count).map(|_| NewMessage::new(BODY)).collect();
    for sent in queue.send_all(messages).await {
        sent.unwrap();
    }
}

fn postgresql() -> Result<Cluster, String> {
    let mut cluster = Cluster::new()?;
    cluster.start_vacuuming(CACHE_BYTES);
    cluster.connect().batch_execute(TABLE).unwrap();
    Ok(cluster)
}

/// PostgreSQL client that uses a table as a queue, with its prepared statements.
struct Theirs {
    client: Client,
    batch: usize,
    send: Statement,
    receive: Statement,
    ack: Statement,
}

impl Theirs {
    async fn connect(options: &str, batch: usize) -> Self {
        let (client, connection) = tokio_postgres::connect(options, NoTls).await.unwrap();
        tokio::spawn(connection);
        let form = usize::from(batch > 1);
        Self {
            batch,
            send: client.prepare(SEND[form]).await.unwrap(),
            receive: client.prepare(RECEIVE[form]).await.unwrap(),
            ack: client.prepare(ACK[form]).await.unwrap(),
            client,
        }
    }

    async fn cycle(&self) -> usize {
        let (body, count) = (BODY.as_slice(), i32::try_from(self.batch).unwrap());
        let (most, is_one) = (i64::from(count), self.batch == 1);
        let values: [&(dyn ToSql + Sync); 2] = [&body, &count];
        let values = if is_one { &values[..1] } else { &values };
        self.client.execute(&self.send, values).await.unwrap();
        let values: [&(dyn ToSql + Sync); 1] = [&most];
        let values = if is_one { &[] } else { &values[..] };
        let rows = self.client.query(&self.receive, values).await.unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let bytes: usize = rows.iter().map(|row| row.get::<_, &[u8]>(1).len()).sum();
        assert_eq!(bytes, ids.len() * BODY.len());
        if let Some(first) = ids.first() {
            let shown: &(dyn ToSql + Sync) = if is_one { first } else { &ids };
            self.client.execute(&self.ack, &[shown]).await.unwrap();
        }
        ids.len()
    }
}

/// Lets PostgreSQL clients send, receive and acknowledge messages for some time. Returns the number
/// of messages per second.
fn cycles_of_postgresql(runtime: &Runtime, cluster: &Cluster, batch: usize, time: Duration) -> f64 {
    let options = cluster.options();
    let rate = runtime.block_on(async {
        let connecting = (0..CLIENTS).map(|_| Theirs::connect(&options, batch));
        let clients = futures::future::join_all(connecting).await;
        let started = Instant::now();
        let working = clients.into_iter().map(|client| {
            tokio::spawn(async move {
                let mut done = 0;
                while started.elapsed() < time {
                    done += client.cycle().await;
                }
                done
            })
        });
        let mut done = 0;
        for client in working.collect::<Vec<_>>() {
            done += client.await.unwrap();
        }
        done as f64 / started.elapsed().as_secs_f64()
    });
    cluster.connect().batch_execute("DELETE FROM jobs").unwrap();
    rate
}

/// Measures the time of a receive and the size of the store's file: before, during and after
/// processing many messages.
fn after_many(
    world: &mut World,
    runtime: &Runtime,
    folder: &Path,
    processed: u64,
    targets: &mut Vec<Target>,
) -> Table {
    let (_recto, queue) = runtime.block_on(open(folder));
    let mut table = Table::new(
        "A receive by one client, after messages went through the queue:",
        &[
            "messages processed",
            "a receive, µs",
            "of a new queue, µs",
            "ratio",
            "the store, MiB",
        ],
    );
    let mut found = Vec::new();
    let mut sofar = 0;
    // Also measure before the first message, because the first allocation of the file must not
    // count as growth.
    for part in [0, processed / 10, processed] {
        while sofar < part {
            sofar += process(runtime, &queue, part - sofar);
            world.progress.say(&format!("{sofar} of {processed} processed"));
        }
        let bytes = store_bytes(folder) as f64;
        let (_new, new) = runtime.block_on(open(&folder.with_file_name(format!("new-{part}"))));
        let [receive, its, ratio] = beside_new(runtime, &queue, &new, TIMED);
        table.push(
            number(sofar as f64),
            [receive, its, ratio, bytes / f64::from(1 << 20)].map(Some),
        );
        found.push((ratio, bytes));
    }
    let through = number(sofar as f64);
    targets.push(Target::at_most(
        format!("queues, receive after {through} messages / from a new queue"),
        1.1,
        found[2].0,
    ));
    targets.push(Target::at_most(
        format!("queues, size of the store after {through} messages / after a tenth of them"),
        1.1,
        found[2].1 / found[1].1,
    ));
    table
}

/// Sends, receives and acknowledges about `count` messages, but at most 50 batches per client.
/// Returns the number of messages processed.
fn process(runtime: &Runtime, queue: &Queue, count: u64) -> u64 {
    let rounds = (count as usize)
        .div_ceil(PROCESSED_BATCH)
        .div_ceil(CLIENTS)
        .min(50);
    let done = runtime.block_on(async {
        let clients = (0..CLIENTS).map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut done = 0;
                for _ in 0..rounds {
                    done += cycle(&queue, PROCESSED_BATCH).await as u64;
                }
                done
            })
        });
        let mut done = 0;
        for client in clients.collect::<Vec<_>>() {
            done += client.await.unwrap();
        }
        done
    });
    // Remove messages that clients sent but did not receive, because they would make the file grow.
    runtime.block_on(queue.purge()).unwrap();
    done
}

/// Measures receives from an old queue and from a new queue in turn. Returns both median times in
/// microseconds, and the median ratio of a round.
pub(super) fn beside_new(runtime: &Runtime, queue: &Queue, new: &Queue, count: usize) -> [f64; 3] {
    let receive = |queue| runtime.block_on(receives(queue, count));
    // Receive once before the measurement, because the first receive creates data of the queue.
    receive(queue);
    receive(new);
    let rounds = (0..BESIDE_ROUNDS).map(|_| (receive(queue), receive(new)));
    let rounds: Vec<_> = rounds.collect();
    let of = |number: fn(&(f64, f64)) -> f64| median(rounds.iter().map(number).collect());
    [
        of(|round| round.0),
        of(|round| round.1),
        of(|round| round.0 / round.1),
    ]
}

async fn receives(queue: &Queue, count: usize) -> f64 {
    send(queue, count).await;
    let mut taken = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let received = queue.receive(Receive::up_to(1)).await.unwrap();
        taken.push(micros(started.elapsed()));
        queue.ack(&[received[0].receipt]).await.unwrap();
    }
    queue.purge().await.unwrap();
    median(taken)
}

fn store_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

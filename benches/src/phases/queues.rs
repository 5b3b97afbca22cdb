//! Queues beside a table of PostgreSQL that is one by `SKIP LOCKED`; and after millions of messages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::types::ToSql;
use postgres::{Client, Statement};
use recto::queues::{NewMessage, Queue, QueueOptions, Receive};
use recto::{OpenOptions, Recto};
use tokio::runtime::Runtime;

use crate::measure::{median, micros};
use crate::peers::postgresql::Cluster;
use crate::report::{Section, Table, Target};
use crate::world::World;

const CLIENTS: usize = 64;
/// Messages a call.
const BATCHES: [usize; 2] = [1, 10];
/// How long each side works in a round.
const SPELL: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
const BODY: [u8; 100] = [b'x'; 100];
const CACHE_BYTES: u64 = 256 << 20;
/// Messages that are there while single receives are timed.
const BACKLOG: usize = 1_000;
/// Messages that have been through the queue when they are timed again.
const PROCESSED: u64 = 3_000_000;
/// Messages a call while those go through.
const PROCESSED_BATCH: usize = 100;
/// Receives that are timed.
const TIMED: usize = 1_000;

const TABLE: &str = "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL, \
                     claimed_until timestamptz, attempts int NOT NULL DEFAULT 0)";
const SEND: &str = "INSERT INTO jobs (body) SELECT $1 FROM generate_series(1, $2)";
const RECEIVE: &str = "UPDATE jobs SET claimed_until = now() + interval '30 seconds', attempts = attempts + 1 \
                       WHERE id IN (SELECT id FROM jobs WHERE claimed_until IS NULL OR claimed_until < now() \
                       ORDER BY id FOR UPDATE SKIP LOCKED LIMIT $1) RETURNING id, body";
const ACK: &str = "DELETE FROM jobs WHERE id = ANY($1)";

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
    let mut table = Table::new(
        format!("{CLIENTS} clients: sent, received, acknowledged, each step on disk when it is answered"),
        &["", "Recto, messages/s", "PostgreSQL, messages/s", "ratio"],
    );
    for batch in BATCHES {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            world
                .progress
                .say(&format!("round {} of {rounds}: {batch} a call", round + 1));
            ours.push(cycles(&runtime, &queue, batch, time));
            if let Some(cluster) = &cluster {
                theirs.push(cycles_of_postgresql(cluster, batch, time));
            }
        }
        let ratio = median(ours.iter().zip(&theirs).map(|(our, their)| our / their).collect());
        if batch == 1 {
            targets.push(Target::at_least(
                "messages/s, one a call",
                10_000.0,
                median(ours.clone()),
            ));
        }
        if cluster.is_some() {
            let what = format!("messages/s over PostgreSQL, {batch} a call");
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
            "Each client sends messages of {} bytes, receives as many, and acknowledges them, one call after the other. \
             PostgreSQL: a connection a client, statements prepared, `synchronous_commit = on`, autovacuum on; the oldest \
             rows are claimed by `UPDATE … WHERE id IN (SELECT … FOR UPDATE SKIP LOCKED)`. The median of {rounds} rounds of \
             {:.1} s, in turn; ratios are those of rounds. Then a queue of its own: {TIMED} receives of one message each by \
             one client, of {BACKLOG} that are there, before and after so many others went through.",
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

/// Messages a second that clients send, receive and acknowledge.
fn cycles(runtime: &Runtime, queue: &Queue, batch: usize, time: Duration) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    runtime.block_on(async {
        let clients = (0..CLIENTS).map(|_| {
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
    let rate = done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
    // What a client left to another that was done: so that each round begins with none.
    runtime.block_on(queue.purge()).unwrap();
    rate
}

async fn cycle(queue: &Queue, batch: usize) -> usize {
    send(queue, batch).await;
    let receive = Receive::up_to(batch).wait(Duration::from_secs(1));
    let received = queue.receive(receive).await.unwrap();
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    if !receipts.is_empty() {
        queue.ack(&receipts).await.unwrap();
    }
    receipts.len()
}

async fn send(queue: &Queue, count: usize) {
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

/// A client of PostgreSQL with its statements.
struct Theirs {
    client: Client,
    send: Statement,
    receive: Statement,
    ack: Statement,
}

impl Theirs {
    fn connect(cluster: &Cluster) -> Self {
        let mut client = cluster.connect();
        let mut prepare = |text| client.prepare(text).unwrap();
        let (send, receive, ack) = (prepare(SEND), prepare(RECEIVE), prepare(ACK));
        Self {
            client,
            send,
            receive,
            ack,
        }
    }

    fn cycle(&mut self, batch: usize) -> usize {
        let count = i32::try_from(batch).unwrap();
        let values: [&(dyn ToSql + Sync); 2] = [&BODY.as_slice(), &count];
        self.client.execute(&self.send, &values).unwrap();
        let rows = self.client.query(&self.receive, &[&i64::from(count)]).unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let bytes: usize = rows.iter().map(|row| row.get::<_, &[u8]>(1).len()).sum();
        assert_eq!(bytes, ids.len() * BODY.len());
        if !ids.is_empty() {
            self.client.execute(&self.ack, &[&ids]).unwrap();
        }
        ids.len()
    }
}

/// The same of PostgreSQL.
fn cycles_of_postgresql(cluster: &Cluster, batch: usize, time: Duration) -> f64 {
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Theirs::connect(cluster)).collect();
    let started = Instant::now();
    let done: usize = thread::scope(|scope| {
        let working: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || {
                    let mut done = 0;
                    while started.elapsed() < time {
                        done += client.cycle(batch);
                    }
                    done
                })
            })
            .collect();
        working.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let rate = done as f64 / started.elapsed().as_secs_f64();
    cluster.connect().batch_execute("DELETE FROM jobs").unwrap();
    rate
}

/// What a receive costs, and how large the file is, before and after many messages.
fn after_many(
    world: &mut World,
    runtime: &Runtime,
    folder: &Path,
    processed: u64,
    targets: &mut Vec<Target>,
) -> Table {
    let (_recto, queue) = runtime.block_on(open(folder));
    let mut table = Table::new(
        "One queue, before and after so many messages went through it",
        &["messages processed", "a receive, µs", "the store, MiB"],
    );
    let mut found = Vec::new();
    let mut sofar = 0;
    // What is allocated at first is not growth.
    for part in [0, processed / 10, processed] {
        while sofar < part {
            sofar += process(runtime, &queue, part - sofar);
            world.progress.say(&format!("{sofar} of {processed} processed"));
        }
        let receive = runtime.block_on(receives(&queue));
        let bytes = store_bytes(folder) as f64;
        table.push(
            sofar.to_string(),
            [Some(receive), Some(bytes / f64::from(1 << 20))],
        );
        found.push((receive, bytes));
    }
    targets.push(Target::at_most(
        format!("a receive after {sofar} messages over one before any"),
        1.1,
        found[2].0 / found[0].0,
    ));
    targets.push(Target::at_most(
        format!("the file after {sofar} messages over that after a tenth of them"),
        1.1,
        found[2].1 / found[1].1,
    ));
    table
}

/// Lets about as many messages go through, at most so many as a spell allows.
fn process(runtime: &Runtime, queue: &Queue, count: u64) -> u64 {
    let rounds = (count as usize)
        .div_ceil(PROCESSED_BATCH)
        .div_ceil(CLIENTS)
        .min(50);
    runtime.block_on(async {
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
    })
}

/// What a receive of one message takes in the middle, in microseconds.
async fn receives(queue: &Queue) -> f64 {
    queue.purge().await.unwrap();
    let mut taken = Vec::new();
    while taken.len() < TIMED {
        send(queue, BACKLOG).await;
        for _ in 0..BACKLOG.min(TIMED - taken.len()) {
            let started = Instant::now();
            let received = queue.receive(Receive::up_to(1)).await.unwrap();
            taken.push(micros(started.elapsed()));
            queue.ack(&[received[0].receipt]).await.unwrap();
        }
    }
    queue.purge().await.unwrap();
    median(taken)
}

fn store_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

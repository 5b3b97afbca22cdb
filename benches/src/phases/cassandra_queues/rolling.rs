//! Phase: receives while the tables for message bodies rotate every few seconds, compared with
//! receives without a rotation.

use std::time::{Duration, Instant};

use futures::future::join_all;
use recto::queues::{Queue, Receive, StoreOptions};

use crate::measure::{median, micros, quantile};
use crate::peers::driver::drop_keyspaces;
use crate::phases::queues::{BODY, send};
use crate::report::{Section, Table, Target};
use crate::world::World;

use super::{Opened, keyspace, runtime};

/// Rotation interval in seconds: message bodies are written to one table for this time, then to the
/// next.
const SLICE_SECONDS: u32 = 10;
/// Grace period in seconds: a body table is emptied at the earliest this time after its last
/// reference.
const MARGIN_SECONDS: u32 = 5;
const SPELL: Duration = Duration::from_secs(35);
const QUICK_SPELL: Duration = Duration::from_secs(15);
const ROUNDS: usize = 4;
const CLIENTS: usize = 4;
const BATCH: usize = 10;

/// Results of one measurement. Times of receives are in milliseconds.
struct Spell {
    median: f64,
    late: f64,
    slowest: f64,
    received: f64,
    emptied: f64,
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let time = if world.arguments.quick { QUICK_SPELL } else { SPELL };
    let address = world.arguments.cassandra.clone();
    let keyspaces = ["long", "short"].map(|slices| keyspace(&format!("{slices}_slices")));
    let turns = StoreOptions {
        rotation_seconds: SLICE_SECONDS,
        grace_seconds: MARGIN_SECONDS,
        ..StoreOptions::default()
    };
    let options = [StoreOptions::default(), turns];
    let runtime = runtime();
    let mut spells = [Vec::new(), Vec::new()];
    // Discard the first round, because it creates the tables.
    for round in 0..=rounds {
        for (side, options) in options.iter().enumerate() {
            world.progress.say(&format!(
                "round {round} of {rounds}, rotation interval {} s",
                options.rotation_seconds
            ));
            let spell = runtime.block_on(async {
                let opened = Opened::cassandra(&address, &keyspaces[side]).await?;
                opened.queues.configure(*options).await.unwrap();
                let spell = spell(&opened, time).await;
                opened.recto.close().await.unwrap();
                Ok::<_, String>(spell)
            })?;
            spells[side].extend((round > 0).then_some(spell));
        }
    }
    runtime.block_on(drop_keyspaces(&address, &keyspaces));
    let ratios = spells[0]
        .iter()
        .zip(&spells[1])
        .map(|(long, short)| short.late / long.late);
    let what = "queues on Cassandra, p99 of a receive: while body tables rotate / while they do not";
    Ok(Section {
        title: "Queues on Cassandra, while body tables rotate".to_owned(),
        text: format!(
            "Receives of up to {BATCH} messages of {} bytes by {CLIENTS} clients, while the ring empties body tables. The \
             rotation interval is {SLICE_SECONDS} s, the grace period {MARGIN_SECONDS} s. Another keyspace has the default \
             interval. {rounds} rounds of {} s.",
            BODY.len(),
            time.as_secs()
        ),
        tables: vec![table(&spells, &options)],
        targets: vec![Target::at_most(what, 2.0, median(ratios.collect()))],
        ..Section::default()
    })
}

fn table(spells: &[Vec<Spell>; 2], options: &[StoreOptions; 2]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "rotation interval",
            "median, ms",
            "p99, ms",
            "slowest, ms",
            "messages received",
            "tables emptied in a round",
        ],
    );
    for (spells, options) in spells.iter().zip(options) {
        let figure = |number: fn(&Spell) -> f64| Some(median(spells.iter().map(number).collect()));
        table.push(
            format!("{} s", options.rotation_seconds),
            [
                figure(|spell| spell.median),
                figure(|spell| spell.late),
                figure(|spell| spell.slowest),
                figure(|spell| spell.received),
                figure(|spell| spell.emptied),
            ],
        );
    }
    table
}

async fn spell(opened: &Opened, time: Duration) -> Spell {
    let before = opened.seen.emptied();
    let started = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let queue = opened.queue.clone();
        tokio::spawn(async move {
            let (mut taken, mut received) = (Vec::new(), 0);
            while started.elapsed() < time {
                received += timed_cycle(&queue, &mut taken).await;
            }
            (taken, received)
        })
    });
    let clients: Vec<_> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    let received = clients.iter().map(|(_, received)| *received as f64).sum();
    let taken: Vec<f64> = clients.into_iter().flat_map(|(taken, _)| taken).collect();
    let part = |part| quantile(taken.clone(), part) / 1e3;
    let emptied = (opened.seen.emptied() - before) as f64;
    opened.queue.purge().await.unwrap();
    Spell {
        median: part(0.5),
        late: part(0.99),
        slowest: part(1.0),
        received,
        emptied,
    }
}

async fn timed_cycle(queue: &Queue, taken: &mut Vec<f64>) -> usize {
    send(queue, BATCH).await;
    let started = Instant::now();
    let received = queue.receive(Receive::up_to(BATCH)).await.unwrap();
    taken.push(micros(started.elapsed()));
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    if !receipts.is_empty() {
        queue.ack(&receipts).await.unwrap();
    }
    receipts.len()
}

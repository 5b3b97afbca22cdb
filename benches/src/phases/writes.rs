//! Phase: durable inserts by several concurrent writers, with one row per call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::flights::{self, Flight};
use crate::measure::{median, micros, quantile};
use crate::peers::ours::Ours;
use crate::peers::postgresql::{self, Cluster};
use crate::peers::sqlite::{self, Layout};
use crate::report::{Section, Table};
use crate::world::World;

const WRITERS: [usize; 3] = [1, 8, 64];
/// Time for which each number of writers is measured in a round.
const SPELL: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
const CACHE_BYTES: u64 = 512 << 20;

/// Flight number of the next row to insert.
static NEXT: AtomicI32 = AtomicI32::new(0);

/// Result of one round: inserts per second, and the time of each insert in microseconds.
type Spell = (f64, Vec<f64>);

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let time = if world.arguments.quick { SPELL / 5 } else { SPELL };
    let folder = world.folder.join("writes");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let base = Arc::new(flights::read());
    let ours = Ours::open(&folder.join("recto"), CACHE_BYTES);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let sqlite = sqlite::open(&Layout::WithoutRowid.file(&folder), CACHE_BYTES, false, "FULL");
    sqlite::create(&sqlite, Layout::WithoutRowid);
    let cluster = if world.arguments.postgresql {
        Some(postgresql()?)
    } else {
        None
    };
    let mut table = Table::new("", &["", "puts/s", "median, µs", "p99, µs"]);
    let mut found: Vec<(String, Vec<Spell>)> = Vec::new();
    for round in 0..rounds {
        let mut note = |name: String, spell: Spell| {
            world
                .progress
                .say(&format!("round {} of {rounds}: {name}", round + 1));
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, spells)) => spells.push(spell),
                None => found.push((name, vec![spell])),
            }
        };
        for writers in WRITERS {
            note(
                named("Recto", writers),
                put(&runtime, &ours, &base, writers, time),
            );
        }
        note(
            "SQLite WITHOUT ROWID, 1 writer".to_owned(),
            insert(&sqlite, &base, time),
        );
        if let Some(cluster) = &cluster {
            for writers in WRITERS {
                note(
                    named("PostgreSQL", writers),
                    insert_postgresql(cluster, &base, writers, time),
                );
            }
        }
    }
    for (name, spells) in found {
        let rate = median(spells.iter().map(|(rate, _)| *rate).collect());
        let all: Vec<f64> = spells.into_iter().flat_map(|(_, micros)| micros).collect();
        table.push(name, [rate, median(all.clone()), quantile(all, 0.99)].map(Some));
    }
    Ok(Section {
        title: "Writes with group commit".to_owned(),
        text: format!(
            "Each writer stores one flight after the other, each on disk before the next. Concurrent writers share a \
             commit. SQLite (WAL, `synchronous = FULL`) has one writer. PostgreSQL has a connection for each writer, \
             and `synchronous_commit = on`. {rounds} rounds of {:.1} s.",
            time.as_secs_f64()
        ),
        tables: vec![table],
        ..Section::default()
    })
}

fn named(side: &str, writers: usize) -> String {
    let plural = if writers == 1 { "" } else { "s" };
    format!("{side}, {writers} writer{plural}")
}

fn postgresql() -> Result<Cluster, String> {
    let mut cluster = Cluster::new()?;
    cluster.start(CACHE_BYTES);
    let mut client = cluster.connect();
    postgresql::create(&mut client);
    postgresql::index(&mut client);
    Ok(cluster)
}

/// Returns a flight with a new flight number, so that its key does not exist yet.
fn next(base: &[Flight]) -> Flight {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut flight = base[number as usize % base.len()].clone();
    flight.flight = number;
    flight
}

fn put(
    runtime: &tokio::runtime::Runtime,
    ours: &Ours,
    base: &Arc<Vec<Flight>>,
    writers: usize,
    time: Duration,
) -> Spell {
    let begun = Instant::now();
    let micros = runtime.block_on(async {
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let (flights, base) = (ours.flights.clone(), Arc::clone(base));
                tokio::spawn(async move {
                    let mut taken = Vec::new();
                    while begun.elapsed() < time {
                        let flight = next(&base);
                        let started = Instant::now();
                        flights.put(&flight).await.unwrap();
                        taken.push(micros(started.elapsed()));
                    }
                    taken
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        all
    });
    (micros.len() as f64 / begun.elapsed().as_secs_f64(), micros)
}

fn insert(connection: &rusqlite::Connection, base: &[Flight], time: Duration) -> Spell {
    let begun = Instant::now();
    let mut taken = Vec::new();
    while begun.elapsed() < time {
        let flight = next(base);
        let started = Instant::now();
        sqlite::insert(connection, std::slice::from_ref(&flight));
        taken.push(micros(started.elapsed()));
    }
    (taken.len() as f64 / begun.elapsed().as_secs_f64(), taken)
}

fn insert_postgresql(cluster: &Cluster, base: &[Flight], writers: usize, time: Duration) -> Spell {
    let mut clients: Vec<_> = (0..writers).map(|_| cluster.connect()).collect();
    let begun = Instant::now();
    let taken: Vec<f64> = thread::scope(|scope| {
        let handles: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || {
                    let statement = client.prepare(&postgresql::insert_text()).unwrap();
                    let mut taken = Vec::new();
                    while begun.elapsed() < time {
                        let flight = next(base);
                        let started = Instant::now();
                        postgresql::insert(client, &statement, &flight);
                        taken.push(micros(started.elapsed()));
                    }
                    taken
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    });
    (taken.len() as f64 / begun.elapsed().as_secs_f64(), taken)
}

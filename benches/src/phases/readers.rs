//! Phase: pages of concurrent readers, first alone, then while a writer writes at full speed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::flights::{self, CARRIERS, Flight};
use crate::measure::{median, micros, quantile};
use crate::peers::ours::Ours;
use crate::peers::postgresql::Postgresql;
use crate::peers::sqlite::{self, Layout};
use crate::peers::{Filter, Peer, Question, Start, count};
use crate::report::{Section, Table, Target};
use crate::world::{Cache, Data, World};

const PAGE_ROWS: u32 = 20;
const STARTS: usize = 2_000;
const ROWS_APART: u32 = 20;
const DEPTH: u64 = 1_000;
/// Time for which each number of readers is measured in a round.
const SPELL: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 5;
/// Number of rows that the writer inserts per call.
const BATCH_ROWS: usize = 100;
/// Cache size of each SQLite connection in bytes. Connections do not share a cache.
const CONNECTION_CACHE_BYTES: u64 = 256 << 20;
const READERS: [usize; 3] = [1, 2, 8];

/// Function that creates a reader of a database, for another thread.
type MakeReader<'a> = Box<dyn Fn() -> Box<dyn Peer> + Sync + 'a>;
/// Function that inserts a batch of rows.
type Writer<'a> = Box<dyn FnMut(&[Flight]) + Send + 'a>;

/// Compared database: its name, and functions that create its readers and its writer.
struct Side<'a> {
    name: &'static str,
    reader: MakeReader<'a>,
    writer: Box<dyn Fn() -> Writer<'a> + 'a>,
}

/// Results of one measurement. `micros` has the time of each page in microseconds.
struct Spell {
    pages_per_second: f64,
    micros: Vec<f64>,
    written_per_second: f64,
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let spell = if world.arguments.quick { SPELL / 5 } else { SPELL };
    world.data()?.start_postgresql(Cache::Whole);
    let data = world.data.as_ref().expect("it was made");
    data.spoil();
    let progress = &mut world.progress;
    let mut ours = data.ours(Cache::Whole);
    let question = Question {
        filter: Filter::Equal,
        backward: false,
        rows: PAGE_ROWS,
        span: (0, 0),
    };
    progress.say("starting rows");
    let apart = ROWS_APART.min((data.deepest() / (2 * STARTS as u64)).max(1) as u32);
    let starts = ours.starts(&question, DEPTH, STARTS, apart);
    let sides = sides(data, &ours);
    let mut alone = Table::new(
        "",
        &[
            "pages/s",
            "1 reader",
            "2 readers",
            "8 readers",
            "2 / 1",
            "8 / 1",
            "8 readers, median, µs",
            "p99, µs",
        ],
    );
    let mut targets = Vec::new();
    let found = alone_rounds(&sides, &question, &starts, (rounds, spell), progress);
    for (side, spells) in sides.iter().zip(&found) {
        let rate = |index: usize| median(spells[index].iter().map(|spell| spell.pages_per_second).collect());
        let of_eight: Vec<f64> = spells[2].iter().flat_map(|spell| spell.micros.clone()).collect();
        let ratio = |one: usize| rate(one) / rate(0);
        alone.push(
            side.name,
            [
                rate(0),
                rate(1),
                rate(2),
                ratio(1),
                ratio(2),
                median(of_eight.clone()),
                quantile(of_eight, 0.99),
            ]
            .map(Some),
        );
        if side.name == "Recto" {
            targets.push(Target::at_least(
                "Recto, pages/s, 8 readers / 1 reader",
                1.8,
                ratio(2),
            ));
        }
    }
    let beside = beside_a_writer(&sides, &question, &starts, (rounds, spell), progress);
    Ok(Section {
        title: "Readers at the same time".to_owned(),
        text: format!(
            "Pages of {PAGE_ROWS} rows at depth {DEPTH}, all data cached, a thread and a connection for each reader. \
             {rounds} rounds of {:.1} s. The machine has {} processors.",
            spell.as_secs_f64(),
            thread::available_parallelism().map_or(0, std::num::NonZero::get)
        ),
        tables: vec![alone, beside],
        targets,
        ..Section::default()
    })
}

fn sides<'a>(data: &'a Data, ours: &'a Ours) -> Vec<Side<'a>> {
    let (recto, sqlite_file) = (ours.recto.clone(), data.sqlite_file(Layout::Indexed));
    let sqlite_folder = sqlite_file.parent().unwrap().to_owned();
    let mut sides = vec![
        Side {
            name: "Recto",
            reader: Box::new(|| Box::new(ours.beside())),
            writer: Box::new(move || {
                let ours = Ours::of(recto.clone(), crate::peers::ours::runtime());
                Box::new(move |rows| ours.runtime.block_on(ours.flights.put_all(rows)).unwrap())
            }),
        },
        Side {
            name: "SQLite",
            reader: Box::new(move || {
                Box::new(sqlite::Sqlite::open(
                    &sqlite_folder,
                    Layout::Indexed,
                    CONNECTION_CACHE_BYTES,
                    true,
                ))
            }),
            writer: Box::new(move || {
                let connection = sqlite::open(&sqlite_file, CONNECTION_CACHE_BYTES, true, "FULL");
                Box::new(move |rows| sqlite::insert(&connection, rows))
            }),
        },
    ];
    if let Some(cluster) = &data.cluster {
        sides.push(Side {
            name: "PostgreSQL",
            reader: Box::new(|| Box::new(Postgresql::new(cluster.connect()))),
            writer: Box::new(|| {
                let mut client = cluster.connect();
                Box::new(move |rows| crate::peers::postgresql::copy(&mut client, rows))
            }),
        });
    }
    sides
}

/// Measures readers without a writer. Returns the results by database, number of readers, and
/// round.
fn alone_rounds(
    sides: &[Side<'_>],
    question: &Question,
    starts: &[Start],
    (rounds, time): (usize, Duration),
    progress: &mut crate::progress::Progress,
) -> Vec<Vec<Vec<Spell>>> {
    let mut found: Vec<Vec<Vec<Spell>>> = sides
        .iter()
        .map(|_| READERS.iter().map(|_| Vec::new()).collect())
        .collect();
    for round in 0..rounds {
        for (side, spells) in sides.iter().zip(&mut found) {
            for (readers, spells) in READERS.into_iter().zip(spells) {
                progress.say(&format!(
                    "round {} of {rounds}: {readers} readers of {}",
                    round + 1,
                    side.name
                ));
                spells.push(read(side, question, starts, readers, time, None));
            }
        }
    }
    found
}

fn beside_a_writer(
    sides: &[Side<'_>],
    question: &Question,
    starts: &[Start],
    (rounds, time): (usize, Duration),
    progress: &mut crate::progress::Progress,
) -> Table {
    let mut table = Table::new(
        format!(
            "Two readers, and a writer that stores durable batches of {BATCH_ROWS} rows (SQLite: WAL, \
             `synchronous = FULL`; PostgreSQL: COPY):"
        ),
        &[
            "",
            "pages/s",
            "median, µs",
            "p99, µs",
            "slowest, µs",
            "rows written/s",
        ],
    );
    let base = flights::read();
    for side in sides {
        let mut spells = Vec::new();
        let mut from = 0;
        for round in 0..rounds {
            progress.say(&format!(
                "round {} of {rounds}: readers and a writer of {}",
                round + 1,
                side.name
            ));
            spells.push(read(side, question, starts, 2, time, Some((&base, &mut from))));
        }
        let all: Vec<f64> = spells.iter().flat_map(|spell| spell.micros.clone()).collect();
        let of = |figure: fn(&Spell) -> f64| Some(median(spells.iter().map(figure).collect()));
        table.push(
            side.name,
            [
                of(|spell| spell.pages_per_second),
                Some(median(all.clone())),
                Some(quantile(all.clone(), 0.99)),
                Some(quantile(all, 1.0)),
                of(|spell| spell.written_per_second),
            ],
        );
    }
    table
}

/// Lets concurrent readers read pages for some time. If `write` has rows, a writer inserts them at
/// the same time.
fn read(
    side: &Side<'_>,
    question: &Question,
    starts: &[Start],
    readers: usize,
    time: Duration,
    write: Option<(&[Flight], &mut usize)>,
) -> Spell {
    let is_over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let started = std::sync::Barrier::new(readers + 1);
    let writer = write.map(|(base, from)| ((side.writer)(), base, from));
    thread::scope(|scope| {
        let handles: Vec<_> = (0..readers)
            .map(|reader| {
                let (is_over, started, open) = (&is_over, &started, &side.reader);
                scope.spawn(move || {
                    let mut peer = open();
                    count(peer.as_mut(), question, &starts[..50.min(starts.len())], false);
                    started.wait();
                    pages(peer.as_mut(), question, starts, reader, is_over)
                })
            })
            .collect();
        started.wait();
        let begun = Instant::now();
        if let Some((writer, base, from)) = writer {
            let (is_over, written) = (&is_over, &written);
            scope.spawn(move || write_on(writer, base, from, is_over, written));
        }
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let micros: Vec<f64> = handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect();
        let seconds = begun.elapsed().as_secs_f64();
        Spell {
            pages_per_second: micros.len() as f64 / seconds,
            written_per_second: written.load(Ordering::Relaxed) as f64 / seconds,
            micros,
        }
    })
}

/// Reads pages until `is_over` is set. Returns the time of each page in microseconds.
fn pages(
    peer: &mut dyn Peer,
    question: &Question,
    starts: &[Start],
    reader: usize,
    is_over: &AtomicBool,
) -> Vec<f64> {
    let mut taken = Vec::with_capacity(100_000);
    let mut index = reader * 97;
    while !is_over.load(Ordering::Relaxed) {
        index = (index + 1) % starts.len();
        let begun = Instant::now();
        count(peer, question, &starts[index..=index], false);
        taken.push(micros(begun.elapsed()));
    }
    taken
}

/// Inserts new rows until `is_over` is set. The rows are a century later than all others, so that
/// no measured page contains them.
fn write_on(
    mut writer: Writer<'_>,
    base: &[Flight],
    from: &mut usize,
    is_over: &AtomicBool,
    written: &AtomicU64,
) {
    const CENTURY_MILLISECONDS: i64 = 100 * 365 * 24 * 3_600 * 1_000;
    while !is_over.load(Ordering::Relaxed) {
        let batch: Vec<Flight> = base
            .iter()
            .cycle()
            .skip(*from % base.len())
            .take(BATCH_ROWS)
            .enumerate()
            .map(|(index, flight)| {
                let mut new = flight.clone();
                CARRIERS[index % CARRIERS.len()].clone_into(&mut new.carrier);
                // Use the row's sequence number as flight number, so that every row has a new key.
                new.flight = i32::try_from(*from + index).unwrap();
                new.time_hour.0 += CENTURY_MILLISECONDS;
                new
            })
            .collect();
        writer(&batch);
        *from += BATCH_ROWS;
        written.fetch_add(BATCH_ROWS as u64, Ordering::Relaxed);
    }
}

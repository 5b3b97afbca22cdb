//! Phase: time to open an embedded store after its process was killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::flights;
use crate::measure::micros;
use crate::peers::ours::Ours;
use crate::peers::{Filter, Question, Start, count};
use crate::report::{Section, Table};
use crate::world::{World, for_chunks};

/// Command-line argument with which this program runs as the process to kill.
pub(crate) const VICTIM: &str = "fill-until-killed";
const ROWS: u64 = 5_000_000;
const QUICK_ROWS: u64 = 200_000;
const ROUNDS: usize = 5;
const CACHE_BYTES: u64 = 1 << 30;
/// Time for which the process inserts single rows before it is killed.
const PUTTING: Duration = Duration::from_millis(500);
/// Line that the process prints after it has inserted its first rows.
const FILLED: &str = "filled";

pub(super) fn run(world: &mut World) -> Section {
    let rows = if world.arguments.quick { QUICK_ROWS } else { ROWS };
    let rounds = world.arguments.rounds(ROUNDS);
    let folder = world.folder.join("reopen");
    let _ = std::fs::remove_dir_all(&folder);
    let mut times = Vec::new();
    for round in 0..rounds {
        world.progress.say(&format!(
            "round {} of {rounds}: storing {rows} rows, then kill -9",
            round + 1
        ));
        kill(&folder, if round == 0 { rows } else { 0 });
        times.push(reopen(&folder));
    }
    let clean: Vec<(f64, f64)> = (0..rounds).map(|_| reopen(&folder)).collect();
    let _ = std::fs::remove_dir_all(&folder);
    let mut table = Table::new("", &["", "opened in, ms", "slowest, ms", "first page, µs"]);
    for (name, times) in [("after kill -9", times), ("after an orderly end", clean)] {
        let opened =
            |part| crate::measure::quantile(times.iter().map(|(open, _)| *open / 1e3).collect(), part);
        let first = crate::measure::median(times.iter().map(|(_, page)| *page).collect());
        table.push(name, [opened(0.5), opened(1.0), first].map(Some));
    }
    Section {
        title: "Opening after kill -9".to_owned(),
        text: format!(
            "{rows} flights. A process that puts durable single rows is killed. Then the store is opened, with its file \
             in the system's cache. {rounds} rounds."
        ),
        tables: vec![table],
        ..Section::default()
    }
}

/// Starts the process that fills a store, and kills it while it inserts rows.
fn kill(folder: &Path, rows: u64) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([VICTIM, folder.to_str().unwrap(), &rows.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), FILLED);
    std::thread::sleep(PUTTING);
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Opens the store and reads the first page. Returns the time of each step, in microseconds.
fn reopen(folder: &Path) -> (f64, f64) {
    let started = Instant::now();
    let mut ours = Ours::open(folder, CACHE_BYTES);
    let opened = micros(started.elapsed());
    let question = Question {
        filter: Filter::Equal,
        backward: false,
        rows: 20,
        span: (0, 0),
    };
    let start = Start {
        cursor: String::new(),
        time_hour: 0,
        carrier: String::new(),
        flight: 0,
    };
    let started = Instant::now();
    assert_eq!(count(&mut ours, &question, &[start], true), 20);
    (opened, micros(started.elapsed()))
}

/// Main function of the process to kill. It inserts `rows` rows, prints a line, and then inserts
/// single rows until it is killed.
pub(crate) fn fill_until_killed(folder: &Path, rows: u64) {
    let base = flights::read();
    let ours = Ours::open(folder, CACHE_BYTES);
    for_chunks(&base, rows, |chunk, _| {
        ours.runtime.block_on(ours.flights.put_all(chunk)).unwrap();
    });
    println!("{FILLED}");
    for number in 0.. {
        let mut flight = base[number as usize % base.len()].clone();
        flight.flight = number + 100_000;
        ours.runtime
            .block_on(ours.flights.put(&flight).into_future())
            .unwrap();
    }
}

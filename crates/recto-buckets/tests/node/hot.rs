//! Tests of several processes that write to one partition, read pages of it and split it at full speed.
//! The tests check that each page shows the writes that were acknowledged before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto_buckets::{Change, PiecesErrorKind};
use recto_model::table::{Direction, ReadDirection};
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::sizing::{Sizing, counted_bytes};
use recto_protocol::buckets::{Directory, Shards};
use tokio::task::JoinHandle;

use crate::history::{History, Number, Page};
use crate::process::{Process, Setting, TIME, patch, put, said, short_protocol};
use crate::{SCALE_VARIABLE, SEED_VARIABLE, number};

/// Number of samples at which a bucket is split.
const SAMPLES: u32 = 8;
const TARGET: u64 = 1 << 20;
const LARGEST: u64 = 2_000;
const PROCESSES: i64 = 3;
/// Pause of a reader between two passes, so that the writers get most of the processors.
const PAGES_PAUSE: Duration = Duration::from_millis(50);
const WRITERS: u64 = 8;
const HOUR_MICROS: i64 = 3_600_000_000;
/// Duration of the load at full speed.
const STORM: Duration = Duration::from_secs(15);
/// Time limit until all splits are complete.
const SETTLED: Duration = Duration::from_secs(600);
/// Upper bound of the keys that are written in random order.
const SPREAD: i64 = 1 << 40;

/// Parameters of one run of the load test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) stream: &'static str,
    pub(crate) direction: Direction,
    /// True if the clocks of the processes differ by an hour. Each process then has its own keys.
    pub(crate) is_apart: bool,
    /// Number of keys in ten that increase with the arrival of rows. The other keys are random.
    pub(crate) in_order: i64,
    pub(crate) shards: u8,
}

/// Generator of random numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((bits ^ (bits >> 31)) % end.unsigned_abs()).unwrap()
    }
}

/// State that all processes of a run share.
pub(crate) struct Shared {
    run: Run,
    pub(crate) history: History,
    next: AtomicI64,
    pub(crate) is_over: AtomicBool,
}

impl Shared {
    pub(crate) fn new(run: Run) -> Arc<Self> {
        Arc::new(Self {
            run,
            history: History::default(),
            next: AtomicI64::new(1_000),
            is_over: AtomicBool::new(false),
        })
    }
}

pub(crate) struct One {
    pub(crate) process: Process,
    pub(crate) index: i64,
    pub(crate) shared: Arc<Shared>,
}

impl One {
    /// Returns a new key, or a key that may exist.
    fn key(&self, random: &mut Random) -> i64 {
        let run = self.shared.run;
        let at = if random.below(10) < run.in_order {
            let next = self.shared.next.fetch_add(1, Ordering::Relaxed);
            // Let some rows arrive late or exist already.
            if random.below(5) == 0 {
                next - random.below(next.min(50))
            } else {
                next
            }
        } else {
            let bits = if random.below(4) == 0 {
                random.below(64) << 32
            } else {
                random.below(SPREAD)
            };
            bits - bits % 7
        };
        if run.is_apart {
            at * PROCESSES + self.index
        } else {
            at
        }
    }

    pub(crate) async fn writes(&self, mut random: Random) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let at = self.key(&mut random);
            let is_put = random.below(6) > 0;
            self.writes_one(at, is_put, &mut random).await;
        }
    }

    /// Puts a row, overwrites only its text, or deletes it.
    pub(crate) async fn writes_one(&self, at: i64, is_put: bool, random: &mut Random) {
        let history = &self.shared.history;
        let number = history.tries(at, is_put);
        let text = text_of(number, random);
        let change = match (is_put, random.below(3)) {
            (false, _) => Change::Delete,
            (true, 0) => patch(&text),
            (true, _) => put(None, Some(&text), None),
        };
        match self.process.change(at, change).await {
            Ok(stamp) => history.acknowledges(number, stamp.0),
            Err(error) => {
                history.gives_up(number, self.process.newest_stamp.load(Ordering::Relaxed));
                if !is_passing(error.kind()) {
                    history.fails(format!("{at} was refused: {error}"));
                }
            }
        }
    }

    /// Joins a few random buckets from time to time.
    async fn joins(self: Arc<Self>, mut random: Random) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let [first, count] = [100, 4].map(|end| usize::try_from(random.below(end)).unwrap());
            let joined = self.process.partition.join_any(first, count);
            // Another process may have changed the range map, or the split may not end in time.
            let _ = joined.await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    pub(crate) async fn pages(&self, mut random: Random) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            self.pages_through(random.below(2) == 0, 1 + random.below(2_000))
                .await;
            tokio::time::sleep(PAGES_PAUSE).await;
        }
    }

    pub(crate) async fn pages_through(&self, is_backward: bool, limit: i64) {
        let direction = if is_backward {
            ReadDirection::Backward
        } else {
            ReadDirection::Forward
        };
        let mut after = None;
        loop {
            let begun = self.shared.history.now();
            let slice = self
                .process
                .slice(direction, after, u32::try_from(limit).unwrap());
            let read = match self.process.read(&slice).await {
                Ok(read) => read,
                Err(error) => {
                    if !is_passing(error.kind()) {
                        self.shared.history.fails(format!("a page was refused: {error}"));
                    }
                    return;
                }
            };
            let rows: Vec<_> = said(&read)
                .iter()
                .map(|(at, text)| (*at, number_of(text)))
                .collect();
            let last = rows.last().map(|(at, _)| *at);
            let to = last.filter(|_| !read.exhausted);
            let is_backward = is_backward == (self.shared.run.direction == Direction::Ascending);
            self.shared.history.reads(&Page {
                begun,
                is_backward,
                after,
                to,
                rows,
            });
            after = last;
            if read.exhausted || last.is_none() {
                return;
            }
        }
    }
}

fn is_passing(kind: PiecesErrorKind) -> bool {
    use PiecesErrorKind::{OutcomeUnknown, Timeout, Unavailable};
    matches!(kind, OutcomeUnknown | Timeout | Unavailable)
}

/// Returns the text of a row, which contains the number of the write.
pub(crate) fn text_of(number: Number, random: &mut Random) -> Vec<u8> {
    let mut text = format!("{number} ").into_bytes();
    text.resize(usize::try_from(100 + random.below(1_500)).unwrap(), b'x');
    text
}

pub(crate) fn number_of(text: &[u8]) -> Number {
    let text = std::str::from_utf8(text).unwrap();
    text.split_once(' ').unwrap().0.parse().unwrap()
}

fn setting(run: Run) -> Setting {
    Setting {
        direction: run.direction,
        sizing: Sizing::with_samples(TARGET, LARGEST, 0.1, SAMPLES).unwrap(),
        stream: run.stream.to_owned(),
        protocol: short_protocol(),
        shards: Shards::new(run.shards).unwrap(),
    }
}

async fn storm(run: Run) {
    let shared = Shared::new(run);
    let seed = number(SEED_VARIABLE).unwrap_or(1);
    let mut all = Vec::new();
    for index in 0..PROCESSES {
        let off = if run.is_apart {
            (index - 1) * HOUR_MICROS
        } else {
            0
        };
        let process = Process::start(&setting(run), off).await;
        all.push(Arc::new(One {
            process,
            index,
            shared: Arc::clone(&shared),
        }));
    }
    let mut tasks: Vec<JoinHandle<()>> = Vec::new();
    let mut working = Vec::new();
    for (index, one) in (0_u64..).zip(&all) {
        working.push(one.process.works());
        for writer in 0..WRITERS {
            let (one, random) = (Arc::clone(one), Random((seed << 16) + (index << 8) + writer));
            tasks.push(tokio::spawn(async move { one.writes(random).await }));
        }
        let (one, random) = (Arc::clone(one), Random((seed << 16) + (index << 8) + WRITERS));
        tasks.push(tokio::spawn(async move { one.pages(random).await }));
        let random = Random((seed << 16) + (index << 8) + WRITERS + 1);
        tasks.push(tokio::spawn(Arc::clone(&all[index as usize]).joins(random)));
    }
    let begun = Instant::now();
    let storm = STORM * u32::try_from(number(SCALE_VARIABLE).unwrap_or(1)).unwrap();
    while begun.elapsed() < storm && !shared.history.is_wrong() {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if begun.elapsed() > storm / 2 && working.len() == all.len() {
            // Stop one splitter in the middle of its work.
            working.remove(0);
        }
    }
    shared.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let seed = format!("{SEED_VARIABLE}={seed}");
    shared
        .history
        .end()
        .unwrap_or_else(|wrong| panic!("{run:?}, {seed}: {wrong}"));
    println!("{run:?}: {}", shared.history.end().unwrap());
    tell(&all).await;
    settled(&all).await;
    for one in &all {
        one.pages_through(false, 1_000).await;
        one.pages_through(true, 1_000).await;
    }
    shared
        .history
        .end()
        .unwrap_or_else(|wrong| panic!("{run:?}, {seed}: {wrong}"));
    tell(&all).await;
}

async fn tell(all: &[Arc<One>]) {
    let mut calls = BTreeMap::new();
    for one in all {
        for (call, count) in one.process.calls.all() {
            *calls.entry(call).or_insert(0) += count;
        }
    }
    let windows = all[0].process.directory().await;
    let pieces: usize = windows.iter().map(|window| window.pieces.len()).sum();
    println!("  {pieces} pieces, version {}, {calls:?}", windows[0].version);
}

/// Waits until no split is unfinished, all old buckets are cleared, and no bucket has enough samples for a split.
async fn settled(all: &[Arc<One>]) {
    let begun = Instant::now();
    loop {
        for one in all {
            one.process.partition.look(TIME).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let process = &all[0].process;
        let windows = process.directory().await;
        let is_busy = windows.iter().any(|window| {
            window.is_being_cut() || window.is_to_be_cleared() || window.inner_edge().is_some()
        });
        let fullest = if is_busy {
            0
        } else {
            fullest(process, &windows).await
        };
        if !is_busy && fullest * 2 < SAMPLES as usize * 3 {
            println!("  settled in {:?}", begun.elapsed());
            return;
        }
        assert!(begun.elapsed() < SETTLED, "busy: {is_busy}, {fullest} samples");
    }
}

/// Returns the number of sampled rows in the bucket that has the most sampled rows.
async fn fullest(process: &Process, windows: &[Directory]) -> usize {
    let mut fullest = 0;
    let rows = process.rows(ReadDirection::Forward, 5_000).await;
    let sampled: Vec<_> = rows
        .iter()
        .map(|(at, text)| (process.key_of(*at), counted_bytes(8 + text.len() as u64)))
        .collect();
    for (span, piece) in windows.iter().flat_map(Directory::spans) {
        let within = sampled.iter().filter(|(key, _)| span.has(key));
        let sampled = within.filter(|(key, bytes)| piece.sampling.is_sampled(hash(key), *bytes));
        fullest = fullest.max(sampled.count());
    }
    fullest
}

#[tokio::test(flavor = "multi_thread")]
async fn of_keys_in_order_and_clocks_that_are_hours_apart() {
    storm(Run {
        stream: "in order, apart",
        direction: Direction::Ascending,
        is_apart: true,
        in_order: 9,
        shards: 1,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_keys_in_no_order_and_clocks_that_are_hours_apart() {
    storm(Run {
        stream: "in no order, apart",
        direction: Direction::Descending,
        is_apart: true,
        in_order: 1,
        shards: 1,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_rows_that_all_write_and_delete() {
    storm(Run {
        stream: "together",
        direction: Direction::Descending,
        is_apart: false,
        in_order: 6,
        shards: 4,
    })
    .await;
}

//! Child processes of the tests of buckets. They write, delete and read pages until they are
//! killed, and print one line for each event, with times by the machine's clock.

use std::fmt::Write as _;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use recto::{Environment, ErrorKind, OpenOptions, Recto, Value};
use recto_testkit::generate::Rng;

use super::lists::{List, Lists, WrittenCollection, key_of};
use crate::common::children;
use crate::common::clocks::Clocks;

/// Environment variable that tells a child process the address of the store.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Environment variable that tells a child process its id, which no other process has.
const NUMBER: &str = "RECTO_TEST_NUMBER";
/// Environment variable that tells a child process to write only its own keys of the collection
/// `events`. The value is an index below [`MAX_OWNERS`]. Without a value, the process writes keys
/// that all processes share.
const OWN: &str = "RECTO_TEST_OWN";
/// Environment variable that tells a child process the error of its wall clock, in microseconds.
const CLOCK_OFF: &str = "RECTO_TEST_CLOCK_OFF_MICROS";
/// Environment variable that tells a child process the pause between two writes of a writer, in
/// milliseconds.
const REST: &str = "RECTO_TEST_REST_MILLIS";
const WRITES_OF_A_PROCESS: u64 = 1_000_000_000;
/// Maximum number of processes that each write only their own keys.
pub(crate) const MAX_OWNERS: i64 = 8;
/// Maximum number of processes whose new keys for the collection `log` never coincide.
const MAX_NAMED: u64 = 64;
const WRITERS: u64 = 3;
/// Maximum number of rows that one request writes.
const BATCH: usize = 6;
/// One in this number of requests writes several rows.
const BATCHES: u64 = 4;
/// One in this number of changes in the collection `events` deletes its row.
const DELETED: u64 = 6;
/// Interval, in microseconds, after which writers advance to the next key of the collection
/// `events`.
const KEY_MICROS: i64 = 20_000;
/// Upper bound of the keys that writers draw uniformly at random.
const SPREAD: i64 = 1 << 40;
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Runs in a child process: writes, deletes and reads pages until the process is killed.
pub(crate) async fn write_and_page_until_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let number: u64 = variable(NUMBER).parse().unwrap();
    let environment = Clocks::off_by(variable(CLOCK_OFF).parse().unwrap()).environment();
    let options = OpenOptions::new().environment(environment);
    let recto = loop {
        match Recto::open_with(&*variable(ADDRESS), options.clone()).await {
            Ok(recto) => break recto,
            // A node may be down, so try again.
            Err(error) => println!("not opened: {error}"),
        }
    };
    let process = Process {
        lists: Lists::new(recto),
        clock: Environment::system(),
        own: variable(OWN).parse().ok(),
        next: AtomicU64::new(number * WRITES_OF_A_PROCESS),
        rest: Duration::from_millis(variable(REST).parse().unwrap()),
    };
    let random = |part: u64| recto_testkit::generate::rng(number * 1_000 + part);
    let writers = (0..WRITERS).map(|writer| {
        // The first writer writes the collection `log`, whose rows are never overwritten. The
        // others write the collection `events`.
        let of = if writer == 0 {
            WrittenCollection::Log
        } else {
            WrittenCollection::Events
        };
        process.writes(of, random(writer))
    });
    let pages = process.pages(random(WRITERS));
    let records = process.changes_records(random(WRITERS + 1));
    futures::future::join3(futures::future::join_all(writers), pages, records).await;
}

struct Process {
    lists: Lists,
    clock: Environment,
    own: Option<i64>,
    next: AtomicU64,
    rest: Duration,
}

/// Put (`is_put` is true) or deletion of the row with the key `at`. `number` is the id of the
/// change.
struct Change {
    at: i64,
    number: u64,
    is_put: bool,
}

impl Process {
    fn now(&self) -> i64 {
        self.clock.now_micros()
    }

    async fn writes(&self, of: WrittenCollection, mut random: Rng) {
        loop {
            self.write(of, &mut random).await;
            tokio::time::sleep(self.rest).await;
        }
    }

    async fn write(&self, of: WrittenCollection, random: &mut Rng) {
        let count = if random.u64(0..BATCHES) == 0 {
            random.usize(2..=BATCH)
        } else {
            1
        };
        let mut changes: Vec<Change> = Vec::new();
        while changes.len() < count {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (at, is_put) = match of {
                // A row of the collection `log` must not be overwritten, so it needs a new key.
                WrittenCollection::Log => (self.new_key(number), true),
                WrittenCollection::Events => (self.key(random), random.u64(0..DELETED) > 0),
            };
            if changes.iter().all(|change| change.at != at) {
                changes.push(Change { at, number, is_put });
            }
        }
        self.says("tries", of, &changes);
        match self.send(of, &changes, random).await {
            Ok(()) => self.says("done", of, &changes),
            Err(error) => {
                self.says("failed", of, &changes);
                says_if_wrong(&error);
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }

    async fn send(&self, of: WrittenCollection, changes: &[Change], random: &mut Rng) -> recto::Result<()> {
        let collection = self.lists.collection(of);
        let mut row = |change: &Change| {
            self.lists
                .row(of, change.at, change.number, random.usize(200..1_500))
        };
        if let [change] = changes {
            return if change.is_put {
                collection.put(&row(change)).await.map(drop)
            } else {
                collection.delete(&key_of(change.at)[..]).await.map(drop)
            };
        }
        let rows: Vec<_> = changes.iter().map(row).collect();
        let mut batch = self.lists.recto.batch();
        if random.bool() {
            batch.each_for_itself();
        }
        for (change, row) in changes.iter().zip(&rows) {
            if change.is_put {
                batch.put(collection, row)?;
            } else {
                batch.delete(collection, &key_of(change.at)[..])?;
            }
        }
        batch.commit().await
    }

    /// Returns a key that no row has and that no other process creates. `number` is the id of the
    /// write.
    fn new_key(&self, number: u64) -> i64 {
        let process = (number / WRITES_OF_A_PROCESS % MAX_NAMED).cast_signed();
        (self.now() * MAX_NAMED.cast_signed() + process) * 2 + (number % 2).cast_signed()
    }

    /// Returns a random key, which a row may already have. Most keys are near the newest key.
    fn key(&self, random: &mut Rng) -> i64 {
        let at = match random.u64(0..10) {
            0..=5 => self.now() / KEY_MICROS,
            6..=7 => self.now() / KEY_MICROS - random.i64(0..200),
            8 => random.i64(0..64) << 32,
            _ => random.i64(0..SPREAD / 7) * 7,
        };
        self.own.map_or(at, |own| at * MAX_OWNERS + own)
    }

    async fn changes_records(&self, mut random: Rng) {
        loop {
            if let Err(error) = self.lists.changes_record(&mut random).await {
                says_if_wrong(&error);
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
            tokio::time::sleep(self.rest).await;
        }
    }

    fn says(&self, what: &str, of: WrittenCollection, changes: &[Change]) {
        let now = self.now();
        let mut line = format!("{what} {of:?} {now}");
        for change in changes {
            let sign = if change.is_put { "+" } else { "-" };
            write!(line, " {sign}{}:{}", change.at, change.number).unwrap();
        }
        println!("{line}");
    }

    async fn pages(&self, mut random: Rng) {
        loop {
            let list = List::ALL[random.usize(..List::ALL.len())];
            let (is_backward, size) = (random.bool(), random.u32(1..=200));
            if let Err(error) =
                pages_through(&self.lists, list, is_backward, size, &self.clock, &mut say).await
            {
                says_if_wrong(&error);
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
            tokio::time::sleep(self.rest).await;
        }
    }
}

fn say(line: String) {
    println!("{line}");
}

/// Prints an error that must not occur even while nodes are down or processes are killed.
fn says_if_wrong(error: &recto::Error) {
    let is_passing = match error.kind() {
        ErrorKind::OutcomeUnknown | ErrorKind::Timeout | ErrorKind::Unavailable => true,
        // A node that has just restarted does not know the tables yet, so it may report them as
        // missing.
        ErrorKind::Store => error.to_string().contains("does not exist"),
        _ => false,
    };
    if !is_passing {
        println!("wrong {:?} {error}", error.kind());
    }
}

/// Reads all pages of a list from one end to the other. Calls the given function with a line that
/// describes each page.
pub(crate) async fn pages_through(
    lists: &Lists,
    list: List,
    is_backward: bool,
    size: u32,
    clock: &Environment,
    tell: &mut impl FnMut(String),
) -> recto::Result<()> {
    let (mut cursor, mut after) = (None::<String>, None::<i64>);
    loop {
        let query = lists.query(list);
        let query = match (is_backward, cursor.take()) {
            (false, None) => query.first(size),
            (true, None) => query.last(size),
            (false, Some(cursor)) => query.first(size).after(cursor),
            (true, Some(cursor)) => query.last(size).before(cursor),
        };
        let begun = clock.now_micros();
        let page = query.await?;
        let ended = clock.now_micros();
        let mut rows: Vec<(i64, i64)> = page
            .items()
            .iter()
            .map(|row| (of(row, "at"), of(row, "number")))
            .collect();
        if is_backward {
            rows.reverse();
        }
        let has_more = if is_backward {
            page.has_previous()
        } else {
            page.has_next()
        };
        let goes_on = has_more != Some(false);
        let last = rows.last().map(|(at, _)| *at);
        let edge = |at: Option<i64>| at.map_or("end".to_owned(), |at| at.to_string());
        let to = last.filter(|_| goes_on);
        let is_falling = list.falls() != is_backward;
        let mut line = format!(
            "page {} {is_falling} {begun} {ended} {} {}",
            list.name(),
            edge(after),
            edge(to)
        );
        for (at, number) in rows {
            write!(line, " {at}:{number}").unwrap();
        }
        tell(line);
        cursor = if is_backward {
            page.previous_cursor().map(Into::into)
        } else {
            page.next_cursor().map(Into::into)
        };
        after = last;
        if !goes_on || last.is_none() {
            return Ok(());
        }
    }
}

fn of(row: &recto::DynamicRecord, field: &str) -> i64 {
    match row.get(field) {
        Some(Value::BigInt(number)) => *number,
        other => panic!("{field}: {other:?}"),
    }
}

/// Starter of child processes. A test receives the lines that they print through the channel
/// `lines`.
pub(crate) struct Children {
    pub(crate) address: String,
    pub(crate) lines: Sender<String>,
    pub(crate) rest: Duration,
}

impl Children {
    /// Starts the child process with the id `number`. With `own`, it writes only its own keys of
    /// the collection `events`. Its wall clock differs by `off_micros` microseconds from a correct
    /// clock.
    pub(crate) fn spawn(&self, number: usize, own: Option<i64>, off_micros: i64) -> Child {
        let variables = [
            (ADDRESS, self.address.clone()),
            (NUMBER, number.to_string()),
            (OWN, own.map_or_else(String::new, |own| own.to_string())),
            (CLOCK_OFF, off_micros.to_string()),
            (REST, self.rest.as_millis().to_string()),
        ];
        children::spawn(
            children::path_of(super::writer_that_gets_killed),
            &variables,
            &self.lines,
        )
    }
}

//! Phase: time to receive a message after a queue has processed many messages, compared with a new
//! queue and with a naive queue that deletes rows.

use std::time::{Duration, Instant};

use futures::future::join_all;
use recto::queues::Queue;

use crate::measure::{median, micros};
use crate::peers::deleted_rows::DeletedRows;
use crate::peers::driver::drop_keyspaces;
use crate::phases::queues::{BESIDE_ROUNDS, BODY, beside_new, cycle};
use crate::report::{Section, Table, Target, number};
use crate::world::World;

use super::{Opened, keyspace, runtime};

/// Numbers of processed messages after which receives are measured.
const PARTS: [u64; 6] = [0, 30_000, 120_000, 300_000, 1_000_000, 3_000_000];
const QUICK_DIVISOR: u64 = 100;
/// Maximum total time for processing messages.
const MAX_TIME: Duration = Duration::from_secs(480);
/// Number of messages per call while messages are processed. The next constant is the number of
/// concurrent clients.
const BATCH: usize = 100;
const CLIENTS: usize = 8;
/// Number of messages processed between two checks of the time limit.
const STRETCH: u64 = 24_000;
/// Number of rows that the naive queue writes concurrently.
const ROWS: usize = 64;
/// Number of successive receives in one measurement.
const TIMED: usize = 100;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let started = Instant::now();
    let runtime = runtime();
    let (address, first) = (world.arguments.cassandra.clone(), keyspace("aged"));
    let aged = runtime.block_on(Opened::cassandra(&address, &first))?;
    let mut naive = Naive {
        rows: runtime.block_on(DeletedRows::make(&address, &first)),
        next: 0,
        is_refused: false,
    };
    let mut keyspaces = vec![first];
    let mut table = Table::new(
        "",
        &[
            "messages processed",
            "Recto, µs",
            "a new queue, µs",
            "Recto / new",
            "deleted rows, µs",
        ],
    );
    let (mut done, mut last) = (0, f64::NAN);
    let divisor = if world.arguments.quick { QUICK_DIVISOR } else { 1 };
    for part in PARTS.map(|part| part / divisor) {
        while done < part && started.elapsed() < MAX_TIME {
            done += runtime.block_on(process(&aged.queue, (part - done).min(STRETCH)));
            world.progress.say(&format!("{done} processed"));
        }
        runtime.block_on(naive.process(done as i64));
        let beside = format!("{}_new_{part}", keyspaces[0]);
        let new = runtime.block_on(Opened::cassandra(&address, &beside))?;
        keyspaces.push(beside);
        let [ours, its, ratio] = beside_new(&runtime, &aged.queue, &new.queue, TIMED);
        runtime.block_on(new.recto.close()).unwrap();
        let theirs = runtime.block_on(naive.receives());
        table.push(number(done as f64), [Some(ours), Some(its), Some(ratio), theirs]);
        last = ratio;
        if done < part {
            break;
        }
    }
    runtime.block_on(aged.recto.close()).unwrap();
    runtime.block_on(drop_keyspaces(&address, &keyspaces));
    let what = format!(
        "queues on Cassandra, receive after {} messages / from a new queue",
        number(done as f64)
    );
    Ok(Section {
        title: "Queues on Cassandra, after many messages".to_owned(),
        text: format!(
            "A receive by one client, compared with a new queue, and with a table that has a row for each message and deletes \
             completed ones, without claims. After more messages, Cassandra rejects reads past the tombstones of that \
             table. {BESIDE_ROUNDS} rounds of {TIMED} receives. In between, {CLIENTS} clients process messages of {} bytes, \
             {BATCH} a call. They stop after {} s.",
            BODY.len(),
            MAX_TIME.as_secs()
        ),
        tables: vec![table],
        targets: vec![Target::at_most(what, 1.1, last)],
        ..Section::default()
    })
}

/// Sends, receives and acknowledges about `count` messages. Returns the number of messages
/// processed.
async fn process(queue: &Queue, count: u64) -> u64 {
    let rounds = (count as usize).div_ceil(BATCH * CLIENTS);
    let clients = (0..CLIENTS).map(|_| {
        let queue = queue.clone();
        tokio::spawn(async move {
            let mut done = 0;
            for _ in 0..rounds {
                done += cycle(&queue, BATCH).await;
            }
            done
        })
    });
    let done = join_all(clients).await;
    queue.purge().await.unwrap();
    done.into_iter().map(|done| done.unwrap() as u64).sum()
}

/// Peer: naive queue that deletes rows, and the number of messages that it has processed so far.
struct Naive {
    rows: DeletedRows,
    next: i64,
    is_refused: bool,
}

impl Naive {
    /// Sends and deletes messages until their total number reaches `until`, or until Cassandra
    /// rejects a read because of tombstones (deletion markers).
    async fn process(&mut self, until: i64) {
        while self.next < until && !self.is_refused {
            for number in self.send(ROWS).await {
                self.rows.delete(number).await;
            }
        }
    }

    async fn send(&mut self, count: usize) -> Vec<i64> {
        let numbers: Vec<i64> = (self.next..).take(count).collect();
        self.next += count as i64;
        join_all(numbers.iter().map(|number| self.rows.send(*number, &BODY))).await;
        numbers
    }

    /// Returns the median time of a receive in microseconds, or `None` if Cassandra rejects the
    /// read because of tombstones (deletion markers).
    async fn receives(&mut self) -> Option<f64> {
        let mut taken = Vec::new();
        if self.is_refused {
            return None;
        }
        for number in self.send(TIMED).await {
            let started = Instant::now();
            self.is_refused |= self.rows.first(1).await.is_err();
            taken.push(micros(started.elapsed()));
            self.rows.delete(number).await;
        }
        (!self.is_refused).then(|| median(taken))
    }
}

//! Phase: delivery time, from sending a message until a waiting receiver gets it.

use std::path::Path;
use std::time::{Duration, Instant};

use recto::Recto;
use recto::queues::{MAX_WAIT, NewMessage, Queue, Receive};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::calls::{Kind, Seen, busy};
use crate::measure::{median, quantile};
use crate::peers::driver::drop_keyspaces;
use crate::phases::queues::BODY;
use crate::report::{Section, Table, Target};
use crate::world::World;

use super::{Opened, keyspace, options, runtime};

const MESSAGES: usize = 500;
const QUICK_MESSAGES: usize = 30;
/// Range of the random pause between two messages, in milliseconds. It is long enough for the
/// receiver to wait for the next message. It is random, so that messages arrive at different
/// moments of the notifier's polling interval.
const PAUSE: std::ops::Range<u64> = 30..130;

const KINDS: [Kind; 3] = [Kind::Read, Kind::Plain, Kind::Conditional];

/// Delivery time of one message in milliseconds, and the store calls during the delivery.
struct Brought {
    millis: f64,
    /// Part of the delivery time during which a call to the store was in flight, in milliseconds.
    asking: f64,
    /// Number of calls to the store, by kind, in the order of [`KINDS`].
    calls: [f64; 3],
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let messages = if world.arguments.quick {
        QUICK_MESSAGES
    } else {
        MESSAGES
    };
    let (address, keyspace) = (world.arguments.cassandra.clone(), keyspace("waiting"));
    let folder = world.folder.join("waiting");
    let _ = std::fs::remove_dir_all(&folder);
    let (mut table, mut targets) = (table(), Vec::new());
    let two = "Cassandra, two servers";
    runtime().block_on(async {
        for (name, is_embedded) in [("embedded", true), ("Cassandra, one server", false)] {
            world.progress.say(name);
            let opened = if is_embedded {
                embedded(&folder).await?
            } else {
                Opened::cassandra(&address, &keyspace).await?
            };
            let brought = bring(&opened, &opened.queue, messages).await;
            let ratio = push(&mut table, name, &brought, true);
            let what = format!("{name}: time until a waiting receiver has a message / in store calls");
            targets.push(Target::at_most(what, 1.3, ratio));
            opened.recto.close().await.unwrap();
        }
        world.progress.say(two);
        let sender = Opened::cassandra(&address, &keyspace).await?;
        let receiver = Opened::cassandra(&address, &keyspace).await?;
        let brought = bring(&sender, &receiver.queue, messages).await;
        push(&mut table, two, &brought, false);
        let late = quantile(brought.iter().map(|brought| brought.millis).collect(), 0.99);
        let what = format!("{two}: time until a waiting receiver has a message, p99, ms");
        targets.push(Target::at_most(what, 300.0, late));
        sender.recto.close().await.unwrap();
        receiver.recto.close().await.unwrap();
        drop_keyspaces(&address, &[keyspace]).await;
        Ok::<_, String>(())
    })?;
    Ok(Section {
        title: "Time until a waiting receiver has a message".to_owned(),
        text: format!(
            "Time from the start of a send until a waiting receiver has claimed the message, for {messages} messages, {} to {} ms \
             apart. \"In store calls\" counts concurrent calls once. A receiver on another server learns of messages from \
             the notifier, which it reads ten times a second. Two servers are two sessions of one process, so that one \
             clock measures the time.",
            PAUSE.start, PAUSE.end
        ),
        tables: vec![table],
        targets,
        ..Section::default()
    })
}

fn table() -> Table {
    Table::new(
        "",
        &[
            "",
            "median, ms",
            "p99, ms",
            "in store calls, ms",
            "ratio",
            "reads",
            "plain writes",
            "conditional writes",
        ],
    )
}

async fn embedded(folder: &Path) -> Result<Opened, String> {
    let recto = Recto::open_with(folder, options()).await.unwrap();
    Opened::counted(&recto).await
}

/// Adds a row with the medians of the deliveries to the table. Returns the median ratio of the
/// delivery time to the time of store calls.
fn push(table: &mut Table, name: &str, brought: &[Brought], has_calls: bool) -> f64 {
    let all = |number: &dyn Fn(&Brought) -> f64| brought.iter().map(number).collect::<Vec<f64>>();
    let ratio = median(all(&|brought| brought.millis / brought.asking));
    let calls =
        [0, 1, 2].map(|kind| all(&|brought| brought.calls[kind]).iter().sum::<f64>() / brought.len() as f64);
    let millis = all(&|brought| brought.millis);
    let figures = [median(millis.clone()), quantile(millis, 0.99)].map(Some);
    let asked = [
        median(all(&|brought| brought.asking)),
        ratio,
        calls[0],
        calls[1],
        calls[2],
    ];
    table.push(
        name,
        figures
            .into_iter()
            .chain(asked.map(|figure| has_calls.then_some(figure))),
    );
    ratio
}

/// Sends messages one after another, which `receiver` receives while it waits. Returns the delivery
/// of each message.
async fn bring(sender: &Opened, receiver: &Queue, messages: usize) -> Vec<Brought> {
    let (arrived, mut arrivals) = channel(1);
    let receiving = receive(receiver.clone(), messages + 1, arrived);
    // Discard the first message, because nothing is cached before it.
    let mut brought = Vec::new();
    for _ in 0..=messages {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE))).await;
        brought.push(bring_one(&sender.queue, &mut arrivals, &sender.seen).await);
    }
    receiving.await.unwrap();
    brought.split_off(1)
}

fn receive(queue: Queue, messages: usize, arrived: Sender<Instant>) -> JoinHandle<()> {
    tokio::spawn(async move {
        for _ in 0..messages {
            let received = queue.receive(Receive::up_to(1).wait(MAX_WAIT)).await.unwrap();
            arrived.send(Instant::now()).await.unwrap();
            queue.ack(&[received[0].receipt]).await.unwrap();
        }
    })
}

async fn bring_one(queue: &Queue, arrivals: &mut Receiver<Instant>, seen: &Seen) -> Brought {
    drop(seen.spans());
    let sent = Instant::now();
    queue.send(NewMessage::new(BODY)).await.unwrap();
    let arrived = arrivals.recv().await.unwrap();
    let mut spans = seen.spans();
    spans.retain(|span| span.from < arrived && span.until > sent);
    let count = |kind| spans.iter().filter(|span| span.kind == kind).count() as f64;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    Brought {
        millis: millis(arrived - sent),
        asking: millis(busy(&spans, sent, arrived)),
        calls: KINDS.map(count),
    }
}

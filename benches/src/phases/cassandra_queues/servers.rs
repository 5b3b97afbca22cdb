//! Phase: message rates and conditional writes per message, with one server process, and with three
//! server processes on one queue.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::measure::median;
use crate::peers::driver::drop_keyspaces;
use crate::phases::queues::{BODY, Spell, spell};
use crate::report::{Section, Table, Target};
use crate::world::World;

use super::{Opened, keyspace, runtime};

/// Command-line argument with which this program runs as one of several queue servers.
pub(crate) const WORD: &str = "queue-server";
/// Measured cases with one server: number of concurrent clients, and number of messages per call.
const CASES: [(usize, usize); 5] = [(1, 1), (4, 1), (16, 1), (4, 10), (4, 50)];
/// Measured cases with several servers: number of concurrent clients of each server, and number of
/// messages per call.
const CASES_OF_SERVERS: [(usize, usize); 2] = [(16, 1), (4, 50)];
const SERVERS: [usize; 2] = [1, 3];
const SPELL: Duration = Duration::from_secs(6);
const ROUNDS: usize = 3;
/// Line that a server process prints after it has opened the queue.
const READY: &str = "ready";

/// Result of one measurement: messages per second, number of messages, and number of conditional
/// writes.
#[derive(Clone, Copy)]
struct ClientWork {
    rate: f64,
    messages: f64,
    conditional: f64,
}

impl ClientWork {
    fn of(spells: &[Self]) -> Self {
        let sum = |number: fn(&Self) -> f64| spells.iter().map(number).sum();
        Self {
            rate: sum(|done| done.rate),
            messages: sum(|done| done.messages),
            conditional: sum(|done| done.conditional),
        }
    }

    /// Returns the median rate in messages per second, and the average number of conditional writes
    /// per message.
    fn figures(rounds: &[Self]) -> [f64; 2] {
        let all = Self::of(rounds);
        [
            median(rounds.iter().map(|done| done.rate).collect()),
            all.conditional / all.messages,
        ]
    }
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let time = if world.arguments.quick { SPELL / 6 } else { SPELL };
    let (address, keyspace) = (world.arguments.cassandra.clone(), keyspace("queues"));
    let runtime = runtime();
    let opened = runtime.block_on(Opened::cassandra(&address, &keyspace))?;
    let mut rates = Table::new(
        "One server",
        &[
            "clients, messages a call",
            "messages/s",
            "conditional writes a message",
        ],
    );
    let mut targets = Vec::new();
    for (clients, batch) in CASES {
        world.progress.say(&format!("{clients} clients, {batch} a call"));
        let done: Vec<_> = (0..rounds)
            .map(|_| here(&runtime, &opened, (clients, batch), time))
            .collect();
        let [rate, conditional] = ClientWork::figures(&done);
        rates.push(format!("{clients}, {batch}"), [Some(rate), Some(conditional)]);
        if batch == 50 {
            let what = "queues on Cassandra, conditional writes a message, 50 a call";
            targets.push(Target::at_most(what, 0.1, conditional));
        }
    }
    let servers = several(world, &runtime, &opened, &keyspace, (rounds, time));
    runtime.block_on(opened.recto.close()).unwrap();
    runtime.block_on(drop_keyspaces(&address, &[keyspace]));
    Ok(Section {
        title: "Queues on Cassandra".to_owned(),
        text: format!(
            "Messages of {} bytes, sent, received and acknowledged. {rounds} rounds of {:.1} s. Servers run on the machine of \
             the node. Conditional writes include rejected ones.",
            BODY.len(),
            time.as_secs_f64()
        ),
        tables: vec![rates, servers],
        targets,
        ..Section::default()
    })
}

/// Measures clients in this process, for the given case (number of clients, messages per call).
fn here(runtime: &Runtime, opened: &Opened, case: (usize, usize), time: Duration) -> ClientWork {
    let before = opened.seen.conditional();
    let Spell { messages, rate } = spell(runtime, &opened.queue, case, time);
    let conditional = (opened.seen.conditional() - before) as f64;
    // Remove messages that clients sent but did not receive before they stopped. Each round must
    // start with an empty queue.
    runtime.block_on(opened.queue.purge()).unwrap();
    let messages = messages as f64;
    ClientWork {
        rate,
        messages,
        conditional,
    }
}

/// Measures one server and several servers in turn, each server in its own process.
fn several(
    world: &mut World,
    runtime: &Runtime,
    opened: &Opened,
    keyspace: &str,
    (rounds, time): (usize, Duration),
) -> Table {
    let mut table = Table::new(
        "One server and several servers, in turn",
        &[
            "servers, clients of each, messages a call",
            "messages/s",
            "conditional writes a message",
        ],
    );
    for case in CASES_OF_SERVERS {
        let mut done = SERVERS.map(|_| Vec::new());
        for round in 0..rounds {
            for (servers, done) in SERVERS.iter().zip(&mut done) {
                let (clients, batch) = case;
                world.progress.say(&format!(
                    "round {} of {rounds}: {servers} servers, {clients} clients, {batch} a call",
                    round + 1
                ));
                let servers: Vec<_> = (0..*servers)
                    .map(|_| Server::start(&world.arguments.cassandra, keyspace, case, time))
                    .collect();
                done.push(ClientWork::of(&work(servers)));
                runtime.block_on(opened.queue.purge()).unwrap();
            }
        }
        for (servers, done) in SERVERS.iter().zip(done) {
            let name = format!("{servers}, {}, {}", case.0, case.1);
            table.push(name, ClientWork::figures(&done).map(Some));
        }
    }
    table
}

/// Process that works on the queue as a server.
struct Server {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Server {
    fn start(address: &str, keyspace: &str, (clients, batch): (usize, usize), time: Duration) -> Self {
        let numbers = [clients as u128, batch as u128, time.as_millis()].map(|number| number.to_string());
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([WORD, address, keyspace])
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line
    }
}

/// Waits until all servers are ready, and then starts their work at the same time. Returns the
/// result of each server.
fn work(mut servers: Vec<Server>) -> Vec<ClientWork> {
    for server in &mut servers {
        assert_eq!(server.line().trim(), READY);
    }
    for server in &mut servers {
        writeln!(server.process.stdin.as_mut().unwrap()).unwrap();
    }
    let done = servers.into_iter().map(|mut server| {
        let line = server.line();
        let numbers: Vec<f64> = line
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect();
        assert!(server.process.wait().unwrap().success());
        ClientWork {
            rate: numbers[0],
            messages: numbers[1],
            conditional: numbers[2],
        }
    });
    done.collect()
}

/// Main function of a server process. It opens the queue, waits for a line on standard input, works
/// for the given time, and prints its result.
pub(crate) fn serve(words: &[String]) -> Result<(), String> {
    let [address, keyspace, clients, batch, millis] = words else {
        return Err(format!("{WORD} ADDRESS KEYSPACE CLIENTS BATCH MILLISECONDS"));
    };
    let number = |word: &String| word.parse::<usize>().unwrap();
    let runtime = runtime();
    let opened = runtime.block_on(Opened::cassandra(address, keyspace))?;
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let time = Duration::from_millis(number(millis) as u64);
    let before = opened.seen.conditional();
    let Spell { messages, rate } = spell(&runtime, &opened.queue, (number(clients), number(batch)), time);
    println!("{rate} {messages} {}", opened.seen.conditional() - before);
    runtime.block_on(opened.recto.close()).unwrap();
    Ok(())
}

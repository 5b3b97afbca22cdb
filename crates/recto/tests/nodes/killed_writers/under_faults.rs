//! Test of processes that change a few records and are killed, on three real nodes with three
//! copies of each row. The clocks of the processes differ by up to an hour. One node at a time has
//! one of these faults:
//!
//! - The node is paused during requests that it must answer, and is resumed later.
//! - The node is paused and then killed.
//! - The node is killed at once.
//! - The node closes all connections of clients during requests, but continues to execute these
//!   requests.

use std::process::Child;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use recto::{OpenOptions, Recto, StoreAddress};
use recto_testkit::generate::Rng;
use recto_testkit::rig::Node;

use super::children::{Children, heard};
use super::records::Tables;
use super::{PROCESSES, check, scale};
use crate::common::children::kill;
use crate::common::clocks::{Clocks, recover_at_once};
use crate::common::{run, seed};
use crate::nodes::{Lease, address, open};

/// Errors of the wall clocks of the processes, in microseconds: half an hour slow, correct, and
/// half an hour fast.
const CLOCKS_OFF_MICROS: [i64; 3] = [-1_800_000_000, 0, 1_800_000_000];
/// Time before each fault in which all nodes are healthy.
const CALM: Duration = Duration::from_secs(2);
/// Maximum time from the start of a fault to the kill of a process. `DOWN` is the time from the
/// kill to the end of the fault.
const BEFORE: Duration = Duration::from_secs(3);
const DOWN: Duration = Duration::from_secs(5);
/// Maximum duration of a request after all nodes are up again. The time is long, because the nodes
/// are still busy.
const AT_REST_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of rounds, multiplied by the environment variable `RECTO_TEST_SCALE`. In each round, one
/// node has a fault.
const ROUNDS: usize = Fault::ALL.len();

/// Fault of a Cassandra node.
#[derive(Debug, Clone, Copy)]
enum Fault {
    PausedAndLetGo,
    PausedAndKilled,
    Killed,
    Cut,
}

impl Fault {
    const ALL: [Self; 4] = [
        Self::PausedAndLetGo,
        Self::PausedAndKilled,
        Self::Killed,
        Self::Cut,
    ];

    fn begin(self, node: &Node) {
        println!("node {} is {self:?}", node.number());
        match self {
            Self::PausedAndLetGo | Self::PausedAndKilled => node.pause().unwrap(),
            Self::Killed => node.kill().unwrap(),
            Self::Cut => drop(node.nodetool(&["disablebinary", "--force"]).unwrap()),
        }
    }

    fn end(self, node: &Node) {
        match self {
            Self::PausedAndLetGo => node.resume().unwrap(),
            Self::PausedAndKilled => {
                node.kill().unwrap();
                node.start().unwrap();
            }
            Self::Killed => node.start().unwrap(),
            Self::Cut => drop(node.nodetool(&["enablebinary"]).unwrap()),
        }
    }
}

/// Kills a random child process, and starts another one instead. `started` is the number of all
/// processes that were started so far.
fn replace(living: &mut [Child], children: &Children<'_>, random: &mut Rng, started: &mut usize) {
    let child = &mut living[random.usize(0..PROCESSES)];
    kill(child);
    *child = children.spawn(*started);
    *started += 1;
}

#[test]
#[ignore = "slow: three nodes are killed in turn beside processes that write, minutes in all"]
fn recovers_exact_views_after_node_failures() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    let store = address(cluster);
    let tables = Tables::new(false);
    run(async { open(&store).await.unwrap().apply(&tables.schema).await.unwrap() });
    let address = StoreAddress::Cassandra(Box::new(store));
    let (lines, said) = channel();
    let children = Children {
        address: address.to_string(),
        lines,
        clocks_off_micros: &CLOCKS_OFF_MICROS,
    };
    let mut living: Vec<Child> = (0..PROCESSES).map(|number| children.spawn(number)).collect();
    let mut started = PROCESSES;
    let mut random: Rng = recto_testkit::generate::rng(seed());
    for round in 0..ROUNDS * scale() {
        sleep(CALM);
        replace(&mut living, &children, &mut random, &mut started);
        sleep(CALM);
        let node = &cluster.nodes()[round % cluster.nodes().len()];
        // Both the fault and the node rotate, so that in a long run each node has each fault.
        let fault = Fault::ALL[round % Fault::ALL.len()];
        fault.begin(node);
        sleep(Duration::from_millis(random.u64(0..BEFORE.as_millis() as u64)));
        // Kill a process while it waits for the faulty node. The node may still execute the
        // requests of this process.
        replace(&mut living, &children, &mut random, &mut started);
        sleep(DOWN);
        fault.end(node);
    }
    sleep(CALM);
    living.iter_mut().for_each(kill);
    drop(children);
    let history = heard(said);
    cluster.wait_until_all_up().unwrap();
    run(async {
        let clocks = Clocks::default();
        let options = OpenOptions::new()
            .environment(clocks.environment())
            .request_timeout(AT_REST_TIMEOUT);
        let recto = Recto::open_with(&address, options).await.unwrap();
        let pass = recover_at_once(&recto, &clocks).await;
        assert!(pass.waiting > 0, "{pass:?}");
        check(&recto, &tables, &history).await;
        recto.close().await.unwrap();
    });
}

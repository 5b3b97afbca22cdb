//! Test of lists in buckets on three real nodes with three copies of each row. Processes write,
//! read pages and split buckets. In each round, one process is killed, and another stands still for
//! longer than a split takes. At the same time, one node is killed, or paused and resumed, or
//! paused and killed.

use std::process::Child;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use recto::StoreAddress;
use recto_testkit::generate::Rng;
use recto_testkit::rig::{freeze, let_go};

use super::children::Children;
use super::lists::schema;
use super::said::ListReports;
use super::scale;
use super::settled::settle;
use crate::common::children::kill;
use crate::common::{run, seed};
use crate::node_faults::Fault;
use crate::nodes::{Lease, address, open};

const PROCESSES: usize = 4;
/// Number of faults of nodes, which happen one after another. It is multiplied by the environment
/// variable `RECTO_TEST_SCALE`. The kind of the first fault is random.
const FAULTS: usize = 1;
/// Pause of a writer between two writes. It is long enough for the three nodes to keep up with all
/// writers.
const REST: Duration = Duration::from_millis(100);
const CALM: Duration = Duration::from_secs(3);
/// Minimum time for which a process stands still. Other processes can complete all steps of a split
/// in this time.
const STANDSTILL: Duration = Duration::from_secs(18);

/// Running child processes, and the number of all processes that were started so far.
struct Processes<'c> {
    children: &'c Children,
    living: Vec<Child>,
    started: usize,
}

impl<'c> Processes<'c> {
    fn start(children: &'c Children) -> Self {
        Self {
            children,
            living: (0..PROCESSES)
                .map(|number| children.spawn(number, None, 0))
                .collect(),
            started: PROCESSES,
        }
    }

    /// Kills a random child process, and starts another one instead.
    fn replace_one(&mut self, random: &mut Rng) {
        let index = random.usize(0..self.living.len());
        kill(&mut self.living[index]);
        self.living[index] = self.children.spawn(self.started, None, 0);
        self.started += 1;
    }
}

#[test]
#[ignore = "slow: three nodes and all processors, three minutes"]
fn rows_stay_as_they_were_written_while_nodes_and_processes_die() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    let store = address(cluster);
    run(async { open(&store).await.unwrap().apply(&schema()).await.unwrap() });
    let address = StoreAddress::Cassandra(Box::new(store)).to_string();
    let (lines, heard) = channel();
    let children = Children {
        address: address.clone(),
        lines,
        rest: REST,
    };
    let mut random: Rng = recto_testkit::generate::rng(seed());
    let mut processes = Processes::start(&children);
    sleep(CALM * 2);
    let first = random.usize(0..Fault::ALL.len());
    for round in first..first + FAULTS * scale() as usize {
        processes.replace_one(&mut random);
        sleep(CALM);
        let still = random.usize(0..PROCESSES);
        let pid = processes.living[still].id();
        freeze(pid).unwrap();
        let fault = Fault::ALL[round % Fault::ALL.len()];
        fault.happen(&cluster.nodes()[random.usize(0..3)], || {
            sleep(Duration::from_millis(random.u64(0..3_000)));
        });
        sleep(STANDSTILL.saturating_sub(fault.lasts()));
        let_go(pid).unwrap();
        sleep(CALM);
    }
    processes.living.iter_mut().for_each(kill);
    drop(children);
    cluster.wait_until_all_up().unwrap();
    let mut said = ListReports::default();
    for line in &heard {
        said.hear(&line);
    }
    let [tried, done, pages] = said.counts();
    println!("{tried} rows, {done} known to be written, {pages} pages");
    said.check().unwrap();
    run(settle(&address, &mut said));
    said.check().unwrap();
    assert!(done > 1_000 && pages > 100, "{done} rows, {pages} pages");
}

//! Faults that tests cause in Cassandra nodes.

use std::thread::sleep;
use std::time::Duration;

use recto_testkit::rig::Node;

/// Time for which a killed node stays down. In this time, gossip marks the node as dead, and some
/// rotating tables of message bodies become due to be emptied.
const DEAD: Duration = Duration::from_secs(22);
const PAUSED: Duration = Duration::from_secs(10);

/// Fault of a Cassandra node that a test causes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Killed,
    PausedAndLetGo,
    PausedAndKilled,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::PausedAndLetGo, Self::PausedAndKilled];

    /// Returns the minimum duration of the fault.
    pub(crate) fn lasts(self) -> Duration {
        if matches!(self, Self::Killed) {
            DEAD
        } else {
            PAUSED
        }
    }

    /// Causes the fault in `node`, calls `meanwhile` at its beginning, and ends the fault. The node
    /// is up when this function returns.
    pub(crate) fn happen(self, node: &Node, meanwhile: impl FnOnce()) {
        println!("node {} is {self:?}", node.number());
        match self {
            Self::Killed => {
                node.kill().unwrap();
                meanwhile();
                sleep(DEAD);
                node.start().unwrap();
            }
            Self::PausedAndLetGo => {
                node.pause().unwrap();
                meanwhile();
                sleep(PAUSED);
                node.resume().unwrap();
            }
            Self::PausedAndKilled => {
                node.pause().unwrap();
                meanwhile();
                sleep(PAUSED);
                node.kill().unwrap();
                node.start().unwrap();
            }
        }
    }
}

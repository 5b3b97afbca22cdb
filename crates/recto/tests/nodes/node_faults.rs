//! Faults that tests cause in Cassandra nodes.

use std::thread::sleep;
use std::time::Duration;

use recto_testkit::rig::Node;

/// Time for which a node is stopped. Meanwhile, gossip marks the node as dead, and rotating tables
/// become due for emptying.
const DEAD: Duration = Duration::from_secs(22);
const PAUSED: Duration = Duration::from_secs(10);

/// Fault of a node that a test causes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Killed,
    PausedAndLetGo,
    PausedAndKilled,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::PausedAndLetGo, Self::PausedAndKilled];

    /// Returns the minimum time for which the fault lasts.
    pub(crate) fn lasts(self) -> Duration {
        if matches!(self, Self::Killed) {
            DEAD
        } else {
            PAUSED
        }
    }

    /// Causes the fault, calls `meanwhile` during it, and ends it. The node is up when the function
    /// returns.
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

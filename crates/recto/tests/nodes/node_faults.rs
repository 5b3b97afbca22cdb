//! Faults of nodes.

use std::thread::sleep;
use std::time::Duration;

use recto_testkit::rig::Node;

/// Time for which a node is stopped. It is so long that gossip marks the node as dead, and that tables become
/// due for emptying meanwhile.
const DEAD: Duration = Duration::from_secs(22);
const PAUSED: Duration = Duration::from_secs(10);

/// Fault of a node.
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

    /// Executes the fault, and `meanwhile` during it. The node is up again at the end.
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

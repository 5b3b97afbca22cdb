//! What happens to nodes.

use std::thread::sleep;
use std::time::Duration;

use recto_testkit::rig::Node;

/// How long a node is gone: so long that gossip holds it for dead, and tables are to be emptied meanwhile.
const DEAD: Duration = Duration::from_secs(22);
const PAUSED: Duration = Duration::from_secs(10);

/// What happens to a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Killed,
    PausedAndLetGo,
    PausedAndKilled,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::PausedAndLetGo, Self::PausedAndKilled];

    /// How long it lasts, at least.
    pub(crate) fn lasts(self) -> Duration {
        if matches!(self, Self::Killed) {
            DEAD
        } else {
            PAUSED
        }
    }

    /// The node is well again in the end.
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

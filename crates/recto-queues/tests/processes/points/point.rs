//! Points at which a process is killed or paused, each identified by the calls to the store that lead to it.

use recto_model::Slice;
use recto_protocol::queues::{Phase, Version, stored};
use recto_store::{Cas, Operation, PartitionWrite};

use super::cut::{Point, point};

/// Kind of a call to the store, by the data that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Bodies,
    Head,
    Log,
    State,
    /// Change of the ring that ends a rotation interval.
    Roll,
    /// Change of the ring of body tables that reserves a table for emptying.
    Take,
    /// Any other change of the ring of body tables.
    Ring,
    /// Request to empty a table.
    Empty,
    /// Any other call, such as a read.
    Other,
}

/// Operation that the process executes when it is killed or paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Send,
    Claim,
    Ack,
    /// Sends one message more than a segment takes, which seals the segment.
    Seal,
    /// Acknowledges the last message of a sealed segment.
    Release,
    /// Gives back a message that was received the maximum number of times, which moves it to the dead-letter
    /// queue.
    Move,
    /// Runs the maintenance of the ring of body tables.
    Keep,
}

/// All points at which the tests stop a process.
pub(crate) const POINTS: [Point; 20] = [
    point("send-bodies", Does::Send, &[Call::Bodies]),
    point("send-append", Does::Send, &[Call::Log]),
    point("claim", Does::Claim, &[Call::State]),
    point("ack", Does::Ack, &[Call::State]),
    point("seal-log", Does::Seal, &[Call::Log]),
    point("seal-head", Does::Seal, &[Call::Log, Call::Head]),
    point("release", Does::Release, &[Call::State, Call::Head]),
    point("move-mark", Does::Move, &[Call::State]),
    point("move-bodies", Does::Move, &[Call::State, Call::Bodies]),
    point("move-append", Does::Move, &[Call::State, Call::Log]),
    point("move-resolve", Does::Move, &[Call::State, Call::Log, Call::State]),
    point("roll", Does::Keep, &[Call::Roll]),
    point("fence-head", Does::Keep, &[Call::Roll, Call::Head]),
    point("fence-log", Does::Keep, &[Call::Roll, Call::Log]),
    point("fence-ring", Does::Keep, &[Call::Roll, Call::Log, Call::Ring]),
    point("rehome-bodies", Does::Keep, &[Call::Bodies]),
    point("rehome-head", Does::Keep, &[Call::Bodies, Call::Head]),
    point("emptying-take", Does::Keep, &[Call::Take]),
    point("emptying-send", Does::Keep, &[Call::Empty]),
    point("emptying-say", Does::Keep, &[Call::Empty, Call::Ring]),
];

impl Call {
    /// Returns the kind of a plain write.
    pub(crate) fn write(write: &PartitionWrite) -> Self {
        if write.table.name().starts_with("recto_queue_body_") {
            Self::Bodies
        } else {
            Self::Other
        }
    }

    /// Returns the kind of a read, which changes nothing.
    pub(crate) fn read(_: &Slice) -> Self {
        Self::Other
    }

    /// Returns the kind of a conditional write.
    pub(crate) fn cas(cas: &Cas) -> Self {
        match cas.table.name() {
            "recto_queue_shard" => Self::Head,
            "recto_queue_log" => Self::Log,
            "recto_queue_state" => Self::State,
            "recto_queue" if cas.partition.iter().eq([Some(&b"ring"[..])]) => Self::ring(cas),
            _ => Self::Other,
        }
    }

    /// Returns the kind of a change of the ring of body tables.
    fn ring(cas: &Cas) -> Self {
        let Operation::PatchStatic { cells, .. } = &cas.mutations[0].operation else {
            return Self::Ring;
        };
        let cells: Vec<&[u8]> = cells.iter().flatten().collect();
        let version = Version::from_be_bytes(cells[0].try_into().unwrap());
        let ring = stored::decode_ring(version, cells[1]).unwrap();
        let has = |is: fn(&Phase) -> bool| ring.tables().values().any(is);
        if has(|phase| matches!(phase, Phase::Closing { .. })) {
            Self::Roll
        } else if has(|phase| matches!(phase, Phase::Emptying { .. })) {
            Self::Take
        } else {
            Self::Ring
        }
    }
}

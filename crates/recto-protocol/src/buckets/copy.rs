//! For how long a process may go by what it has read of a directory.

use std::sync::Arc;

use crate::buckets::directory::Directory;
use crate::buckets::limits::Protocol;
use crate::buckets::rules::Rule;

/// What a process' clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Since the machine was started: never set, and counting while it is suspended.
    pub boot_ms: u64,
    /// Since 1970. It may be set, in either direction.
    pub wall_ms: i64,
}

impl Clock {
    /// How long ago that was, by the clock that says longer: the one may have stood still, and the other may have been set.
    fn since(self, before: Self, protocol: Protocol) -> u64 {
        let by_boot = self.boot_ms.saturating_sub(before.boot_ms);
        let by_wall = self.wall_ms.saturating_sub(before.wall_ms);
        let by_wall = u64::try_from(by_wall).unwrap_or(0);
        if protocol.rules.keeps(Rule::LargerOfClocks) {
            by_boot.max(by_wall)
        } else {
            by_boot
        }
    }
}

/// A directory as a process has read it, which all of it share until it is over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryCopy {
    directory: Arc<Directory>,
    from: Clock,
    protocol: Protocol,
}

impl DirectoryCopy {
    /// What was read; `asked` is what the clocks showed before that was asked for, `heard` what they showed when it was
    /// there. It lives from the former on: what it says may be no younger.
    pub fn new(directory: Arc<Directory>, asked: Clock, heard: Clock, protocol: Protocol) -> Self {
        let from = if protocol.rules.keeps(Rule::LifeFromBeforeReading) {
            asked
        } else {
            heard
        };
        Self {
            directory,
            from,
            protocol,
        }
    }

    /// What was read.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Whether it may be gone by, when the clocks show this.
    pub fn lives(&self, now: Clock) -> bool {
        now.since(self.from, self.protocol) < self.directory.life_ms
    }
}

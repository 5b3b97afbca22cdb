//! Process of the models that moves the message of the first segment to another segment.

use super::driver::{Driver, Next, Spot};
use super::store::{Reply, Request, ResolvedBy};
use super::world::{Config, Now};
use super::{SOURCE, TENURE, entry_of};
use crate::queues::rows::Rows;
use crate::queues::{
    Address, Chunk, Entry, Log, LogRow, MoveAction, MoveEvent, Moved, Moving, Origin, Reach, RegisterNumber,
    Shard,
};

/// Process that moves the message, or finds that it is moved already.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Mover {
    name: u8,
    to: Address,
    tries: u8,
    moving: Option<Moving>,
    driver: Driver,
}

impl Mover {
    pub(crate) fn new(config: &Config, name: u8) -> Self {
        let shard = if config.moves_apart {
            u16::from(name)
        } else {
            SOURCE.address.shard.0
        };
        Self {
            name,
            to: Address {
                shard: Shard(shard),
                ..SOURCE.address
            },
            tries: 1,
            moving: None,
            driver: Driver::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.tries == 0
    }

    pub(crate) fn hears(&mut self, reply: Reply, now: &Now<'_>) -> Option<Request> {
        if reply == Reply::Start {
            self.tries -= 1;
            let chunk = Chunk(100 + u128::from(self.name));
            let (entry, protocol) = (entry_of(1, now), now.config.protocol());
            // The log of the source segment contains the deduplication id of the message, so the id
            // counts as recent.
            let before = entry.deduplication.map(|id| (id, (entry.id, entry.sent)));
            self.driver.recent.extend(before);
            if now.config.goes_on {
                self.driver.log_of_claims = Some(log_of_source(entry));
            }
            let moving = Moving::new(SOURCE, None, (self.to, TENURE), chunk, entry, protocol);
            self.moving = Some(if now.config.goes_on {
                moving.on(Reach::Near)
            } else {
                moving
            });
            return self.tells(MoveEvent::Begin, now);
        }
        let next = self.driver.hears(reply, now);
        self.goes_on(next, now)
    }

    fn goes_on(&mut self, next: Next, now: &Now<'_>) -> Option<Request> {
        match next {
            Next::Asks(request) => Some(request),
            Next::Shard(event) => self.tells(MoveEvent::Shard(event), now),
            Next::State(response) => self.tells(MoveEvent::Source(response), now),
            other => panic!("{other:?}"),
        }
    }

    fn tells(&mut self, event: MoveEvent, now: &Now<'_>) -> Option<Request> {
        let next = match self.moving.as_mut()?.step(event) {
            MoveAction::Shard(address, action) => self.driver.asks(address, action, now),
            MoveAction::Source(origin, command) => {
                self.driver
                    .asks_state(spot_of(origin), command, ResolvedBy::Nobody, now)
            }
            MoveAction::Over(moved) => {
                let is_damaged = moved == Moved::Damaged && now.config.without.is_none();
                assert!(!is_damaged, "nothing is damaged");
                return None;
            }
        };
        self.goes_on(next, now)
    }
}

/// Returns the log of the source segment (message batch) for a move within the shard.
fn log_of_source(entry: Entry) -> Log {
    let (chunk, entries) = (Chunk(0), [entry].into());
    Log {
        segment: SOURCE.segment,
        is_sealed: true,
        rows: Rows::from_iter([(0, LogRow { chunk, entries })]),
        ..Log::absent()
    }
}

/// Returns the location of the state of the source segment, which uses the first versioned cells of
/// its shard.
pub(crate) fn spot_of(origin: Origin) -> Spot {
    Spot {
        address: origin.address,
        segment: origin.segment,
        register: RegisterNumber(0),
    }
}

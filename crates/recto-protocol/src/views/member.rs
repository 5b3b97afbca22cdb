//! Membership of processes that write to a store. A process registers, and renews its registration.
//! If it does not renew, other processes declare it dead, and complete its pending writes.
//!
//! The protocol never compares two clocks. A process measures its lease on its own clock, from the
//! time when it *sent* the renewal. Another process measures on its own clock how long the counter
//! in the registration does not change. Both clocks must continue while a machine is suspended.

use std::collections::BTreeMap;

use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// Interval at which a process renews its registration, in microseconds.
pub const RENEWAL_MICROS: Micros = 5_000_000;
/// Time for which a process may write after it sent a successful renewal, in microseconds.
pub const LEASE_MICROS: Micros = 15_000_000;
/// Time after which a process with an unchanged counter is declared dead, in microseconds. It is
/// longer than any lease.
pub const DEATH_MICROS: Micros = 30_000_000;

/// Registration of a writing process: its row in `recto_writers`. Every change of it is a
/// conditional write on the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Counter that each renewal increases, which shows other processes that this process is alive.
    pub counter: u64,
    /// Id of the oldest schema with which the process may still write; `None` before it has read a
    /// schema.
    pub generation: Option<Generation>,
    /// True if another process declared this process dead. Then the process can no longer renew,
    /// and others complete its pending writes.
    pub is_dead: bool,
    /// True if all pending writes of the process are completed.
    pub is_resolved: bool,
}

impl Registration {
    /// Returns the first registration of a process, which the process writes before it reads the
    /// catalog. So a process that changes the schema either waits for the new process, or the new
    /// process reads the changed schema.
    pub const fn first() -> Self {
        Self {
            counter: 0,
            generation: None,
            is_dead: false,
            is_resolved: false,
        }
    }

    /// Returns the registration, marked as dead. The caller writes it if the counter has not
    /// changed. The new counter is greater by 2, so a pending renewal, which expects the old
    /// counter and sets it to 1 more, is not applied, and cannot be mistaken for an applied one.
    #[must_use]
    pub fn dead(self) -> Self {
        Self {
            is_dead: true,
            counter: self.counter.saturating_add(2),
            ..self
        }
    }
}

/// Next step of a process before its first write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Joining {
    /// Write the first registration.
    Register,
    /// Read the catalog of schemas with serial consistency.
    ReadCatalog,
    /// Nothing: the process may write.
    Joined,
}

/// State of a writing process: its registration, its lease (time for which it may write), and its
/// writes under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    counter: Option<u64>,
    /// Id of the newest schema that the process has read. New writes use it.
    schema: Option<Generation>,
    leased_from: Option<Micros>,
    /// Renewal of unknown outcome, and the time when it was first sent.
    pending: Option<(Registration, Micros)>,
    /// Number of writes under way, for each schema id with which they began.
    under_way: BTreeMap<Generation, usize>,
    rules: Rules,
}

impl Default for Member {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl Member {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            counter: None,
            schema: None,
            leased_from: None,
            pending: None,
            under_way: BTreeMap::new(),
            rules,
        }
    }

    /// Returns the step that the process must take before its first write.
    pub fn joining(&self) -> Joining {
        let catalog_first = !self.rules.keeps(Rule::RegisterBeforeCatalog);
        match (self.counter, self.schema) {
            (Some(_), Some(_)) => Joining::Joined,
            (None, None) if catalog_first => Joining::ReadCatalog,
            (None, _) => Joining::Register,
            (Some(_), None) => Joining::ReadCatalog,
        }
    }

    /// Records that the process has read a schema from the catalog. New writes use the newest one.
    pub fn read(&mut self, generation: Generation) {
        self.schema = self.schema.max(Some(generation));
    }

    /// Returns the registration that the next renewal writes, if [`counter`](Self::counter) is
    /// stored. `now` is the time of sending, on the process's own clock. A renewal of unknown
    /// outcome may still be applied. So until [`renewed`](Self::renewed) or
    /// [`refused`](Self::refused) is called, this function returns the same registration, and the
    /// caller sends it with the same segments.
    pub fn renewal(&mut self, now: Micros) -> Registration {
        if let Some((pending, _)) = self.pending {
            return pending;
        }
        let renewal = Registration {
            counter: self.counter.map_or(0, |counter| counter + 1),
            generation: self.announced(),
            ..Registration::first()
        };
        self.pending = Some((renewal, now));
        renewal
    }

    /// Returns the counter that a renewal expects in the store; `None`: there must be no
    /// registration yet.
    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// Records that the renewal was applied. `answered` is the present time on the process's own
    /// clock. The lease counts from the time when the renewal was first sent.
    pub fn renewed(&mut self, answered: Micros) {
        let Some((renewal, sent)) = self.pending.take() else {
            return;
        };
        self.counter = Some(renewal.counter);
        let from = if self.rules.keeps(Rule::LeaseFromSending) {
            sent
        } else {
            answered
        };
        self.leased_from = self.leased_from.max(Some(from));
    }

    /// Records that the last sending of the renewal was not applied, because the stored counter is
    /// `current`. `answered` is the present time on the process's own clock. Returns whether the
    /// process is alive.
    ///
    /// If `current` is the counter of the renewal, an earlier sending was applied, and the process
    /// is alive. Otherwise another process declared it dead. It must not write any more, and has to
    /// register again with a new identity.
    pub fn refused(&mut self, current: Option<u64>, answered: Micros) -> bool {
        let own = self.pending.map(|(renewal, _)| renewal.counter);
        let is_applied = own.is_some() && own == current && self.rules.keeps(Rule::RenewalRemembered);
        if is_applied {
            self.renewed(answered);
        } else {
            self.pending = None;
            self.leased_from = None;
        }
        is_applied
    }

    /// Returns whether the lease of the process is valid at `now`, so that it may send conditional
    /// writes.
    pub fn has_lease(&self, now: Micros) -> bool {
        self.leased_from
            .is_some_and(|from| now.saturating_sub(from) < LEASE_MICROS)
    }

    /// Returns the schema id that the next registration contains: the oldest schema of any write
    /// under way, or the newest schema that the process has read if no such write uses an older
    /// one.
    pub fn announced(&self) -> Option<Generation> {
        let oldest = self.under_way.keys().next().copied();
        match oldest {
            Some(oldest) if self.rules.keeps(Rule::DrainBeforeAnnouncing) => self.schema.min(Some(oldest)),
            _ => self.schema,
        }
    }

    /// Records the start of a write, which uses the newest schema that was read. Returns the id of
    /// the schema, which the caller passes to [`ended`](Self::ended).
    pub fn began(&mut self) -> Option<Generation> {
        let generation = self.schema?;
        *self.under_way.entry(generation).or_default() += 1;
        Some(generation)
    }

    /// Returns whether no write is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Records that a write that began with this schema has ended, or continues with a newer
    /// schema.
    pub fn ended(&mut self, generation: Generation) {
        if let Some(count) = self.under_way.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&generation);
            }
        }
    }
}

/// Observation of another process, to detect that its counter no longer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    counter: u64,
    since: Micros,
    rules: Rules,
}

impl Watch {
    /// Starts to observe a process whose stored counter is `counter`. `now` is the time on the
    /// observer's own clock.
    pub fn new(counter: u64, now: Micros) -> Self {
        Self::new_by(counter, now, Rules::default())
    }

    pub(crate) fn new_by(counter: u64, now: Micros, rules: Rules) -> Self {
        Self {
            counter,
            since: now,
            rules,
        }
    }

    /// Records that the observer has read `counter`. `now` is a time after the read.
    pub fn saw(&mut self, counter: u64, now: Micros) {
        if counter != self.counter {
            *self = Self::new_by(counter, now, self.rules);
        }
    }

    /// Returns the counter if it has not changed for so long that the process is dead; `None` while
    /// the process may be alive.
    pub fn dead_at(&self, now: Micros) -> Option<u64> {
        let limit = if self.rules.keeps(Rule::DeathOutlastsLease) {
            DEATH_MICROS
        } else {
            RENEWAL_MICROS
        };
        (now.saturating_sub(self.since) >= limit).then_some(self.counter)
    }
}

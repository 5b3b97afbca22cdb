//! Processes that write to a store. A process registers and renews its registration. It counts as dead if it does not
//! renew.
//!
//! The protocol never compares two clocks. A process measures its lease with its own clock, from the time when it
//! *sent* the renewal. An observer measures with its own clock how long the counter does not change, from the time when
//! it *saw* the counter. Both clocks must include the time for which a machine is suspended.

use std::collections::BTreeMap;

use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// Interval between renewals of a registration, in microseconds.
pub const RENEWAL_MICROS: Micros = 5_000_000;
/// Time for which a process may write after it sent a renewal that succeeded, in microseconds.
pub const LEASE_MICROS: Micros = 15_000_000;
/// Time after which a process is dead if its counter has not changed, in microseconds.
pub const DEATH_MICROS: Micros = 30_000_000;

/// Registration of a process: its row in `recto_writers`. Only conditional writes on the counter change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Counter, which rises with each renewal.
    pub counter: u64,
    /// Schema that the process uses for its writes; `None` before it has read a schema.
    pub generation: Option<Generation>,
    /// True if another process found this process dead. Then it cannot renew any more, and other
    /// processes resolve its intents.
    pub is_dead: bool,
    /// True if all intents of the process are resolved.
    pub is_resolved: bool,
}

impl Registration {
    /// Returns the first registration. A process writes it before it reads the catalog. This order ensures
    /// that a process that changes the schema waits for this process, or this process reads the changed
    /// schema.
    pub const fn first() -> Self {
        Self {
            counter: 0,
            generation: None,
            is_dead: false,
            is_resolved: false,
        }
    }

    /// Returns the registration, marked as dead. An observer writes it on the condition that the stored
    /// counter still is the counter that did not change. The new counter is greater by two. That value
    /// ensures that a pending renewal of the process can neither be applied nor be mistaken for an applied
    /// one.
    #[must_use]
    pub fn dead(self) -> Self {
        Self {
            is_dead: true,
            counter: self.counter.saturating_add(2),
            ..self
        }
    }
}

/// Next step of a process before it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Joining {
    /// Write the first registration.
    Register,
    /// Read the catalog of schemas, serially.
    ReadCatalog,
    /// No step: the process may write.
    Joined,
}

/// Process that writes: its registration, its lease, and the number of its writes under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    counter: Option<u64>,
    /// Newest schema that the process has read. New writes use it.
    schema: Option<Generation>,
    leased_from: Option<Micros>,
    /// Renewal whose outcome is not known, and the time when it was first sent.
    pending: Option<(Registration, Micros)>,
    /// Number of writes under way, by the schema with which they began.
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

    /// Returns the step that is needed before the first write.
    pub fn joining(&self) -> Joining {
        let catalog_first = !self.rules.keeps(Rule::RegisterBeforeCatalog);
        match (self.counter, self.schema) {
            (Some(_), Some(_)) => Joining::Joined,
            (None, None) if catalog_first => Joining::ReadCatalog,
            (None, _) => Joining::Register,
            (Some(_), None) => Joining::ReadCatalog,
        }
    }

    /// Records that the process has read a schema from the catalog. New writes use it from now on.
    pub fn read(&mut self, generation: Generation) {
        self.schema = self.schema.max(Some(generation));
    }

    /// Returns the registration that a renewal writes if [`counter`](Self::counter) is stored. `now` is the time of
    /// sending, on the process's own clock. Until the renewal is [renewed](Self::renewed) or [refused](Self::refused),
    /// this function returns the same registration, and the caller sends it with the same segments. The reason is that
    /// a renewal whose outcome is unknown may be applied at any time.
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

    /// Returns the counter that must be stored when a renewal is applied; `None`: there must be no registration.
    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// Records that the renewal was applied. `answered` is the current time on the process's own clock. The lease
    /// counts from the first sending of the renewal.
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

    /// Records that the last sending of the renewal was not applied, and that the counter `current` is stored.
    /// `answered` is the current time on the process's own clock. Returns whether the process is alive.
    ///
    /// If `current` is the counter of the renewal, an earlier sending was applied and the process is alive. If not, the
    /// process was found dead. Then it must not write any more; it has to register again, as another process.
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

    /// Returns whether the process may send a conditional write now.
    pub fn has_lease(&self, now: Micros) -> bool {
        self.leased_from
            .is_some_and(|from| now.saturating_sub(from) < LEASE_MICROS)
    }

    /// Returns the schema that the process announces. It is the newest schema that the process has read, if no write
    /// under way began with an older schema. If one did, it is the oldest schema of the writes under way.
    pub fn announced(&self) -> Option<Generation> {
        let oldest = self.under_way.keys().next().copied();
        match oldest {
            Some(oldest) if self.rules.keeps(Rule::DrainBeforeAnnouncing) => self.schema.min(Some(oldest)),
            _ => self.schema,
        }
    }

    /// Records the start of a write, which uses the newest schema that was read. Returns that schema, for
    /// [`ended`](Self::ended).
    pub fn began(&mut self) -> Option<Generation> {
        let generation = self.schema?;
        *self.under_way.entry(generation).or_default() += 1;
        Some(generation)
    }

    /// Returns whether no write is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Records that a write that began with this schema is settled, or continues with the newest schema.
    pub fn ended(&mut self, generation: Generation) {
        if let Some(count) = self.under_way.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&generation);
            }
        }
    }
}

/// Observation of a process by another process, which detects that the counter does not rise any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    counter: u64,
    since: Micros,
    rules: Rules,
}

impl Watch {
    /// Starts the observation of a process. `now` is the time on the observer's own clock.
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

    /// Records a counter that was read. `now` is a time after the read.
    pub fn saw(&mut self, counter: u64, now: Micros) {
        if counter != self.counter {
            *self = Self::new_by(counter, now, self.rules);
        }
    }

    /// Returns the counter if it did not change for so long that the process is dead; `None` while the process may be
    /// alive.
    pub fn dead_at(&self, now: Micros) -> Option<u64> {
        let limit = if self.rules.keeps(Rule::DeathOutlastsLease) {
            DEATH_MICROS
        } else {
            RENEWAL_MICROS
        };
        (now.saturating_sub(self.since) >= limit).then_some(self.counter)
    }
}

//! Who writes to a store: a process that is registered, renews its registration, and is dead when it does not.
//!
//! No two clocks are compared. A process counts its lease by its own clock, from when it *sent* the renewal; an
//! observer counts by its own how long the counter stands still, from when it *saw* it. Both clocks must count the time
//! in which a machine is suspended.

use std::collections::BTreeMap;

use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// How often a process renews its registration.
pub const RENEWAL_MICROS: Micros = 5_000_000;
/// How long a process may write after it sent a renewal that succeeded.
pub const LEASE_MICROS: Micros = 15_000_000;
/// For how long a counter stands still of a process that is dead.
pub const DEATH_MICROS: Micros = 30_000_000;

/// What stands in `recto_writers` of a process. Only conditional writes touch it, on the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Greater with each renewal.
    pub counter: u64,
    /// The schema it writes by; none before it has read one.
    pub generation: Option<Generation>,
    /// Whether somebody found it dead: it can renew no more, and what it left is resolved.
    pub is_dead: bool,
    /// Whether all its intents are resolved.
    pub is_resolved: bool,
}

impl Registration {
    /// The first one: put before the catalog is read, so that whoever changes the schema waits for this process or is
    /// seen by it.
    pub const fn first() -> Self {
        Self {
            counter: 0,
            generation: None,
            is_dead: false,
            is_resolved: false,
        }
    }

    /// The same, found dead. It is put if the counter is the one that stood still, and greater by two: no renewal can be
    /// applied any more, nor be taken for applied.
    #[must_use]
    pub fn dead(self) -> Self {
        Self {
            is_dead: true,
            counter: self.counter.saturating_add(2),
            ..self
        }
    }
}

/// What a process has to do before it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Joining {
    /// Put its first registration.
    Register,
    /// Read the catalog, serially.
    ReadCatalog,
    /// Nothing: it may write.
    Joined,
}

/// A process that writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    counter: Option<u64>,
    /// The newest schema it has read, by which its writes begin.
    schema: Option<Generation>,
    leased_from: Option<Micros>,
    /// A renewal that was sent and of which nothing is known, and when it was sent first.
    pending: Option<(Registration, Micros)>,
    /// Writes under way, by the schema they began by.
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

    /// What is to be done before the first write.
    pub fn joining(&self) -> Joining {
        let catalog_first = !self.rules.keeps(Rule::RegisterBeforeCatalog);
        match (self.counter, self.schema) {
            (Some(_), Some(_)) => Joining::Joined,
            (None, None) if catalog_first => Joining::ReadCatalog,
            (None, _) => Joining::Register,
            (Some(_), None) => Joining::ReadCatalog,
        }
    }

    /// A schema was read from the catalog; writes begin by it from now on.
    pub fn read(&mut self, generation: Generation) {
        self.schema = self.schema.max(Some(generation));
    }

    /// What a renewal puts where [`counter`](Self::counter) stands, sent `now` by its own clock. Until that one is
    /// [renewed](Self::renewed) or [refused](Self::refused) it is the same again, and is sent with the same segments:
    /// one that nothing is known of may be applied at any time.
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

    /// The counter that must be there for a renewal; none: no registration.
    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// The renewal was applied; `answered` is what its own clock shows now. The lease counts from when it was sent
    /// first.
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

    /// The renewal was not applied when it was sent last, and this counter is there; `answered` as above. Whether the
    /// process lives: then it was applied when it was sent before. If not, the process was found dead, and may write no
    /// more but as another one, which registers anew.
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

    /// Whether it may send a conditional write now.
    pub fn has_lease(&self, now: Micros) -> bool {
        self.leased_from
            .is_some_and(|from| now.saturating_sub(from) < LEASE_MICROS)
    }

    /// The schema it says that it writes by: the newest that it has read, when no write is under way that began by an
    /// older one.
    pub fn announced(&self) -> Option<Generation> {
        let oldest = self.under_way.keys().next().copied();
        match oldest {
            Some(oldest) if self.rules.keeps(Rule::DrainBeforeAnnouncing) => self.schema.min(Some(oldest)),
            _ => self.schema,
        }
    }

    /// A write begins, by the newest schema that was read; that is returned, for [`ended`](Self::ended).
    pub fn began(&mut self) -> Option<Generation> {
        let generation = self.schema?;
        *self.under_way.entry(generation).or_default() += 1;
        Some(generation)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A write that began by this schema is settled, or goes on by the newest one.
    pub fn ended(&mut self, generation: Generation) {
        if let Some(count) = self.under_way.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&generation);
            }
        }
    }
}

/// What an observer has seen of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    counter: u64,
    since: Micros,
    rules: Rules,
}

impl Watch {
    /// It was seen for the first time, by the observer's own clock.
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

    /// It was seen again; `now` is from after the read.
    pub fn saw(&mut self, counter: u64, now: Micros) {
        if counter != self.counter {
            *self = Self::new_by(counter, now, self.rules);
        }
    }

    /// The counter on whose standing still it is found dead; none while it may live.
    pub fn dead_at(&self, now: Micros) -> Option<u64> {
        let limit = if self.rules.keeps(Rule::DeathOutlastsLease) {
            DEATH_MICROS
        } else {
            RENEWAL_MICROS
        };
        (now.saturating_sub(self.since) >= limit).then_some(self.counter)
    }
}

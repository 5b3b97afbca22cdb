//! What is known of one live segment.

use std::sync::{Arc, Mutex, OnceLock};

use recto_queue::{Address, Head, Leases, Log, Micros, Recent, RegisterNumber, Segment, State};

use crate::error::Result;
use crate::place::QueueStore;
use crate::registers::{LogGround, StateGround, read_log};
use crate::rounds::Rounds;

/// A live segment, as this process knows it.
pub(crate) struct LiveSegment {
    pub(crate) number: Segment,
    pub(crate) log: Arc<Rounds<LogGround>>,
    pub(crate) state: Arc<Rounds<StateGround>>,
}

impl LiveSegment {
    /// Of which nothing is read yet.
    pub(crate) fn new(
        queues: &QueueStore,
        address: Address,
        number: Segment,
        register: RegisterNumber,
        leases: &Arc<Mutex<Leases>>,
    ) -> Self {
        let log = Rounds::new(LogGround {
            queues: queues.clone(),
            address,
            segment: number,
            register,
            recent: OnceLock::new(),
            bodies: Mutex::default(),
        });
        let state = Rounds::new(StateGround {
            queues: queues.clone(),
            address,
            segment: number,
            register,
            log: Arc::clone(&log),
            leases: Arc::clone(leases),
        });
        Self { number, log, state }
    }

    /// Reads log and state unless they are known; anew where others may have written to them since, if that is asked for.
    pub(crate) async fn load(&self, anew: bool) -> Result<()> {
        if anew || self.log.with_copy(|log| log.is_none()) {
            self.log.read().await?;
        }
        if anew || self.state.with_copy(|state| state.is_none()) {
            self.state.read().await?;
        }
        Ok(())
    }

    /// When a message may be received, as far as that is known; none: not before something is done to one of them.
    pub(crate) fn due(&self) -> Option<Micros> {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.due(context))
        })
    }

    /// Whether it is sealed and all of its messages are done with, as far as that is known.
    pub(crate) fn is_done(&self) -> bool {
        let count = self.with_log(Log::sealed).flatten();
        let resolved = self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            Some(state.resolved().count())
        });
        count.is_some_and(|count| resolved.unwrap_or(0) == u32::from(count))
    }

    /// Its log, if what is known is this segment's.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> Option<T> {
        self.log
            .with_copy(|log| log.filter(|log| log.segment() == self.number).map(look))
    }

    /// Knows the deduplication ids of the segments before, which are sealed, from now on.
    pub(crate) async fn know_recent(&self, head: &Head) -> Result<()> {
        let ground = &self.log.ground;
        if ground.recent.get().is_some() {
            return Ok(());
        }
        let now = ground.queues.environment.now_micros();
        let mut recent = Recent::new();
        for (number, register) in head.before(self.number, now) {
            let log = read_log(&ground.queues, ground.address, register, &Log::absent()).await?;
            if log.segment() == number {
                recent.extend(log.fingerprints());
            }
        }
        // Another may have been quicker, with the same.
        let _ = ground.recent.set(recent);
        Ok(())
    }
}

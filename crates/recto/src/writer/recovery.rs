//! Detection of dead processes, resolution of their intents, and removal of their data. An intent
//! is the stored record of a change that may be incomplete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto_protocol::views::{
    DeadSegment, Incarnation, Intent, Micros, Registration, Watch, Write, Writer, dead_segment,
};
use recto_store::{Cas, CasOutcome, ConsistencyLevel, WriteOptions};

use super::common::Common;
use super::drive::{Drive, End};
use super::process::Process;
use super::record::{Record, UnderWay};
use crate::error::{Error, Result};
use crate::session::RecoveryPass;

/// Interval between two recovery passes, which detect dead processes and complete their changes.
pub(super) const RECOVERY_PAUSE: Duration = Duration::from_secs(5);
/// Time for which a dead process is left to the process that found it dead. Afterwards, other
/// processes also resolve its intents.
const LEFT_TO_FINDER: Duration = Duration::from_secs(15);
/// Maximum number of intents (records of unfinished changes) that are resolved concurrently.
const MAX_RESOLVING: usize = 16;
/// Time limit for completing the change of one intent (record of an unfinished change). After this
/// time, the next recovery pass tries again.
const RESOLVING_TIME: Duration = Duration::from_secs(30);

/// Recovery by this process: it detects dead processes and completes their changes.
pub(super) struct Recovery {
    common: Arc<Common>,
    process: Arc<Process>,
    watches: BTreeMap<Incarnation, Watch>,
    /// For each process, its counter when it was first seen. A process whose counter has changed
    /// since is alive.
    first_seen: BTreeMap<Incarnation, u64>,
    /// For each dead process with unresolved intents, the time since which it is known to be dead.
    dead_since: BTreeMap<Incarnation, Micros>,
}

impl Recovery {
    pub(super) fn new(common: &Arc<Common>, process: &Arc<Process>) -> Self {
        Self {
            common: Arc::clone(common),
            process: Arc::clone(process),
            watches: BTreeMap::new(),
            first_seen: BTreeMap::new(),
            dead_since: BTreeMap::new(),
        }
    }

    /// Makes recovery passes until other processes declare this process dead, or until the writer
    /// of this process has ended.
    pub(super) async fn run(mut self) {
        let (common, process) = (Arc::clone(&self.common), Arc::clone(&self.process));
        loop {
            tokio::select! {
                biased;
                () = process.lost() => return,
                () = common.ended() => return,
                // Ignore errors, because the next pass repeats the work that failed.
                _ = self.recover(LEFT_TO_FINDER) => {}
            }
            tokio::select! {
                biased;
                () = process.lost() => return,
                () = common.ended() => return,
                () = tokio::time::sleep(RECOVERY_PAUSE) => {}
            }
        }
    }

    /// Continues the recovery with another registration of this process. The observations
    /// of other processes remain valid.
    pub(super) fn act_for(&mut self, process: Arc<Process>) {
        self.process = process;
    }

    /// Makes one recovery pass: reads all registrations, finds dead processes, and resolves their
    /// intents. A dead process that another process found is left to the finder for
    /// `left_to_finder`. If a part of the work failed, also returns its error.
    ///
    /// # Errors
    /// The registrations cannot be read.
    pub(super) async fn recover(
        &mut self,
        left_to_finder: Duration,
    ) -> Result<(RecoveryPass, Option<Error>)> {
        let mut pass = RecoveryPass::default();
        let mut failure = None;
        let timeout = self.common.request_timeout;
        let all = self
            .common
            .tables
            .registrations(&self.common.store, None, timeout)
            .await?;
        self.watches
            .retain(|one, _| all.iter().any(|(there, writer)| there == one && !writer.is_dead));
        self.first_seen
            .retain(|one, _| all.iter().any(|(there, _)| there == one));
        self.dead_since
            .retain(|one, _| all.iter().any(|(there, _)| there == one));
        for (incarnation, writer) in all {
            // Keep an error for later, so that it does not prevent the pass from handling
            // the other processes.
            if let Err(error) = self.see_to(incarnation, writer, left_to_finder, &mut pass).await {
                pass.unresolved += 1;
                failure = Some(error);
            }
        }
        self.common.counts.count_pass(pass);
        Ok((pass, failure))
    }

    /// Checks whether a process is dead. If so, does the next step of its recovery.
    async fn see_to(
        &mut self,
        incarnation: Incarnation,
        writer: Writer,
        left_to_finder: Duration,
        pass: &mut RecoveryPass,
    ) -> Result<()> {
        let is_found = !writer.is_dead && self.find_dead(incarnation, &writer).await?;
        if is_found {
            pass.found_dead += 1;
        }
        let writer = match (writer.is_dead, is_found) {
            (true, _) => writer,
            (false, true) => dead(writer),
            (false, false) if self.lives(incarnation, &writer) => {
                pass.living += 1;
                return Ok(());
            }
            (false, false) => {
                pass.watched += 1;
                return Ok(());
            }
        };
        let now = self.common.continuous_micros();
        let since = *self.dead_since.entry(incarnation).or_insert(now);
        let waited = Duration::from_micros(now.saturating_sub(since).unsigned_abs());
        let is_ours = is_found || waited >= left_to_finder;
        self.bury(incarnation, &writer, is_ours, pass).await
    }

    /// Returns whether a process has renewed its registration since it was first seen. This process itself is always
    /// alive.
    fn lives(&mut self, incarnation: Incarnation, writer: &Writer) -> bool {
        let first = *self.first_seen.entry(incarnation).or_insert(writer.counter);
        incarnation == self.process.incarnation || first != writer.counter
    }

    /// Declares another process dead if its counter has not risen for long enough. Returns whether
    /// it declared the process dead now.
    async fn find_dead(&mut self, incarnation: Incarnation, writer: &Writer) -> Result<bool> {
        if incarnation == self.process.incarnation {
            return Ok(false);
        }
        let now = self.common.continuous_micros();
        let watch = self
            .watches
            .entry(incarnation)
            .or_insert_with(|| Watch::new(writer.counter, now));
        watch.saw(writer.counter, now);
        let Some(counter) = watch.dead_at(now) else {
            return Ok(false);
        };
        let cas = self
            .common
            .tables
            .renewal(incarnation, &dead(writer.clone()), Some(counter));
        let is_found = self.decide(cas).await?;
        if is_found {
            Common::count(&self.common.counts.found_dead);
        }
        Ok(is_found)
    }

    /// Sends a conditional write of a registration, and returns whether it was applied. If the
    /// outcome is unknown, returns an error, so that the next recovery pass tries again.
    async fn decide(&self, cas: Cas) -> Result<bool> {
        let options = WriteOptions {
            consistency: Some(ConsistencyLevel::Serial),
            ..self.common.write_options()
        };
        match self.common.store.cas(cas, options).await? {
            CasOutcome::Applied => Ok(true),
            CasOutcome::NotApplied { .. } => Ok(false),
            CasOutcome::Unknown(error) | CasOutcome::Refused(error) => Err(error.into()),
        }
    }

    /// Does the next step of the recovery of a dead process: waits, resolves its intents (records
    /// of unfinished changes), or deletes its data.
    async fn bury(
        &mut self,
        incarnation: Incarnation,
        writer: &Writer,
        is_ours: bool,
        pass: &mut RecoveryPass,
    ) -> Result<()> {
        let now = self.common.environment.now_micros();
        let since = writer.resolved_at.map_or(0, |at| now.saturating_sub(at));
        let waited_seconds = u64::try_from(since / 1_000_000).unwrap_or(0);
        match dead_segment(writer.resolved, waited_seconds) {
            DeadSegment::Wait => pass.waiting += 1,
            DeadSegment::Resolve if !is_ours => pass.unresolved += 1,
            DeadSegment::Resolve => {
                if !self.resolve_all(incarnation, writer, pass).await? {
                    pass.unresolved += 1;
                    return Ok(());
                }
                let resolved = Writer {
                    resolved: writer.resolved + 1,
                    resolved_at: writer.resolved_at.or(Some(now)),
                    ..writer.clone()
                };
                let cas = self
                    .common
                    .tables
                    .resolved(incarnation, &resolved, writer.resolved);
                self.decide(cas).await?;
                pass.waiting += 1;
            }
            DeadSegment::Delete => {
                self.remove(incarnation, writer).await?;
                pass.removed += 1;
            }
        }
        Ok(())
    }

    /// Completes the changes of all intents (records of unfinished changes) of a dead process.
    /// Returns whether all were completed.
    async fn resolve_all(
        &self,
        incarnation: Incarnation,
        writer: &Writer,
        pass: &mut RecoveryPass,
    ) -> Result<bool> {
        for segment in &writer.segments {
            let mut intents = self.intents(incarnation, *segment).await?;
            // Many intents belong to few records, so resolve each record only once.
            intents.sort_by(|one, other| of(one).cmp(&of(other)));
            intents.dedup_by(|one, other| of(one) == of(other));
            // Reload the schema after the intents are read, so that a collection that is
            // missing in it was dropped.
            self.common.reload().await?;
            let resolved = intents.into_iter().map(|intent| self.resolve(intent));
            let resolved: Vec<bool> = stream::iter(resolved)
                .buffer_unordered(MAX_RESOLVING)
                .collect()
                .await;
            pass.resolved += resolved.iter().filter(|is_resolved| **is_resolved).count();
            if resolved.contains(&false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn intents(&self, of: Incarnation, segment: u64) -> Result<Vec<Intent>> {
        let timeout = self.common.request_timeout;
        self.common
            .tables
            .intents(&self.common.store, of, segment, timeout)
            .await
    }

    async fn resolve(&self, intent: Intent) -> bool {
        // If this program cannot write the sort keys of the collection's views, leave the intent to
        // a process that can.
        if self
            .common
            .holding
            .held()
            .recorded
            .check_sort_keys(&intent.collection)
            .is_err()
        {
            return false;
        }
        let Some(under_way) = UnderWay::begin(&self.common, &self.process) else {
            return false;
        };
        let record = Record::new(&self.common, &self.process, &intent.collection, intent.key);
        let resolving = Drive::resolve(record, Write::resolve(), under_way).run();
        let resolved = tokio::time::timeout(RESOLVING_TIME, resolving).await;
        let is_resolved = matches!(resolved, Ok(End::Settled(_)));
        if is_resolved {
            Common::count(&self.common.counts.resolved);
        }
        is_resolved
    }

    /// Deletes the segments (partitions of intents) of a dead process, then its registration.
    async fn remove(&mut self, incarnation: Incarnation, writer: &Writer) -> Result<()> {
        for segment in &writer.segments {
            let intents = self.intents(incarnation, *segment).await?;
            if let Some(newest) = intents.iter().map(|intent| intent.stamp).max() {
                let deletion = self.common.tables.deletion(incarnation, *segment, newest);
                self.common.write(deletion).await?;
            }
        }
        let cas = self.common.tables.forgetting(incarnation, writer.resolved);
        self.decide(cas).await?;
        self.dead_since.remove(&incarnation);
        Ok(())
    }
}

/// Returns the registration of a process with the mark that it is dead.
fn dead(writer: Writer) -> Writer {
    let Registration { counter, is_dead, .. } = writer.registration().dead();
    Writer {
        counter,
        is_dead,
        ..writer
    }
}

/// Returns the collection of an intent (record of an unfinished change), and the key of its record.
fn of(intent: &Intent) -> (&str, Vec<Option<&[u8]>>) {
    (&intent.collection, intent.key.iter().collect())
}

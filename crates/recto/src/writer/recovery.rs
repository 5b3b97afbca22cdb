//! Who is dead, and what they left: intents that are resolved, and then removed.

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

/// How often it is looked who lives.
pub(super) const RECOVERY_PAUSE: Duration = Duration::from_secs(5);
/// How long what another process found dead is left to that one.
const LEFT_TO_FINDER: Duration = Duration::from_secs(15);
/// How many intents are resolved at a time.
const MAX_RESOLVING: usize = 16;
/// How long one may take, until it is left for the next time.
const RESOLVING_TIME: Duration = Duration::from_secs(30);

/// Looks after what the dead leave, on behalf of a process.
pub(super) struct Recovery {
    common: Arc<Common>,
    process: Arc<Process>,
    watches: BTreeMap<Incarnation, Watch>,
    /// The counters at which those were seen first who are not known to live.
    first_seen: BTreeMap<Incarnation, u64>,
    /// Since when the dead are known whose intents are not resolved.
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

    /// Recovers until this process was found dead itself, or writes no more.
    pub(super) async fn run(mut self) {
        let (common, process) = (Arc::clone(&self.common), Arc::clone(&self.process));
        loop {
            tokio::select! {
                biased;
                () = process.lost() => return,
                () = common.ended() => return,
                // What could not be done is done the next time.
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

    /// Goes on on behalf of this process: what was seen of the others stays seen.
    pub(super) fn act_for(&mut self, process: Arc<Process>) {
        self.process = process;
    }

    /// Looks at all who write, finds who is dead, and does what is to be done of what they left; and why not all of it could
    /// be done. What others found is left to them for a time.
    ///
    /// # Errors
    /// Nobody could be looked at.
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
            // What cannot be done of one keeps nobody from what the others left.
            if let Err(error) = self.see_to(incarnation, writer, left_to_finder, &mut pass).await {
                pass.unresolved += 1;
                failure = Some(error);
            }
        }
        self.common.counts.count_pass(pass);
        Ok((pass, failure))
    }

    /// Finds whether one is dead, and does then what is to be done of what it left.
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

    /// Whether a process renewed its registration since it was seen first.
    fn lives(&mut self, incarnation: Incarnation, writer: &Writer) -> bool {
        let first = *self.first_seen.entry(incarnation).or_insert(writer.counter);
        incarnation == self.process.incarnation || first != writer.counter
    }

    /// Whether a process was found dead by now, and by this one.
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

    /// Whether a conditional write of a registration was applied. Of unknown outcome: not now; it is looked at again.
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

    /// Does what is to be done of what a dead process left.
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

    /// Resolves all intents of a dead process; whether all are.
    async fn resolve_all(
        &self,
        incarnation: Incarnation,
        writer: &Writer,
        pass: &mut RecoveryPass,
    ) -> Result<bool> {
        for segment in &writer.segments {
            let mut intents = self.intents(incarnation, *segment).await?;
            // Many intents are of few records: each of these is resolved once.
            intents.sort_by(|one, other| of(one).cmp(&of(other)));
            intents.dedup_by(|one, other| of(one) == of(other));
            // After the intents: a collection that is not there now was dropped.
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
        // Who can write its views resolves it.
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

    /// Removes the segments of a dead process, and then its registration.
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

/// The registration of a process that was found dead.
fn dead(writer: Writer) -> Writer {
    let Registration { counter, is_dead, .. } = writer.registration().dead();
    Writer {
        counter,
        is_dead,
        ..writer
    }
}

/// Which record an intent is of.
fn of(intent: &Intent) -> (&str, Vec<Option<&[u8]>>) {
    (&intent.collection, intent.key.iter().collect())
}

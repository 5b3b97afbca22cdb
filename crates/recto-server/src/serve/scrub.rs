//! Scrub: reads the file of an embedded store slowly and repeatedly in the background, and reports
//! damage.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recto::LocalSession;
use recto::session::ScrubPosition;

use crate::config::Scrub;
use crate::operation::Observer;

/// Number of bytes that the scrub reads at a time.
const STEP_BYTES: u64 = 256 << 10;
/// Pause of the scrub after a failed read of the file.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of problems that the scrub remembers, to log each only once. Beyond the maximum,
/// it forgets all problems, and may log them again.
const MAX_TOLD: usize = 1_000;

/// Checks the store's file for damage until the task is aborted. Returns at once if the scrub is
/// turned off or the store has no file.
pub(super) async fn scrub(session: LocalSession, settings: Scrub, observer: Arc<Observer>) {
    if settings.interval.is_zero() {
        return;
    }
    let metrics = &observer.metrics.scrub;
    let mut position = ScrubPosition::default();
    let mut told = HashSet::new();
    let mut in_round = HashSet::new();
    loop {
        let step = match session.scrub_step(&mut position, STEP_BYTES).await {
            Ok(Some(step)) => step,
            Ok(None) => return,
            Err(error) => {
                crate::log::error!(%error, "the scrub cannot read the store");
                tokio::time::sleep(FAILURE_PAUSE).await;
                continue;
            }
        };
        metrics.bytes.fetch_add(step.bytes, Ordering::Relaxed);
        metrics.rows.fetch_add(step.rows, Ordering::Relaxed);
        metrics.met.store(step.met.len() as u64, Ordering::Relaxed);
        in_round.extend(step.problems.iter().cloned());
        for problem in step.problems.into_iter().chain(step.met) {
            if told.len() >= MAX_TOLD {
                told.clear();
            }
            if told.insert(problem.clone()) {
                crate::log::error!(
                    problem,
                    "the store is damaged; `recto check` lists all of it, restore it from a backup"
                );
            }
        }
        let so_far = metrics
            .problems
            .load(Ordering::Relaxed)
            .max(in_round.len() as u64);
        metrics.problems.store(so_far, Ordering::Relaxed);
        let mut pause = settings.pause(step.bytes);
        if step.is_last {
            metrics.problems.store(in_round.len() as u64, Ordering::Relaxed);
            let now_seconds = observer.environment.now_micros() / 1_000_000;
            metrics
                .finished_seconds
                .store(now_seconds.unsigned_abs(), Ordering::Relaxed);
            crate::log::info!(problems = in_round.len(), "the store was scrubbed");
            in_round.clear();
            pause = settings.interval;
        }
        tokio::time::sleep(pause).await;
    }
}

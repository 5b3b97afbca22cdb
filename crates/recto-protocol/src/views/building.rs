//! Steps by which a view is added or dropped while records are written. The next step depends only on the
//! recorded state. A process that was interrupted, or that starts again, can therefore compute the next step
//! and continue.

use crate::views::member::Registration;
use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// State of a view in the catalog: whether processes write it and read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewState {
    /// The view is written, and not read.
    Building,
    /// The view is written and read.
    Ready,
    /// The view is written. A process that knows this state does not read the view any more. A process that reads with
    /// an older catalog still finds all entries.
    Retiring,
    /// The view is neither written nor read. Its table is dropped when no writer remains that writes to it.
    Dropping,
}

/// Time for which a process may read with a catalog, in microseconds, counted from its request for the catalog. After
/// that, the process reads the catalog again, or rejects reads.
pub const CATALOG_MICROS: Micros = 15_000_000;
/// Minimum time for which a view is [`Retiring`](ViewState::Retiring), in microseconds, counted from the recording of
/// this state. It is longer than the time for which a process may read with the previous catalog.
pub const RETIRING_MICROS: Micros = 30_000_000;

/// Progress of a view since it was recorded as [`Building`](ViewState::Building). Each value implies the
/// values before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Built {
    /// The view is recorded in the catalog. No later step is done.
    Begun,
    /// The [`barrier`] held: every process that writes knows the view.
    Passed,
    /// The base table was read to its end.
    Filled,
    /// The view was compared with the base table, and no fault was found.
    Verified,
}

/// Known progress of a view that is added or dropped. The recorded state is part of the value, so that knowledge about
/// an earlier state is not mistaken for knowledge about the current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The view has no table, and is not recorded in the catalog.
    Nothing,
    /// The table of the view exists. The view is not recorded in the catalog.
    Table,
    /// The view is recorded as [`Building`](ViewState::Building).
    Building(Built),
    /// The view is recorded as [`Ready`](ViewState::Ready).
    Ready,
    /// The view is recorded as [`Retiring`](ViewState::Retiring).
    Retiring {
        /// True if no process reads with an older catalog any more.
        is_unread: bool,
    },
    /// The view is recorded as [`Dropping`](ViewState::Dropping).
    Dropping {
        /// True if the [`barrier`] held: no process writes to the view any more.
        is_unwritten: bool,
    },
    /// The view is recorded as [`Dropping`](ViewState::Dropping), and its table was dropped.
    Dropped,
}

impl Progress {
    /// Returns the progress just after this state was recorded.
    pub const fn recorded(state: ViewState) -> Self {
        match state {
            ViewState::Building => Self::Building(Built::Begun),
            ViewState::Ready => Self::Ready,
            ViewState::Retiring => Self::Retiring { is_unread: false },
            ViewState::Dropping => Self::Dropping { is_unwritten: false },
        }
    }
}

/// Next step of adding or dropping a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildStep {
    /// Create the table of the view.
    MakeTable,
    /// Record the view in this state, as a new generation.
    Record(ViewState),
    /// Wait until the [`barrier`] holds for the generation that has the recorded state.
    Barrier,
    /// Read the base table, and [`fill`](crate::views::fill) the view.
    Fill,
    /// Compare the view with the base table, and repair it.
    Verify,
    /// Wait for [`RETIRING_MICROS`], until no process reads with an older catalog.
    WaitForReaders,
    /// Drop the table of the view.
    DropTable,
    /// Record that the view no longer exists.
    Forget,
    /// No step is left.
    Done,
}

/// Returns the next step of adding or dropping a view.
pub fn next_step(progress: Progress) -> BuildStep {
    next_step_by(progress, Rules::default())
}

pub(crate) fn next_step_by(progress: Progress, rules: Rules) -> BuildStep {
    let barrier = rules.keeps(Rule::Barrier);
    match progress {
        Progress::Nothing => BuildStep::MakeTable,
        Progress::Table => BuildStep::Record(ViewState::Building),
        Progress::Building(Built::Begun) | Progress::Dropping { is_unwritten: false } if barrier => {
            BuildStep::Barrier
        }
        Progress::Building(Built::Begun | Built::Passed) => BuildStep::Fill,
        Progress::Building(Built::Filled) => BuildStep::Verify,
        Progress::Building(Built::Verified) => BuildStep::Record(ViewState::Ready),
        Progress::Ready => BuildStep::Done,
        Progress::Retiring { is_unread: false } => BuildStep::WaitForReaders,
        Progress::Retiring { is_unread: true } => BuildStep::Record(ViewState::Dropping),
        Progress::Dropping { .. } => BuildStep::DropTable,
        Progress::Dropped => BuildStep::Forget,
    }
}

/// Checks that no write that uses a schema older than `needed` can arrive any more. The barrier holds if
/// every live process announces this schema or a newer one, and the intents of dead processes are resolved.
/// The caller passes all registrations, read serially after the generation was recorded. A process that
/// registers later reads the new catalog.
///
/// # Errors
/// Indexes of the registrations for which the barrier waits.
pub fn barrier(registrations: &[Registration], needed: Generation) -> Result<(), Vec<usize>> {
    barrier_by(registrations, needed, Rules::default())
}

pub(crate) fn barrier_by(
    registrations: &[Registration],
    needed: Generation,
    rules: Rules,
) -> Result<(), Vec<usize>> {
    let holds_up = |registration: &Registration| {
        if registration.is_dead {
            !registration.is_resolved && rules.keeps(Rule::BarrierSweepsDead)
        } else {
            registration.generation < Some(needed)
        }
    };
    let waits_for = registrations.iter().enumerate();
    let waits_for: Vec<usize> = waits_for
        .filter(|(_, one)| holds_up(one))
        .map(|(index, _)| index)
        .collect();
    if waits_for.is_empty() {
        Ok(())
    } else {
        Err(waits_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_becomes_ready_step_by_step() {
        use BuildStep::{Barrier, Done, Fill, MakeTable, Record, Verify};
        assert_eq!(next_step(Progress::Nothing), MakeTable);
        assert_eq!(next_step(Progress::Table), Record(ViewState::Building));
        assert_eq!(next_step(Progress::recorded(ViewState::Building)), Barrier);
        assert_eq!(next_step(Progress::Building(Built::Passed)), Fill);
        assert_eq!(next_step(Progress::Building(Built::Filled)), Verify);
        assert_eq!(
            next_step(Progress::Building(Built::Verified)),
            Record(ViewState::Ready)
        );
        assert_eq!(next_step(Progress::recorded(ViewState::Ready)), Done);
    }

    #[test]
    fn drops_a_view_once_unread_and_unwritten() {
        use BuildStep::{Barrier, DropTable, Forget, Record, WaitForReaders};
        let retiring = Progress::recorded(ViewState::Retiring);
        assert_eq!(next_step(retiring), WaitForReaders);
        let unread = Progress::Retiring { is_unread: true };
        assert_eq!(next_step(unread), Record(ViewState::Dropping));
        // A drop needs its own barrier: the barrier that held while the view was built does not
        // count.
        assert_eq!(next_step(Progress::recorded(ViewState::Dropping)), Barrier);
        assert_eq!(next_step(Progress::Dropping { is_unwritten: true }), DropTable);
        assert_eq!(next_step(Progress::Dropped), Forget);
        const { assert!(CATALOG_MICROS < RETIRING_MICROS) };
    }

    #[test]
    fn a_barrier_says_whom_it_waits_for() {
        let at = |generation: u64| Registration {
            generation: Some(Generation(generation)),
            ..Registration::first()
        };
        let resolved = Registration {
            is_resolved: true,
            ..at(1).dead()
        };
        let all = [at(2), at(1), Registration::first(), at(1).dead(), resolved];
        assert_eq!(barrier(&all, Generation(2)), Err(vec![1, 2, 3]));
        assert_eq!(barrier(&[at(2), resolved], Generation(2)), Ok(()));
    }
}

//! Steps that add or drop a view while processes write records. The next step depends only on
//! recorded state, so any process can continue after an interruption.

use crate::views::member::Registration;
use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// State of a view in the catalog, which decides whether processes write and read the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewState {
    /// Processes write the view, and do not read it.
    Building,
    /// Processes write and read the view.
    Ready,
    /// Processes write the view, and stop reading it when they learn of this state. A process that
    /// reads with an older catalog still finds all entries.
    Retiring,
    /// Processes neither write nor read the view. Its table is dropped when no process writes to it
    /// any more.
    Dropping,
}

/// Time for which a process may read with a catalog, in microseconds, counted from its request for
/// the catalog. Then the process must read the catalog again, or reject reads.
pub const CATALOG_MICROS: Micros = 15_000_000;
/// Minimum time for which a view stays [`Retiring`](ViewState::Retiring), in microseconds. It is
/// longer than [`CATALOG_MICROS`], so that no process still reads the view afterwards.
pub const RETIRING_MICROS: Micros = 30_000_000;

/// Progress of a backfill, since the view was recorded as [`Building`](ViewState::Building). Each
/// value implies the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Built {
    /// The view is recorded in the catalog.
    Begun,
    /// The [`barrier`] held: every process that writes knows the view.
    Passed,
    /// The whole base table was read, and its entries were put into the view.
    Filled,
    /// The view was compared with the base table, and no difference was found.
    Verified,
}

/// Known progress of adding or dropping a view. The value contains the recorded state, so that
/// progress in an earlier state does not count in the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The view has no table, and is not in the catalog.
    Nothing,
    /// The table of the view exists, but the view is not in the catalog.
    Table,
    /// The view is recorded as [`Building`](ViewState::Building).
    Building(Built),
    /// The view is recorded as [`Ready`](ViewState::Ready).
    Ready,
    /// The view is recorded as [`Retiring`](ViewState::Retiring).
    Retiring {
        /// True if no process reads the view with an older catalog any more.
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
    /// Returns the progress when `state` has just been recorded in the catalog.
    pub const fn recorded(state: ViewState) -> Self {
        match state {
            ViewState::Building => Self::Building(Built::Begun),
            ViewState::Ready => Self::Ready,
            ViewState::Retiring => Self::Retiring { is_unread: false },
            ViewState::Dropping => Self::Dropping { is_unwritten: false },
        }
    }
}

/// Next step of adding or dropping a view, which the caller executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildStep {
    /// Create the table of the view.
    MakeTable,
    /// Record this state of the view in the catalog, as a new version of the schema.
    Record(ViewState),
    /// Wait until the [`barrier`] holds: no process writes with a schema older than the one just
    /// recorded.
    Barrier,
    /// Read the base table, and [put](crate::views::fill) its entries into the view.
    Fill,
    /// Compare the view with the base table, and repair differences.
    Verify,
    /// Wait for [`RETIRING_MICROS`], until no process reads the view with an older catalog.
    WaitForReaders,
    /// Drop the table of the view.
    DropTable,
    /// Remove the view from the catalog.
    Forget,
    /// Nothing: the view is ready.
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

/// Checks that no more writes can arrive that use a schema older than `needed`. The barrier holds
/// if every live process uses this schema or a newer one, and the pending changes of dead processes
/// are resolved. The caller passes all registrations, read with serial consistency after `needed`
/// was recorded. A process that registers later reads the new catalog.
///
/// # Errors
/// Indexes (from 0) in `registrations` of the processes for which the caller must wait.
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
        // A drop needs its own barrier: the barrier of the backfill concerned an older schema.
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

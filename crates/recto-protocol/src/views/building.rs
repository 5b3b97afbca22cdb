//! How a view is added while records are written: what is to be done next, by what is recorded. Whoever
//! is interrupted, or begins again, asks and goes on.

use crate::views::member::Registration;
use crate::views::row::{Generation, Micros};
use crate::views::rules::{Rule, Rules};

/// What the catalog says of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewState {
    /// It is written, and not read.
    Building,
    /// It is read.
    Ready,
    /// It is written, and not read any more by who knows this. Who reads by an older catalog still finds all in it.
    Retiring,
    /// It is neither; its table goes when no writer is left that writes it.
    Dropping,
}

/// For how long a process may read by a catalog, counted from when it asked for it. After that it asks again, or refuses
/// to read.
pub const CATALOG_MICROS: Micros = 15_000_000;
/// For how long a view is [`Retiring`](ViewState::Retiring) at least, counted from when that was recorded: longer than
/// anyone reads by the catalog before.
pub const RETIRING_MICROS: Micros = 30_000_000;

/// How far the making of a view has come since it was recorded. Later ones include the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Built {
    /// It is recorded.
    Begun,
    /// The [`barrier`] held.
    Passed,
    /// The base table was read to its end.
    Filled,
    /// It was compared with the base table, and nothing was wrong.
    Verified,
}

/// What is known of a view on its way: one value with what is recorded, so that nothing said of an earlier state is
/// taken for this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// It has no table, and is not recorded.
    Nothing,
    /// Its table is there.
    Table,
    /// It is recorded as [`Building`](ViewState::Building).
    Building(Built),
    /// It is recorded as [`Ready`](ViewState::Ready).
    Ready,
    /// It is recorded as [`Retiring`](ViewState::Retiring).
    Retiring {
        /// Whether nobody reads by an older catalog any more.
        is_unread: bool,
    },
    /// It is recorded as [`Dropping`](ViewState::Dropping).
    Dropping {
        /// Whether the [`barrier`] held.
        is_unwritten: bool,
    },
    /// That, and its table is gone.
    Dropped,
}

impl Progress {
    /// What is known when this was recorded just now.
    pub const fn recorded(state: ViewState) -> Self {
        match state {
            ViewState::Building => Self::Building(Built::Begun),
            ViewState::Ready => Self::Ready,
            ViewState::Retiring => Self::Retiring { is_unread: false },
            ViewState::Dropping => Self::Dropping { is_unwritten: false },
        }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildStep {
    /// Make the table.
    MakeTable,
    /// Record the view in this state, as a new generation.
    Record(ViewState),
    /// Wait until the [`barrier`] holds of the generation that has it.
    Barrier,
    /// Read the base table, and [`fill`](crate::views::fill) the view.
    Fill,
    /// Compare it with the base table, and mend it.
    Verify,
    /// Wait until nobody reads by an older catalog: [`RETIRING_MICROS`].
    WaitForReaders,
    /// Drop the table.
    DropTable,
    /// Record that the view is no more.
    Forget,
    /// Nothing.
    Done,
}

/// What is to be done next for a view to be read.
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

/// Whether no write will come any more by a schema older than `needed`: every process that lives says that it writes by
/// that one or a newer, and what the dead have left is resolved. It is asked of all registrations, read serially after
/// the generation was recorded; those that come later read the new catalog.
///
/// # Errors
/// Whom it waits for: indexes of registrations.
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
    fn a_view_is_dropped_when_nobody_reads_it_and_then_nobody_writes_it() {
        use BuildStep::{Barrier, DropTable, Forget, Record, WaitForReaders};
        let retiring = Progress::recorded(ViewState::Retiring);
        assert_eq!(next_step(retiring), WaitForReaders);
        let unread = Progress::Retiring { is_unread: true };
        assert_eq!(next_step(unread), Record(ViewState::Dropping));
        // That a barrier held when it was built says nothing here.
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

//! How a view is added while records are written: what is to be done next, by what is recorded. Whoever
//! is interrupted, or begins again, asks and goes on.

use crate::member::Registration;
use crate::row::Generation;
use crate::rules::{Rule, Rules};

/// What the catalog says of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewState {
    /// It is written, and not read.
    Building,
    /// It is read.
    Ready,
    /// It is neither; its table goes when no writer is left that writes it.
    Dropping,
}

/// How far the making of a view, or its removal, has come. Later ones include the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reached {
    /// There is no table.
    Nothing,
    /// Its table is there.
    Table,
    /// The [`barrier`] held of the state that is recorded.
    Passed,
    /// The base table was read to its end.
    Filled,
    /// It was compared with the base table, and nothing was wrong.
    Verified,
}

/// What is known of a view on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Progress {
    /// What the catalog says; none: nothing.
    pub recorded: Option<ViewState>,
    /// What was done, by this or an earlier run.
    pub reached: Reached,
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
    /// Read the base table, and [`fill`](crate::fill) the view.
    Fill,
    /// Compare it with the base table, and mend it.
    Verify,
    /// Drop the table.
    DropTable,
    /// Nothing.
    Done,
}

/// What is to be done next for a view to be read.
pub fn next_step(progress: Progress) -> BuildStep {
    next_step_by(progress, Rules::default())
}

pub(crate) fn next_step_by(progress: Progress, rules: Rules) -> BuildStep {
    let barrier = rules.keeps(Rule::Barrier);
    match (progress.recorded, progress.reached) {
        (None, Reached::Nothing) => BuildStep::MakeTable,
        (None, _) => BuildStep::Record(ViewState::Building),
        (Some(ViewState::Ready), _) | (Some(ViewState::Dropping), Reached::Nothing) => BuildStep::Done,
        (Some(_), Reached::Nothing | Reached::Table) if barrier => BuildStep::Barrier,
        (Some(ViewState::Dropping), _) => BuildStep::DropTable,
        (Some(ViewState::Building), Reached::Filled) => BuildStep::Verify,
        (Some(ViewState::Building), Reached::Verified) => BuildStep::Record(ViewState::Ready),
        (Some(ViewState::Building), _) => BuildStep::Fill,
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

    fn step(recorded: Option<ViewState>, reached: Reached) -> BuildStep {
        next_step(Progress { recorded, reached })
    }

    #[test]
    fn a_view_becomes_ready_step_by_step() {
        use BuildStep::{Barrier, Done, Fill, MakeTable, Record, Verify};
        let building = Some(ViewState::Building);
        assert_eq!(step(None, Reached::Nothing), MakeTable);
        assert_eq!(step(None, Reached::Table), Record(ViewState::Building));
        assert_eq!(step(building, Reached::Table), Barrier);
        assert_eq!(step(building, Reached::Passed), Fill);
        assert_eq!(step(building, Reached::Filled), Verify);
        assert_eq!(step(building, Reached::Verified), Record(ViewState::Ready));
        assert_eq!(step(Some(ViewState::Ready), Reached::Verified), Done);
    }

    #[test]
    fn a_view_is_dropped_when_nobody_writes_it() {
        let dropping = Some(ViewState::Dropping);
        assert_eq!(step(dropping, Reached::Table), BuildStep::Barrier);
        assert_eq!(step(dropping, Reached::Passed), BuildStep::DropTable);
        assert_eq!(step(dropping, Reached::Nothing), BuildStep::Done);
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

//! Named rules of a protocol. Tests disable a rule to show that the protocol fails without it.

#[cfg(not(test))]
use std::marker::PhantomData;

/// Maximum number of rules that a model (an exhaustive test) disables at once.
#[cfg(test)]
const MAX_LEFT_OUT: usize = 2;

/// Set of the enabled rules of a protocol. A release enables all rules. Tests disable some, to show
/// the fault that each rule prevents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules<R> {
    #[cfg(test)]
    left_out: [Option<R>; MAX_LEFT_OUT],
    #[cfg(not(test))]
    all: PhantomData<fn() -> R>,
}

impl<R> Default for Rules<R> {
    fn default() -> Self {
        Self {
            #[cfg(test)]
            left_out: [const { None }; MAX_LEFT_OUT],
            #[cfg(not(test))]
            all: PhantomData,
        }
    }
}

impl<R: Copy + PartialEq> Rules<R> {
    /// Returns the set of all rules except the rules in `left_out`.
    #[cfg(test)]
    pub(crate) fn without(left_out: [Option<R>; MAX_LEFT_OUT]) -> Self {
        Self { left_out }
    }

    /// Returns whether the protocol must obey `rule`: always true in a release.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "tests disable rules"))]
    pub(crate) fn keeps(self, rule: R) -> bool {
        #[cfg(test)]
        return !self.left_out.contains(&Some(rule));
        #[cfg(not(test))]
        {
            let _ = rule;
            true
        }
    }
}

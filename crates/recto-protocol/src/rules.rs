//! The rules of a protocol that are kept. A model leaves one out, to show that the protocol needs it.

#[cfg(not(test))]
use std::marker::PhantomData;

/// Maximum number of rules that a model leaves out at once.
#[cfg(test)]
const MAX_LEFT_OUT: usize = 2;

/// The rules of a protocol that are kept. A release keeps all; a model leaves some out.
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
    /// All rules but these.
    #[cfg(test)]
    pub(crate) fn without(left_out: [Option<R>; MAX_LEFT_OUT]) -> Self {
        Self { left_out }
    }

    /// Whether a rule is kept.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "tests leave rules out"))]
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

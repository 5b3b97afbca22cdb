//! The fewest groups of queries with a view each: a minimum clique cover of the graph in which queries are joined that one
//! view can serve.
//!
//! Without sorts and ranges that is a minimum chain cover of sets of fields by inclusion, which a matching finds
//! (Dilworth 1950, Fulkerson 1956; for indexes: Subotić, Jordan, Chang, Fekete, Scholz, Automatic Index Selection for Large-Scale
//! Datalog Computation, VLDB 2018). With them no such way is known, as agreeing is not transitive, and it is
//! searched for: branch and bound, with the chain cover of the sets as the bound from below.

use std::cmp::Reverse;

/// The most steps of a search, after which the best that was found is taken.
pub(crate) const MAX_STEPS: usize = 200_000;

/// What a group costs beside its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Fields of the view's partition.
    pub(crate) pinned: usize,
    /// Columns that are declared.
    pub(crate) columns: usize,
}

/// What all groups cost: fewest views, fewest of them without a partition, most partition fields, fewest columns.
type Total = (usize, usize, Reverse<usize>, usize);

/// Groups, as sets of numbers of queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) groups: Vec<u64>,
    /// Whether no fewer would do.
    pub(crate) is_minimal: bool,
}

/// What is to be covered.
pub(crate) struct Queries<'a> {
    /// For each query the set of those that it agrees with, itself too.
    pub(crate) agree: &'a [u64],
    /// How many fields each pins.
    pub(crate) pinned: &'a [usize],
    /// The fewest chains of the sets that they pin: there are at least so many groups.
    pub(crate) chains: &'a [u64],
    /// What a group costs.
    pub(crate) cost: &'a dyn Fn(u64) -> Cost,
}

/// A minimum chain cover of `count` sets, of which `holds(small, large)` says whether one is part of another.
/// Kuhn's algorithm: each step of time `count²`, `count` of them.
pub(crate) fn chains(count: usize, holds: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    // Equal sets follow each other by their numbers.
    let precedes = |small: usize, large: usize| {
        small != large && holds(small, large) && (!holds(large, small) || small < large)
    };
    let mut before: Vec<Option<usize>> = vec![None; count];
    for small in 0..count {
        augment(small, &precedes, &mut before, &mut vec![false; count]);
    }
    let is_last = |one: &usize| !before.contains(&Some(*one));
    let chain = |last| std::iter::successors(Some(last), |one: &usize| before[*one]);
    let lasts = (0..count).filter(is_last);
    lasts
        .map(|last| chain(last).fold(0, |set, one| set | 1 << one))
        .collect()
}

/// Gives a set one that follows it in its chain, moving others on. Recurses as deep as there are sets.
fn augment(
    small: usize,
    precedes: &impl Fn(usize, usize) -> bool,
    before: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for large in 0..before.len() {
        if seen[large] || !precedes(small, large) {
            continue;
        }
        seen[large] = true;
        let is_free = match before[large] {
            None => true,
            Some(other) => augment(other, precedes, before, seen),
        };
        if is_free {
            before[large] = Some(small);
            return true;
        }
    }
    false
}

impl Queries<'_> {
    /// The groups: the fewest, and of so many those that cost least.
    pub(crate) fn cover(&self) -> Cover {
        let mut order: Vec<usize> = (0..self.agree.len()).collect();
        // Those that agree with few decide most.
        order.sort_by_key(|query| self.agree[*query].count_ones());
        let mut search = Search {
            queries: self,
            order,
            groups: self.split_chains(),
            best: None,
            steps: 0,
        };
        // Without sorts and ranges this is the fewest already; else it is a beginning.
        search.best = Some((search.total(), std::mem::take(&mut search.groups)));
        search.go(0);
        let is_whole = search.steps <= MAX_STEPS;
        let groups = search.best.map_or_else(Vec::new, |(_, groups)| groups);
        Cover {
            is_minimal: is_whole || groups.len() == self.chains.len(),
            groups,
        }
    }

    /// The chains, each split where its members do not agree.
    fn split_chains(&self) -> Vec<u64> {
        let mut groups: Vec<u64> = Vec::new();
        for chain in self.chains {
            let first = groups.len();
            for query in members(*chain) {
                let agree = self.agree[query];
                match groups[first..]
                    .iter_mut()
                    .find(|group| **group & agree == **group)
                {
                    Some(group) => *group |= 1 << query,
                    None => groups.push(1 << query),
                }
            }
        }
        groups
    }
}

/// Queries are put into groups one after the other: each into one that there is, or into a new one.
struct Search<'a> {
    queries: &'a Queries<'a>,
    order: Vec<usize>,
    groups: Vec<u64>,
    best: Option<(Total, Vec<u64>)>,
    steps: usize,
}

impl Search<'_> {
    fn go(&mut self, next: usize) {
        self.steps += 1;
        if (self.steps > MAX_STEPS && self.best.is_some()) || !self.may_be_better(next) {
            return;
        }
        let Some(&query) = self.order.get(next) else {
            let total = self.total();
            if self.best.as_ref().is_none_or(|(best, _)| total < *best) {
                self.best = Some((total, self.groups.clone()));
            }
            return;
        };
        let agree = self.queries.agree[query];
        for group in 0..self.groups.len() {
            let members = self.groups[group];
            if members & agree == members {
                self.groups[group] |= 1 << query;
                self.go(next + 1);
                self.groups[group] = members;
            }
        }
        self.groups.push(1 << query);
        self.go(next + 1);
        self.groups.pop();
    }

    /// Whether what can come of the groups so far may cost less than the best that was found.
    fn may_be_better(&self, next: usize) -> bool {
        let Some(((views, unpartitioned, pinned, _), _)) = &self.best else {
            return true;
        };
        let least = (self.groups.len() + self.apart(next)).max(self.queries.chains.len());
        if least != *views {
            return least < *views;
        }
        // With as many views the rest decides: partitions only become smaller.
        let sizes = self.groups.iter().map(|group| self.partition(*group));
        let empty = sizes.clone().filter(|size| *size == 0).count();
        let largest = self.order[next..]
            .iter()
            .map(|query| self.queries.pinned[*query])
            .max();
        let most = sizes.sum::<usize>() + (views - self.groups.len()) * largest.unwrap_or(0);
        (empty, Reverse(most)) <= (*unpartitioned, *pinned)
    }

    /// How many of the queries from one on need groups of their own, at least: they fit into none and agree with none
    /// of each other.
    fn apart(&self, next: usize) -> usize {
        let mut apart: u64 = 0;
        for &query in &self.order[next..] {
            let agree = self.queries.agree[query];
            let fits = self.groups.iter().any(|members| members & agree == *members);
            if !fits && apart & agree == 0 {
                apart |= 1 << query;
            }
        }
        apart.count_ones() as usize
    }

    /// The fields of a group's partition: what the one pins that pins fewest.
    fn partition(&self, group: u64) -> usize {
        members(group)
            .map(|query| self.queries.pinned[query])
            .min()
            .unwrap_or(0)
    }

    fn total(&self) -> Total {
        let costs = self.groups.iter().map(|group| (self.queries.cost)(*group));
        let start = (self.groups.len(), 0, Reverse(0), 0);
        costs.fold(start, |(views, empty, Reverse(pinned), columns), cost| {
            let is_empty = usize::from(cost.pinned == 0);
            (
                views,
                empty + is_empty,
                Reverse(pinned + cost.pinned),
                columns + cost.columns,
            )
        })
    }
}

/// The numbers in a set.
pub(crate) fn members(group: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |number| group & (1 << number) != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covered(agree: &[u64], chains: &[u64]) -> Cover {
        let pinned = vec![1; agree.len()];
        let cost = |_| Cost {
            pinned: 1,
            columns: 1,
        };
        let queries = Queries {
            agree,
            pinned: &pinned,
            chains,
            cost: &cost,
        };
        queries.cover()
    }

    fn graph(count: usize, agrees: impl Fn(usize, usize) -> bool) -> Vec<u64> {
        let joined = |one: usize, other: usize| one == other || agrees(one, other);
        let numbers = |one: usize| {
            let others = (0..count).filter(|other| joined(one, *other));
            others.fold(0, |set, other| set | 1 << other)
        };
        (0..count).map(numbers).collect()
    }

    /// The most sets of which none is part of another: as Dilworth says, so many chains they need.
    fn widest(sets: &[u16]) -> usize {
        fn most(sets: &[u16], taken: &mut Vec<u16>) -> usize {
            let Some((&first, rest)) = sets.split_first() else {
                return taken.len();
            };
            let without = most(rest, taken);
            if taken
                .iter()
                .any(|one| one & first == *one || one & first == first)
            {
                return without;
            }
            taken.push(first);
            let with = most(rest, taken);
            taken.pop();
            with.max(without)
        }
        most(sets, &mut Vec::new())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Of sets, as few groups are found as there are sets of which none is part of another.
        #[test]
        fn chains_of_sets_are_as_few_as_dilworth_says(sets in proptest::collection::btree_set(0..1_u16 << 6, 1..20)) {
            let sets: Vec<u16> = sets.into_iter().collect();
            let is_part = |one: usize, other: usize| sets[one] & sets[other] == sets[one];
            let fewest = chains(sets.len(), is_part);
            let agree = graph(sets.len(), |one, other| is_part(one, other) || is_part(other, one));
            let found = covered(&agree, &fewest);
            prop_assert!(found.is_minimal);
            prop_assert_eq!(found.groups.len(), fewest.len());
            prop_assert_eq!(fewest.len(), widest(&sets));
        }
    }

    proptest! {
        // A search in a hard graph takes as many steps as it may.
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Every query is in one group, and those of a group agree, however hard the graph is.
        #[test]
        fn any_graph_is_covered(edges in proptest::collection::vec(0..100_u8, 32 * 32), dense in 10..90_u8) {
            let agree = graph(32, |one, other| edges[one.min(other) * 32 + one.max(other)] < dense);
            let found = covered(&agree, &[u64::from(u32::MAX)]);
            let all = found.groups.iter().fold((0_u64, 0), |(all, count), group| (all | group, count + group.count_ones()));
            prop_assert_eq!(all, (u64::from(u32::MAX), 32));
            for group in &found.groups {
                for query in members(*group) {
                    prop_assert_eq!(group & agree[query], *group);
                }
            }
        }
    }
}

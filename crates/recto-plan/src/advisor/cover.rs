//! Division of queries into the minimum number of groups, so that one view can serve each group.
//! This is a minimum clique cover of the graph in which two queries are joined if one view can
//! serve both.
//!
//! If no query has a sort or a range, this is a minimum chain cover of sets of fields by inclusion.
//! A matching finds it (Dilworth 1950, Fulkerson 1956). Subotić, Jordan, Chang, Fekete and Scholz
//! use it for indexes (Automatic Index Selection for Large-Scale Datalog Computation, VLDB 2018).
//! No such method is known for sorts and ranges, because agreement is not transitive. In that case
//! this module searches the cover by branch and bound, with the size of the chain cover as the
//! lower bound.

use std::cmp::Reverse;

/// Maximum number of steps of the search for a minimum cover. When the search reaches it, the best
/// cover found so far is the result.
pub(crate) const MAX_STEPS: usize = 200_000;

/// Cost of the view that serves one group of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Number of fields of the view's partition. A larger partition field count is better.
    pub(crate) pinned: usize,
    /// Number of columns that the view declares.
    pub(crate) columns: usize,
}

/// Cost of all groups, in the order of importance: number of views, number of views without a
/// partition, number of partition fields (more are better), number of columns.
type Total = (usize, usize, Reverse<usize>, usize);

/// Division of the queries into groups. Each group is a set of query indexes: bit `i` stands for
/// query `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) groups: Vec<u64>,
    /// True if the search proved that no division has fewer groups.
    pub(crate) is_minimal: bool,
}

/// Input of the search: queries to divide into groups. Bit `i` of a set stands for query `i`.
pub(crate) struct Queries<'a> {
    /// For each query, the set of queries that can share a view with it, including itself.
    pub(crate) agree: &'a [u64],
    /// For each query, the number of fields that it fixes by `=` or by a list of values.
    pub(crate) pinned: &'a [usize],
    /// Minimum division of the queries into chains, in which each query's fixed fields are a subset
    /// of the next query's. The number of chains is a lower bound of the number of groups.
    pub(crate) chains: &'a [u64],
    /// Returns the cost of a group.
    pub(crate) cost: &'a dyn Fn(u64) -> Cost,
}

/// Returns a minimum number of chains that contain all of `count` sets. In a chain, each set is a
/// subset of the next set. `holds(small, large)` returns whether the set `small` is a subset of
/// `large`. Uses Kuhn's algorithm: `count` steps of time `count²` each.
pub(crate) fn chains(count: usize, holds: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    // Equal sets are subsets of each other. Order equal sets by their indexes, because otherwise
    // the chains could have cycles.
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

/// Gives the set with the index `small` a successor in its chain. Moves the successors of other
/// sets if necessary, by an augmenting path of Kuhn's algorithm.
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
    /// Returns the division into the minimum number of groups. Among divisions of that size,
    /// returns the cheapest.
    pub(crate) fn cover(&self) -> Cover {
        let mut order: Vec<usize> = (0..self.agree.len()).collect();
        // Decide first about queries that agree with few others, because they restrict the search
        // most.
        order.sort_by_key(|query| self.agree[*query].count_ones());
        let mut search = Search {
            queries: self,
            order,
            groups: self.split_chains(),
            best: None,
            steps: 0,
        };
        // If no query has a sort or a range, the chains are already minimal. Otherwise they are the
        // first solution of the search.
        search.best = Some((search.total(), std::mem::take(&mut search.groups)));
        search.go(0);
        let is_whole = search.steps <= MAX_STEPS;
        let groups = search.best.map_or_else(Vec::new, |(_, groups)| groups);
        Cover {
            is_minimal: is_whole || groups.len() == self.chains.len(),
            groups,
        }
    }

    /// Returns the chains as groups. Starts a new group where a query cannot share a view with the
    /// group so far.
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

/// Search that decides about one query after the other: it puts the query into an existing group,
/// or into a new one.
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

    /// Returns whether the current groups, completed with the queries from index `next` on, can
    /// cost less than the best division found so far.
    fn may_be_better(&self, next: usize) -> bool {
        let Some(((views, unpartitioned, pinned, _), _)) = &self.best else {
            return true;
        };
        let least = (self.groups.len() + self.apart(next)).max(self.queries.chains.len());
        if least != *views {
            return least < *views;
        }
        // If the number of views is equal, compare the other costs. The current groups give a
        // bound, because further queries can only shrink the partition of a group's view.
        let sizes = self.groups.iter().map(|group| self.partition(*group));
        let empty = sizes.clone().filter(|size| *size == 0).count();
        let largest = self.order[next..]
            .iter()
            .map(|query| self.queries.pinned[*query])
            .max();
        let most = sizes.sum::<usize>() + (views - self.groups.len()) * largest.unwrap_or(0);
        (empty, Reverse(most)) <= (*unpartitioned, *pinned)
    }

    /// Returns a lower bound of the number of additional groups that the queries from index `next`
    /// on need. It counts queries that fit into no current group, and of which no two can share a
    /// view.
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

    /// Returns the number of partition fields of the view for `group`, a set of queries. It is the
    /// smallest number of fields that a query of the group fixes.
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

/// Returns the indexes of the queries in a group, which is a bit set.
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

    /// Returns the maximum number of sets of which none is a subset of another. This is the
    /// number of chains that the sets need (Dilworth's theorem).
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

        /// Checks that the number of groups equals the maximum number of sets of which none is a
        /// subset of another.
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
        // Run few cases, because in a graph without structure the search takes the maximum number
        // of steps.
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Checks for random graphs that each query is in exactly one group, and that every two
        /// queries of a group can share a view.
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

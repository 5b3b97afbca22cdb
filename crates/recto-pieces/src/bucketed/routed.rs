//! A call as the store gets it: its rows in the buckets that they lie in, and what is said of them as of the call that was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_buckets::Bucket;
use recto_store::{Cas, CasCondition, Mutation, Operation, PartitionWrite, RowAddress};

use super::counted::{AddressBuckets, Addresses, Buckets, Call};
use super::tables::Bucketed;
use crate::place::Place;
use crate::tables::bucket_partition;
use crate::transacted::Guard;

/// A call that was routed.
pub(super) struct Routed {
    pub(super) call: Call,
    pub(super) numbers: Numbers,
    pub(super) conditions: Conditions,
}

/// Which number a mutation had among the plain ones of the call, by the one that it has now; none: the same.
#[derive(Default)]
pub(super) struct Numbers(Vec<usize>);

/// Where each condition of the call stands now.
#[derive(Default)]
pub(super) struct Conditions(Vec<Vec<(usize, usize)>>);

impl Numbers {
    pub(super) fn before(&self, number: usize) -> usize {
        self.0.get(number).copied().unwrap_or(number)
    }
}

impl Conditions {
    /// What columns hold now, in the order of the call's conditions.
    pub(super) fn before(&self, current: &[Vec<Option<Vec<u8>>>]) -> Vec<Vec<Option<Vec<u8>>>> {
        let find = |(write, condition): &(usize, usize)| current.get(*write)?.get(*condition)?.clone();
        let of_one = |at: &Vec<(usize, usize)>| at.iter().map(find).collect();
        self.0.iter().map(of_one).collect()
    }
}

impl Routed {
    pub(super) fn new(call: Call, addresses: &Addresses, buckets: &Buckets, guard: &Guard) -> Self {
        let mut routed = Self {
            call: Call::default(),
            numbers: Numbers::default(),
            conditions: Conditions::default(),
        };
        let conditional = call.conditional.into_iter().zip(&addresses.conditional);
        for ((cas, address), buckets) in conditional.zip(&buckets.conditional) {
            match address {
                None => routed.pass_conditional(cas),
                Some(address) => {
                    let (place, bucketed) = &addresses.places[address.place];
                    let version = guard.version(place);
                    routed.add_conditional(cas, (place, bucketed, version), buckets);
                }
            }
        }
        let plain = call.plain.into_iter().zip(&addresses.plain);
        for ((write, address), buckets) in plain.zip(&buckets.plain) {
            match address {
                None => routed.add_numbered(write, None),
                Some(address) => {
                    let (place, bucketed) = &addresses.places[address.place];
                    routed.add_plain(write, (place, bucketed), buckets);
                }
            }
        }
        routed
    }

    fn pass_conditional(&mut self, cas: Cas) {
        let write = self.call.conditional.len();
        let at = (0..cas.conditions.len()).map(|condition| (write, condition));
        self.conditions.0.push(at.collect());
        self.call.conditional.push(cas);
    }

    /// One for each bucket that it has a row in.
    fn add_conditional(
        &mut self,
        cas: Cas,
        (place, bucketed, version): (&Place, &Bucketed, u64),
        buckets: &AddressBuckets,
    ) {
        let first = self.call.conditional.len();
        let mut numbers: BTreeMap<Bucket, usize> = BTreeMap::new();
        let written = &mut self.call.conditional;
        let mut of_bucket = |bucket: Bucket| {
            let next = numbers.len();
            let number = *numbers.entry(bucket).or_insert(next);
            if number == next {
                written.push(Cas {
                    table: Arc::clone(bucketed.pieced.table()),
                    partition: bucket_partition(&place.partition, bucket),
                    conditions: Vec::new(),
                    mutations: Vec::new(),
                });
            }
            first + number
        };
        let conditions = cas.conditions.iter().zip(&buckets.conditions);
        let conditions: Vec<usize> = conditions.map(|(_, bucket)| of_bucket(*bucket)).collect();
        let mutations: Vec<usize> = buckets
            .mutations
            .iter()
            .map(|bucket| of_bucket(*bucket))
            .collect();
        let mut at = Vec::with_capacity(conditions.len());
        for (condition, write) in cas.conditions.into_iter().zip(conditions) {
            let to = &mut self.call.conditional[write].conditions;
            at.push((write, to.len()));
            to.push(CasCondition {
                column: match &condition.row {
                    RowAddress::Row(_) => Bucketed::regular(condition.column),
                    RowAddress::Static => condition.column,
                },
                ..condition
            });
        }
        self.conditions.0.push(at);
        for (mutation, write) in cas.mutations.into_iter().zip(mutations) {
            self.call.conditional[write].mutations.push(in_store(mutation));
        }
        // What has only rows that are written has a condition that holds in any case.
        for (bucket, number) in numbers {
            let cas = &mut self.call.conditional[first + number];
            if cas.conditions.is_empty() {
                cas.conditions.push(bucketed.pieced.is_root(bucket, version));
            }
        }
    }

    fn add_plain(
        &mut self,
        write: PartitionWrite,
        (place, bucketed): (&Place, &Bucketed),
        buckets: &AddressBuckets,
    ) {
        let write_of = |bucket: Bucket, mutations: Vec<Mutation>| PartitionWrite {
            table: Arc::clone(bucketed.pieced.table()),
            partition: bucket_partition(&place.partition, bucket),
            mutations,
        };
        let buckets = &buckets.mutations;
        let Some(first) = buckets.first() else { return };
        if buckets.iter().all(|bucket| bucket == first) {
            let mutations = write.mutations.into_iter().map(in_store).collect();
            return self.add_numbered(write_of(*first, mutations), None);
        }
        let mut parts: BTreeMap<Bucket, (Vec<Mutation>, Vec<usize>)> = BTreeMap::new();
        let mut mutations = write.mutations.into_iter().enumerate();
        // Most come in the order of their keys, so that those of a bucket stand together.
        for run in buckets.chunk_by(|one, other| one == other) {
            let (there, numbers) = parts.entry(run[0]).or_default();
            for (number, mutation) in mutations.by_ref().take(run.len()) {
                there.push(in_store(mutation));
                numbers.push(number);
            }
        }
        let first = self.numbers.0.len();
        for (bucket, (mutations, mut numbers)) in parts {
            for number in &mut numbers {
                *number += first;
            }
            self.add_numbered(write_of(bucket, mutations), Some(numbers));
        }
    }

    fn add_numbered(&mut self, write: PartitionWrite, numbers: Option<Vec<usize>>) {
        let first = self.numbers.0.len();
        match numbers {
            Some(numbers) => self.numbers.0.extend(numbers),
            None => self.numbers.0.extend(first..first + write.mutations.len()),
        }
        self.call.plain.push(write);
    }
}

/// A mutation of a row as it is in the store.
fn in_store(mutation: Mutation) -> Mutation {
    let operation = match mutation.operation {
        Operation::Put {
            clustering,
            cells,
            replace,
        } => Operation::Put {
            cells: Bucketed::with_mark(&clustering, cells),
            clustering,
            replace,
        },
        Operation::Patch {
            clustering,
            columns,
            cells,
        } => {
            let (columns, cells) = Bucketed::patch_with_mark(&clustering, &columns, cells);
            Operation::Patch {
                clustering,
                columns,
                cells,
            }
        }
        other => other,
    };
    Mutation {
        operation,
        ..mutation
    }
}

//! Translates a call for the store: assigns its rows to their buckets, and translates the store's answer back to the
//! original call.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_protocol::buckets::Bucket;
use recto_store::{Cas, CasCondition, Mutation, Operation, PartitionWrite, RowAddress};

use super::addresses::{AddressBuckets, Addresses, Buckets, Call};
use super::tables::Bucketed;
use crate::place::Place;
use crate::tables::bucket_partition;
use crate::transacted::Guard;

/// Call in the form for the store.
pub(super) struct Routed {
    pub(super) call: Call,
    pub(super) numbers: Numbers,
    pub(super) conditions: Conditions,
}

/// Mapping from the number of a plain mutation in the routed call to its number in the original call.
#[derive(Default)]
pub(super) struct Numbers {
    /// Number of mutations of the routed call, and number of mutations of the original call up to here, including
    /// skipped ones.
    count: usize,
    of_call: usize,
    /// For each run of consecutive mutations, the number of its first mutation: in the routed call, and in the original
    /// call.
    runs: Vec<(usize, usize)>,
}

/// Position of each original condition in the routed call.
#[derive(Default)]
pub(super) struct Conditions(Vec<Vec<(usize, usize)>>);

impl Numbers {
    fn push(&mut self, before: usize, mutations: usize) {
        self.runs.push((self.count, before));
        self.count += mutations;
    }

    pub(super) fn before(&self, number: usize) -> usize {
        let begun = self.runs.partition_point(|(now, _)| *now <= number);
        let run = begun.checked_sub(1).map(|run| self.runs[run]);
        run.map_or(number, |(now, before)| before + (number - now))
    }
}

impl Conditions {
    /// Returns the current values of columns in the order of the conditions of the original call.
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
                None => routed.add_whole(write),
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

    /// Adds one conditional write for each bucket that has a row of `cas`.
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
        let mut mutations = Vec::with_capacity(cas.mutations.len());
        for run in &buckets.mutations {
            mutations.extend(std::iter::repeat_n(run.bucket.map(&mut of_bucket), run.mutations));
        }
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
            if let Some(write) = write {
                self.call.conditional[write].mutations.push(in_store(mutation));
            }
        }
        // The store rejects a conditional write without conditions, so a bucket without one gets a
        // condition that always holds.
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
        let runs = &buckets.mutations;
        let Some(first) = runs.first() else { return };
        let one = first
            .bucket
            .filter(|_| runs.iter().all(|run| run.bucket == first.bucket));
        if let Some(bucket) = one {
            let mutations = write.mutations.into_iter().map(in_store).collect();
            return self.add_whole(write_of(bucket, mutations));
        }
        let mut parts: BTreeMap<Bucket, Part> = BTreeMap::new();
        let mut mutations = write.mutations.into_iter();
        let mut before = self.numbers.of_call;
        for run in runs {
            let of_run = mutations.by_ref().take(run.mutations);
            match run.bucket.map(|bucket| parts.entry(bucket).or_default()) {
                None => of_run.for_each(drop),
                Some(part) => {
                    part.mutations.reserve(run.mutations);
                    part.mutations.extend(of_run.map(in_store));
                    part.numbers.push((before, run.mutations));
                }
            }
            before += run.mutations;
        }
        self.numbers.of_call = before;
        for (bucket, part) in parts {
            for (before, count) in part.numbers {
                self.numbers.push(before, count);
            }
            self.call.plain.push(write_of(bucket, part.mutations));
        }
    }

    /// Adds a write that has all mutations of an original write, in their order.
    fn add_whole(&mut self, write: PartitionWrite) {
        self.numbers.push(self.numbers.of_call, write.mutations.len());
        self.numbers.of_call += write.mutations.len();
        self.call.plain.push(write);
    }
}

/// Part of a write for one bucket.
#[derive(Default)]
struct Part {
    mutations: Vec<Mutation>,
    /// For each run of mutations that are consecutive in the original call, the original number of the first mutation,
    /// and the number of mutations.
    numbers: Vec<(usize, usize)>,
}

/// Returns a mutation of a row in the form for the store.
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

//! Test suite that every store passes.
//!
//! Each behavior is an `async fn` that takes a [`Bench`], which provides the store under test.
//! [`conformance_suite!`](crate::conformance_suite) generates a named test for each:
//!
//! ```
//! use std::sync::Arc;
//! use recto_store::{Store, conformance::Bench};
//!
//! struct MyBench(Arc<dyn Store>);
//!
//! #[async_trait::async_trait]
//! impl Bench for MyBench {
//!     fn store(&self) -> Arc<dyn Store> {
//!         self.0.clone()
//!     }
//!     async fn reopen(&self) -> Arc<dyn Store> {
//!         self.store() // a store that outlives its process closes and opens here
//!     }
//! }
//!
//! async fn bench() -> MyBench {
//!     todo!("open a store")
//! }
//!
//! recto_store::conformance_suite!(bench());
//! # fn main() {}
//! ```
//!
//! The suite computes the expected result of a read from a list of rows and the order of values, and never
//! with the key codec of a store. The [crate's documentation](crate) describes the rules that the behaviors
//! assert.
//!
//! A behavior creates its own tables with unique names, and drops them at its end. It needs nothing else from
//! the store, so all behaviors can use one store or keyspace concurrently. It uses as few tables as possible,
//! because a schema change takes 0.1 s on Cassandra.

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the suite's counts are small"
)]

mod fixture;
mod model;

pub mod added_columns;
pub mod batches;
pub mod conditional;
pub mod emptying;
pub mod inserts;
pub mod order_types;
pub mod partitions;
pub mod refusals;
pub mod rows;
pub mod scans;
pub mod slices;
pub mod snapshots;
pub mod stamps;
pub mod tables;
pub mod transactions;

use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Builder, Runtime};

use crate::Store;

/// Provider of the store under test.
#[async_trait]
pub trait Bench: Send + Sync {
    /// Returns the store. Each call returns the same store.
    fn store(&self) -> Arc<dyn Store>;

    /// Closes the store and opens it again, or returns a new connection to it. Later calls of
    /// [`store`](Self::store) return the new store. Before the call, callers must drop all stores and
    /// snapshots. A store that would lose its rows when it is closed returns itself.
    async fn reopen(&self) -> Arc<dyn Store>;

    /// Returns whether reads go to another process. If they do, a read can see writes that are newer than its
    /// snapshot.
    fn is_remote(&self) -> bool {
        self.store().limits().remote
    }

    /// Returns a unique table name that begins with `prefix` (at most 20 bytes).
    fn unique_name(&self, prefix: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!(
            "{prefix}_{:x}_{:x}",
            process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        )
    }

    /// Waits until `duration` has elapsed on the store's clock.
    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Runs one behavior to its end, on a runtime that all behaviors of a process share. A driver's connection
/// belongs to the runtime on which it was created, so the shared runtime lets all behaviors use it.
pub fn run<F: Future>(behaviour: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a process that runs tests can start threads")
        })
        .block_on(behaviour)
}

/// Generates one test for each behavior of the [conformance suite](crate::conformance). The argument is an
/// expression that each test evaluates to a future of a [`Bench`](crate::conformance::Bench).
#[macro_export]
macro_rules! conformance_suite {
    ($bench:expr) => {
        $crate::conformance_tests! { $bench;
            tables: [
                describes_its_kind_and_tombstones,
                make_is_idempotent,
                make_another_of_the_same_name_fails,
                list_returns_equal_tables_sorted,
                list_beside_others_being_made_and_dropped,
                drop_removes_rows_and_is_idempotent,
                compare_tells_what_is_there,
                unknown_tables_are_errors,
                reopening_keeps_everything,
            ];
            emptying: [
                rows_and_statics_are_removed,
                one_table_is_emptied_whole,
                beside_writers,
            ];
            added_columns: [
                old_rows_have_nulls,
                new_columns_are_written,
                conditional_writes,
                adding_is_idempotent,
                other_changes_are_refused,
                adopts_or_rejects_columns_of_another_addition,
                the_table_as_it_was_still_works,
                conditional_writes_to_the_table_as_it_was,
                a_table_not_extended_yet_is_an_error,
                views_from_before,
                concurrent_additions_beside_writes,
            ];
            slices: [
                read_both_ways_with_limits,
                read_every_form_of_bound,
                inverted_is_empty,
                exhausted_is_exact,
                random_bounds_one_column,
                random_bounds_two_columns,
                random_bounds_three_columns,
                random_bounds_four_columns,
                pages_tile_the_partition,
                table_without_clustering,
                invalid_reads_are_errors,
            ];
            order_types: [
                clustering_columns,
                partition_columns,
                keys_of_one_column,
                stored_values,
            ];
            rows: [
                nulls_and_empty_values_differ,
                wide_rows,
                rows_of_nulls_exist,
                put_replaces,
                patch_sets_some_columns,
                delete_row_range_partition,
                delete_range_with_every_bound,
                statics,
                columns_left_out,
                statics_without_rows,
                point_reads,
                many_point_reads,
                large_rows,
            ];
            stamps: [
                older_writes_are_ignored,
                the_newest_is_kept,
                equal_stamps,
                mutations_of_one_write_act_by_stamp,
                stamps_are_returned,
                expiry,
            ];
            batches: [
                readers_see_whole_writes,
                several_partitions_and_tables,
                two_writes_of_one_partition,
                writes_of_nothing_are_done,
                relaxed_writes,
                many_rows_among_others,
            ];
            inserts: [
                the_same_row_again_is_done,
                another_row_conflicts_and_nothing_is_written,
                deleted_and_expired_rows_do_not_conflict,
                inserts_of_one_call_act_one_after_the_other,
                the_longer_life_holds,
                row_by_row,
                a_conflict_behind_many_new_rows,
                added_columns_are_left_alone,
                not_beside_deletions_of_ranges,
            ];
            refusals: [
                oversize_mutations,
                oversize_batches,
                keys,
                malformed_mutations,
                columns_of_the_other_kind,
                malformed_conditional_writes,
            ];
            conditional: [
                applied_and_not_applied,
                null_and_empty_conditions,
                static_conditions,
                several_conditions,
                race_applies_each_once,
                applied_is_seen_at_every_consistency,
            ];
            transactions: [
                offered_or_refused,
                all_or_nothing,
                conditions_without_mutations,
                columns_of_either_kind,
                each_mutation_has_its_own_stamp,
                an_insert_that_conflicts_leaves_nothing,
                refusals_leave_nothing,
                transactions_are_linearizable,
            ];
            partitions: [
                each_once_with_its_static_cells,
                composite_keys,
                empty_keys,
                lists_only_partitions_with_data,
                byte_limit,
                goes_on_beside_writes,
            ];
            scans: [
                every_row_once,
                empty_table,
                composite_partitions,
                statics,
                goes_on_beside_writes,
                byte_limit,
                stamps_are_returned,
            ];
            snapshots: [
                snapshots_stand_still_unless_remote,
                byte_limit,
                read_deadlines,
                write_deadlines,
                concurrent_writers_and_readers,
            ];
        }
    };
}

/// Generates the test functions for [`conformance_suite!`](crate::conformance_suite), in one module for each
/// group of behaviors.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($bench:expr; $($module:ident: [$($name:ident),* $(,)?];)*) => {
        $(
            mod $module {
                #[allow(unused_imports)]
                use super::*;
                $(
                    #[test]
                    fn $name() {
                        $crate::conformance::run(async {
                            let bench = $bench.await;
                            $crate::conformance::$module::$name(&bench).await;
                        });
                    }
                )*
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    /// Checks that the list of tests contains every behavior of the suite.
    #[test]
    fn the_suite_lists_every_behaviour() {
        let modules = [
            ("added_columns", include_str!("added_columns.rs")),
            ("batches", include_str!("batches.rs")),
            ("conditional", include_str!("conditional.rs")),
            ("emptying", include_str!("emptying.rs")),
            ("inserts", include_str!("inserts.rs")),
            ("order_types", include_str!("order_types.rs")),
            ("partitions", include_str!("partitions.rs")),
            ("refusals", include_str!("refusals.rs")),
            ("rows", include_str!("rows.rs")),
            ("scans", include_str!("scans.rs")),
            ("slices", include_str!("slices.rs")),
            ("stamps", include_str!("stamps.rs")),
            ("tables", include_str!("tables.rs")),
            ("transactions", include_str!("transactions.rs")),
            ("snapshots", include_str!("snapshots.rs")),
        ];
        let suite = include_str!("mod.rs");
        let suite = suite
            .split("macro_rules! conformance_tests")
            .next()
            .expect("a split has a first part");
        for (module, source) in modules {
            let start = suite
                .find(&format!("            {module}: [\n"))
                .expect("the suite lists each module");
            let listed = &suite[start..start + suite[start..].find("];").expect("a list has an end")];
            for line in source.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else {
                    continue;
                };
                let name = rest.split('(').next().expect("a split has a first part");
                assert!(
                    listed.contains(&format!("\n                {name},\n")),
                    "{module}::{name} is not listed"
                );
            }
        }
        assert_eq!(suite.matches("\npub mod ").count(), modules.len());
    }
}

//! Property tests of the guarantees of pages, on both stores. The tests compare pages with the
//! oracle (an independent implementation). The cases are random collections of every orderable
//! type, rows at the limits of their types, queries of every kind, and pages of changing sizes.
//!
//! Each run uses new random cases. If a case fails, the test simplifies it, and prints its seed. It
//! also prints the case as a Rust test that can be pasted into `pasted.rs`.
//!
//! - `RECTO_TEST_SEED=…` repeats the cases of a seed.
//! - `RECTO_TEST_SCALE=20` tests twenty times as many cases, for a long run. On the embedded store
//!   it multiplies the number of collections. On Cassandra it multiplies the number of queries,
//!   because each table takes memory of the node that all tests share.

mod beside;
mod cost;
mod cursors;
mod drawn;
mod guarantee;
mod keys;
mod loaded_case;
mod pasted;
mod planted;
mod traversal;

use crate::common::{Kind, Scope, Suite, run};
use drawn::Ground;
use guarantee::Guarantee;

/// Defines, for each guarantee, the tests `embedded::NAME` and `cassandra::NAME`, and tests that
/// read pages of views on three stores.
macro_rules! properties {
    ($($name:ident: $guarantee:ident),+ $(,)?) => {
        /// Test suite of all property tests. Its stores are removed after the last test.
        static TESTS: Suite = Suite::new(
            module_path!(),
            5 * (0 $(+ { let _ = stringify!($name); 1 })+) + planted::TESTS + pasted::TESTS
        );
        properties!(@store embedded, Ground::new(Kind::Embedded); $($name: $guarantee),+);
        properties!(@store cassandra, Ground::new(Kind::Cassandra); $($name: $guarantee),+);
        properties!(@store views_in_memory,
            Ground { views: true, in_memory: true, ..Ground::new(Kind::Embedded) }; $($name: $guarantee),+);
        properties!(@store views_embedded,
            Ground { views: true, ..Ground::new(Kind::Embedded) }; $($name: $guarantee),+);
        properties!(@store views_cassandra,
            Ground { views: true, ..Ground::new(Kind::Cassandra) }; $($name: $guarantee),+);
    };
    (@store $store:ident, $ground:expr; $($name:ident: $guarantee:ident),+) => {
        mod $store {
            use super::*;

            $(#[test]
            fn $name() {
                let _scope = Scope::new(&TESTS);
                run(drawn::holds(Guarantee::$guarantee, $ground));
            })+
        }
    };
}

properties! {
    guarantee_1_pages_after_and_before: AfterAndBefore,
    guarantee_2_every_row_exactly_once: EveryRowOnce,
    guarantee_3_a_cursor_is_a_position: Position,
    guarantee_4_what_is_beyond_both_ends: Edges,
    guarantee_5_a_cursor_opens_for_its_query: OwnQuery,
    guarantee_6_the_cost_is_the_page: Cost,
    guarantee_7_budgets_lose_nothing: Budgets,
    reads_by_key_and_scans: KeysAndScans,
}

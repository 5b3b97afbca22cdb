//! Support code of all test programs: stores of both kinds, and a tested collection that is
//! compared with the oracle (an independent implementation).
// Each test program uses only some of the modules. Tests may print, because the test harness shows
// the output of a test that fails.
#![allow(dead_code, clippy::unwrap_used, clippy::print_stdout)]

pub(crate) mod children;
pub(crate) mod clocks;
pub(crate) mod exact;
pub(crate) mod killing;
pub(crate) mod stores;
pub(crate) mod subject;

use std::future::Future;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

#[allow(unused_imports)] // not every test binary uses these types
pub(crate) use stores::{Fresh, Kind, Scope, Suite};
#[allow(unused_imports)] // not every test binary uses this type
pub(crate) use subject::Subject;

/// Async runtime of all tests of a program. Tests share connections, which work only as long as the
/// runtime that created them exists.
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
});

/// Returns the seed for random values: the environment variable `RECTO_TEST_SEED` if it is set,
/// otherwise a new seed. Prints the seed, so that a failure can be repeated.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("RECTO_TEST_SEED").ok();
    let given = given.map(|text| text.parse().expect("RECTO_TEST_SEED is a whole number"));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed: u64 = given.unwrap_or_else(now);
    println!("RECTO_TEST_SEED={seed}");
    seed
}

/// Returns the values of a record's key.
pub(crate) fn key_of(record: &recto::DynamicRecord) -> Vec<recto::Value> {
    let key = record.collection().key.iter();
    key.map(|field| record.get(field).unwrap().clone()).collect()
}

/// Runs a future on the shared runtime, and returns its output.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Defines the tests `embedded::NAME` and `cassandra::NAME` for each behavior: the same test on
/// both kinds of stores.
///
/// A behavior is a function that takes the store under test, opened with the schema in the first
/// argument. The modules of the behaviors are siblings of the module that calls the macro.
/// Behaviors after `only on cassandra;` have no test on an embedded store. The stores are removed
/// after the last test. An attribute before a name marks the test as slow on Cassandra.
#[macro_export]
macro_rules! on_both_stores {
    ($schema:expr; $($module:ident { $($(#[$slow:meta])? $name:ident),+ $(,)? })+;
        only on cassandra; $($other:ident { $($(#[$slowly:meta])? $one:ident),+ $(,)? })+) => {
        $crate::on_both_stores!(@suite 2 * (0 $($(+ { let _ = stringify!($name); 1 })+)+)
            - (0 $($($(+ { let _ = stringify!($slow); 1 })?)+)+)
            + (0 $($(+ { let _ = stringify!($one); 1 })+)+)
            - (0 $($($(+ { let _ = stringify!($slowly); 1 })?)+)+));
        $crate::on_both_stores!(@store embedded, Embedded, $schema; $($module { $($name),+ })+);
        $crate::on_both_stores!(@store cassandra, Cassandra, $schema; $($module { $($(#[$slow])? $name),+ })+
            $($other { $($(#[$slowly])? $one),+ })+);
    };
    ($schema:expr; $($module:ident { $($(#[$slow:meta])? $name:ident),+ $(,)? })+) => {
        $crate::on_both_stores!(@suite 2 * (0 $($(+ { let _ = stringify!($name); 1 })+)+)
            - (0 $($($(+ { let _ = stringify!($slow); 1 })?)+)+));
        $crate::on_both_stores!(@store embedded, Embedded, $schema; $($module { $($name),+ })+);
        $crate::on_both_stores!(@store cassandra, Cassandra, $schema; $($module { $($(#[$slow])? $name),+ })+);
    };
    (@suite $tests:expr) => {
        static TESTS: $crate::common::Suite = $crate::common::Suite::new(module_path!(), $tests);
    };
    (@store $store:ident, $kind:ident, $schema:expr; $($module:ident { $($(#[$slow:meta])? $name:ident),+ })+) => {
        mod $store {
            $(mod $module {
                $(#[test]
                $(#[$slow])?
                fn $name() {
                    let _scope = $crate::common::Scope::new(&super::super::TESTS);
                    $crate::common::run(async {
                        let store = super::super::TESTS.shared($crate::common::Kind::$kind, $schema).await;
                        super::super::$module::$name(store).await;
                    });
                })+
            })+
        }
    };
}

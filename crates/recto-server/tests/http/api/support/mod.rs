//! Shared parts of the suite: two stores, servers over them, and a client that checks each response against the
//! server's own description.

pub(crate) mod client;
pub(crate) mod description;
pub(crate) mod schema_check;
pub(crate) mod stores;

use std::future::Future;
use std::sync::LazyLock;

pub(crate) use client::{Client, Reply};
pub(crate) use stores::{Kind, Scope};

/// Runtime of all tests. They share connections of the store, and a connection lives on the runtime
/// that created it.
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
});

/// Runs a test to its end.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Defines the tests `embedded::NAME` and `cassandra::NAME` for each function NAME, which gets a
/// client of a server over the store. The last test removes the stores.
#[macro_export]
macro_rules! on_both_stores {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        static TESTS: std::sync::atomic::AtomicUsize =
            std::sync::atomic::AtomicUsize::new(2 * (0 $($(+ { let _ = stringify!($name); 1 })+)+));
        $crate::on_both_stores!(@store embedded, Embedded; $($module { $($name),+ })+);
        $crate::on_both_stores!(@store cassandra, Cassandra; $($module { $($name),+ })+);
    };
    (@store $store:ident, $kind:ident; $($module:ident { $($name:ident),+ })+) => {
        mod $store {
            $(mod $module {
                $(#[test]
                fn $name() {
                    let _scope = $crate::api::support::Scope::new(&super::super::TESTS);
                    $crate::api::support::run(async {
                        let client = $crate::api::support::Client::new($crate::api::support::Kind::$kind).await;
                        super::super::$module::$name(client).await;
                    });
                })+
            })+
        }
    };
}

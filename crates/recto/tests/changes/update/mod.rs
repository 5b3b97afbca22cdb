//! Tests of changes that depend on the stored version of a record. A change applies to the record
//! and its rows in all views, completely or not at all.

mod changes;
mod killed;
mod statements;

use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use recto::Recto;

const SCHEMA: &str = r#"
[collection.suspensions]
fields = { user = "text", status = "text", since = "bigint", reason = "text", visits = "int" }
key = ["user"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-since"]

[collection.suspensions.view.by_reason]
partition = ["reason"]
order = ["since"]
nulls = "skip"
fields = ["status"]

[collection.letters]
fields = { id = "int", front = "text", back = "text" }
key = ["id"]

[collection.plain]
fields = { user = "text", status = "text" }
key = ["user"]
writes = "overwrite"
"#;

/// Test suite of this module. Its stores are removed after its last test.
static TESTS: Suite = Suite::new(module_path!(), 4 * 11 + 1);

/// Defines a test of each behavior on four stores: with transactions (in memory and embedded), and
/// without (in memory and Cassandra).
macro_rules! behaviours {
    ($($name:ident),+ $(,)?) => {
        behaviours!(@store memory, super::in_memory(true); $($name,)+);
        behaviours!(@store embedded, super::opened(Kind::Embedded); $($name,)+);
        behaviours!(@store memory_by_writer, super::in_memory(false); $($name,)+);
        behaviours!(@store cassandra, super::opened(Kind::Cassandra); $($name,)+);
    };
    (@store $store:ident, $open:expr; $($name:ident,)+) => {
        mod $store {
            #[allow(unused_imports)] // stores in memory have no kind
            use super::Kind;

            $(#[test]
            fn $name() {
                let _scope = super::Scope::new(&super::TESTS);
                super::run(async { super::changes::$name($open.await).await });
            })+
        }
    };
}

behaviours! {
        records_move_between_views,
        versions_are_asked_for,
        rejects_invalid_changes_and_keeps_the_record,
        nobody_is_lost_of_many_at_once,
        keeps_fields_that_the_type_does_not_have,
        handles_from_before_a_field_leave_it,
        rejects_values_too_large_for_a_view,
        rejects_changes_that_make_a_record_too_large,
        deleted_records_do_not_repeat_a_version,
        of_many_at_once_each_is_for_itself,
        records_expire_with_their_entries,
}

/// Returns the test schema with small buckets in one view. The other view has no buckets.
fn in_buckets() -> String {
    let order = "order = [\"-since\"]\n";
    SCHEMA.replace(order, &format!("{order}bucket = {{ rows = 2 }}\n"))
}

/// Returns a store in memory, with or without transactions.
async fn in_memory(transactions: bool) -> Recto {
    let recto = crate::common::stores::in_memory(transactions).await;
    recto.apply(&parse(&in_buckets())).await.unwrap();
    recto
}

async fn opened(kind: Kind) -> Recto {
    let recto = Fresh::new(kind).open().await;
    recto.apply(&parse(&in_buckets())).await.unwrap();
    recto
}

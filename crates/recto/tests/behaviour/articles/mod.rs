//! Cases of the two articles on which Recto is based, on the embedded store and on Cassandra. The
//! cases with views also run on stores in memory. The tests expect the results that the articles
//! print, or the correct results where the articles are wrong.
//!
//! - *Paging and Filtering with Apache Cassandra* (Gray and Gunderson, 2015): a table of seven
//!   rows, and exact-match and range filters, ascending and descending. First, next and previous
//!   page, and general patterns for k filter columns.
//! - *Sorted Pagination in Cassandra* (Nagmote, 2016): a timeline per user, suspended users by status with
//!   and without temporal buckets, a reverse lookup, paging a whole table by token.
//!
//! Both articles store the same data in several tables, which the application must keep consistent.
//! The tests do so too, and then repeat the cases with one collection that has views.

mod composite;
mod crashes;
mod filtering;
mod sorted;
mod suspensions;

const SCHEMA: &str = r#"
[collection.paging_table]
fields = { partition = "text", cluster_01 = "text", cluster_02 = "text", cluster_03 = "text", non_primary_key = "text" }
key = ["partition", "cluster_01", "cluster_02", "cluster_03"]
partition = ["partition"]
order = ["cluster_01", "cluster_02", "cluster_03"]
writes = "append"

[collection.timeline]
fields = { user_id = "uuid", post_id = "timeuuid", content = "text" }
key = ["user_id", "post_id"]
partition = ["user_id"]
order = ["-post_id"]
writes = "append"

[collection.users_by_status]
fields = { status = "text", occurred_on = "timestamp", user_id = "uuid", reason = "text" }
key = ["status", "occurred_on", "user_id"]
partition = ["status"]
order = ["-occurred_on"]
writes = "overwrite"

[collection.users_by_bucket]
fields = { bucket = "text", status = "text", occurred_on = "timestamp", user_id = "uuid", reason = "text" }
key = ["bucket", "status", "occurred_on", "user_id"]
partition = ["bucket", "status"]
order = ["-occurred_on"]
writes = "overwrite"

[collection.suspended_users]
fields = { user_id = "uuid", occurred_on = "timestamp" }
key = ["user_id"]
writes = "overwrite"

[collection.all_users]
fields = { user_id = "uuid", occurred_on = "timestamp" }
key = ["user_id"]
writes = "overwrite"

[collection.suspensions]
fields = { user_id = "uuid", status = "text", occurred_on = "timestamp", reason = "text" }
key = ["user_id"]
[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-occurred_on"]

[collection.sales]
fields = { partition = "text", cluster_01 = "text", cluster_02 = "text", cluster_03 = "text", non_primary_key = "text" }
key = ["non_primary_key"]
[collection.sales.view.p123]
partition = ["partition"]
order = ["cluster_01", "cluster_02", "cluster_03"]
[collection.sales.view.c123]
partition = ["cluster_01"]
order = ["cluster_02", "cluster_03", "partition"]
[collection.sales.view.c23p]
partition = ["cluster_02"]
order = ["cluster_03", "partition", "cluster_01"]
[collection.sales.view.c3p1]
partition = ["cluster_03"]
order = ["partition", "cluster_01", "cluster_02"]
[collection.sales.view.p213]
partition = ["partition"]
order = ["cluster_02", "cluster_01", "cluster_03"]
[collection.sales.view.c13p]
partition = ["cluster_01"]
order = ["cluster_03", "partition", "cluster_02"]
"#;

crate::on_both_stores! { super::super::SCHEMA;
    filtering {
        exact_match_ascending,
        exact_match_descending,
        range_ascending,
        range_descending,
        general_patterns_of_exact_match,
        general_patterns_of_ranges,
        paging_without_a_filter,
        the_partition_as_a_list,
    }
    sorted {
        the_newest_posts_of_a_user,
        the_timeline_in_pages,
        suspended_users_by_status,
        suspended_users_by_bucket_and_status,
        unsuspending_by_reverse_lookup,
        a_whole_table_by_token,
    }
    suspensions { suspending_and_unsuspending }
    composite {
        #[ignore = "slow: a minute on Cassandra"]
        every_combination_of_filters,
    }
    crashes {
        #[ignore = "slow: a minute on Cassandra"]
        dying_between_the_tables,
    }
}

/// Defines tests that run the cases with views on stores in memory.
macro_rules! in_memory {
    ($($store:ident, $transactions:expr;)+) => {
        $(mod $store {
            async fn store() -> recto::Recto {
                let recto = crate::common::stores::in_memory($transactions).await;
                recto.apply(&crate::common::stores::parse(super::SCHEMA)).await.unwrap();
                recto
            }

            #[test]
            fn suspending_and_unsuspending() {
                crate::common::run(async { super::suspensions::suspending_and_unsuspending(store().await).await });
            }

            #[test]
            fn every_combination_of_filters() {
                crate::common::run(async { super::composite::every_combination_of_filters(store().await).await });
            }

            #[test]
            fn dying_between_the_tables() {
                crate::common::run(async { super::crashes::dying_in(store().await).await });
            }
        })+
    };
}

in_memory! {
    memory, true;
    memory_by_writer, false;
}

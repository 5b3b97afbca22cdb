//! The cases of the two articles Recto grew from, on both stores: with the results they print, and
//! with the results they should have printed where they erred.
//!
//! - *Paging and Filtering with Apache Cassandra* (Gray and Gunderson, 2015): a table of seven rows,
//!   exact-match and range filters, ascending and descending, first, next and previous page, and
//!   general patterns for k filter columns.
//! - *Sorted Pagination in Cassandra* (Nagmote, 2016): a timeline per user, suspended users by
//!   status with and without temporal buckets, a reverse lookup, paging a whole table by token.
#![allow(clippy::unwrap_used)]

mod articles {
    pub(crate) mod filtering;
    pub(crate) mod sorted;
}
mod common;

use articles::{filtering, sorted};

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
"#;

on_both_stores! { crate::SCHEMA;
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
}

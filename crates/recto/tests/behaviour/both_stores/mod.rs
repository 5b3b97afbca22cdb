//! Tests of Recto on the embedded store and on Cassandra: one suite, expanded into `embedded::…`
//! and `cassandra::…`.
//!
//! The tests share one store of each kind, and each test uses its own partitions. A test that
//! changes a schema, or needs a store of its own, opens a new store.
#![allow(clippy::cast_possible_wrap)]

mod attaching;
mod bucket_cuts;
mod buckets;
mod budgets;
mod checked_buckets;
mod checked_registry;
mod checked_shards;
mod closing;
mod collation;
mod counts;
mod cursors;
mod edges;
mod hidden_rows;
mod intersect;
mod kept;
mod kept_views;
mod listing;
mod loading;
mod misfits;
mod pages;
mod plain_views;
mod queries;
mod refusals;
mod rounding;
mod schemas;
mod times;
mod turned;
mod typed;
mod unique;
mod views;
mod writes;

const SCHEMA: &str = r#"
# Newest first; id follows ascending.
[collection.events]
fields = { stream = "text", at = "int", id = "int", kind = "text", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"

[collection.mixed]
fields = { p = "text", a = "int", b = "int", c = "int", d = "int", v = "text" }
key = ["p", "a", "b", "c", "d"]
partition = ["p"]
order = ["a", "-b", "c", "-d"]
writes = "overwrite"

[collection.places]
fields = { test = "text", country = "text", name = "text", inhabitants = "bigint" }
key = ["test", "country", "name"]
partition = ["test", "country"]
order = ["name"]
writes = "overwrite"

[collection.readings]
fields = { sensor = "text", slot = "int", value = "double", unit = "text" }
key = ["sensor", "slot"]
partition = ["sensor"]
order = ["slot"]
writes = "overwrite"

# A field each of what Rust types become fields, and numbers that no double holds in the key.
[collection.orders]
fields = { status = "text", created = "timestamp", id = "bigint", total = "decimal", address = "text", tags = "map<text, int>", seen = "set<int>" }
key = ["status", "created", "id", "total"]
partition = ["status"]
order = ["created", "id", "total"]
writes = "overwrite"

[collection.notes]
fields = { id = "int", text = "text" }
key = ["id"]
writes = "overwrite"
"#;

crate::on_both_stores! { super::super::SCHEMA;
    pages {
        first_next_previous_last,
        a_page_before_is_the_nearest_rows_in_the_querys_order,
        any_row_gives_a_cursor,
        page_sizes_may_change,
        a_page_around_a_row,
        a_page_from_values,
        starts_exclude_one_another,
        page_sizes_have_a_default_and_a_most,
        a_partition_without_rows_is_an_empty_page,
        a_page_reads_its_own_rows_and_one_more_at_any_depth,
        a_stream_gives_every_row,
    }
    edges {
        in_the_direction_of_travel_they_are_exact,
        the_other_end_is_unknown_unless_asked_for,
        at_the_ends_of_an_exactly_full_page,
        of_an_empty_page_beyond_the_end,
    }
    cursors {
        survive_the_deletion_of_their_row,
        see_what_is_inserted_beyond_them,
        leave_and_return_where_everything_was_deleted,
        are_bound_to_their_query,
        do_not_care_how_a_filter_is_written,
        altered_in_any_character_are_refused,
        of_other_keys_are_refused,
        continue_on_the_other_store,
        expire,
    }
    counts {
        are_exact_up_to_the_limit,
        read_one_row_more_than_the_limit,
        are_exact_with_ranks_on_an_embedded_store,
        of_a_filter_scan_end_at_its_budget,
        of_more_rows_than_are_read_at_a_time,
        leave_out_rows_that_are_no_records,
    }
    budgets {
        of_rows_looked_at,
        of_rows_read_ahead_of_merged_partitions,
        of_bytes,
        of_time_that_is_over_before_it_began,
    }
    queries {
        lists_of_partition_values_merge,
        ties_go_by_the_partition,
        the_sort_may_begin_with_the_partition,
        lists_of_order_values,
        mixed_directions,
        tuple_ranges_over_mixed_directions,
        text_prefixes,
        contradictions_are_empty_pages,
        filter_scan_conditions,
        a_sort_that_stops_early,
        filters_built_in_rust_are_the_filters_written,
        several_filters_all_hold,
    }
    attaching {
        reads_empty_elements,
        reads_empty_values_as_null,
        rejects_tables_of_recto,
        scans_past_empty_keys,
    }
    loading {
        files_of_other_programs,
    }
    hidden_rows {
        plans_show_no_key_of_one,
    }
    refusals {
        name_the_view_that_would_serve,
        of_what_is_not_a_query_point_at_it,
        of_too_much,
    }
    writes {
        a_put_is_read_back_and_replaced_whole,
        a_deleted_record_is_gone_and_may_come_back,
        the_last_writer_wins,
        a_batch_is_all_or_nothing,
        a_batch_that_is_too_large_writes_nothing,
        a_batch_of_several_collections,
        records_expire,
        numbers_are_exact_or_refused,
        rejects_invalid_records,
        rejects_invalid_keys,
        appended_records_are_kept,
        an_append_of_another_record_is_a_conflict_where_the_store_sees_it,
        two_puts_of_one_key_in_one_batch,
        a_batch_deletes_a_record_in_no_view_that_it_put,
        an_appended_record_lives_for_the_longer_time,
        a_batch_that_failed_is_committed_again,
    }
    schemas {
        applying_twice_changes_nothing,
        a_plan_shows_all_that_is_run,
        another_schema_is_refused_with_the_difference,
        a_collection_may_be_added,
        several_who_apply_at_once,
        rejects_unsupported_features_by_name,
        opening_again_finds_schema_and_records,
        reports_a_missing_store_or_collection,
    }
    closing {
        gives_the_store_up_for_every_handle,
    }
    misfits {
        adding_a_view_tells_of_misfits,
        misfits_can_be_changed,
        adding_a_unique_constraint_tells_of_misfits,
        a_copy_has_the_misfits,
        misfits_can_be_put_plainly,
    }
    unique {
        values_have_one_holder,
        values_are_free_after_a_change_and_a_deletion,
        null_is_not_unique,
        several_fields_are_unique_together,
        numbers_are_unique_by_their_value,
        values_that_cannot_be_claimed_are_refused,
        an_empty_text_is_unique,
        records_that_expire_free_their_values,
        one_of_many_gets_a_value,
        a_value_goes_round,
        a_load_rejects_rows_whose_values_are_taken,
        a_copy_has_the_claims,
        claims_are_compared_with_records,
        fields_of_records_that_are_there_become_unique,
        a_type_keeps_constraints_it_does_not_name,
        constraints_are_removed_by_name_only,
        the_order_of_constraints_says_nothing,
        fields_are_unique_no_more,
        claims_go_with_their_collection,
    }
    typed {
        records_are_the_dynamic_ones,
        a_type_that_differs_is_refused,
        accepts_field_values_as_keys_and_conditions,
        an_update_is_checked_against_the_type,
        other_records_of_a_page_can_be_read,
        a_type_keeps_options_it_does_not_name,
    }
    buckets {
        are_read_as_one_partition,
        are_under_the_pages_budgets,
        are_no_sources_of_a_plan,
        of_shards_take_fewer_sources,
        may_hold_a_whole_collection,
        say_how_many_rows_there_are,
    }
    times {
        are_read_as_one_partition,
        have_rows_without_a_time_in_one_of_their_own,
        entries_move_between_them_with_their_records,
        are_told_of_where_entries_move,
        #[ignore = "slow: two minutes on Cassandra"]
        of_changing_records_are_switched_on_off_and_over,
        entries_left_behind_in_them_are_found_and_repaired,
    }
    kept {
        old_buckets_go_and_late_records_are_refused,
        late_rows_of_a_load_go_to_the_reject_file,
        a_shorter_keep_tells_how_many_records_it_deletes,
    }
    kept_views {
        #[ignore = "slow: half a minute on Cassandra"]
        show_what_is_kept_of_records_that_stay,
        #[ignore = "slow: a minute on Cassandra"]
        are_loaded_and_built_with_what_is_kept,
        #[ignore = "slow: half a minute on Cassandra"]
        are_well_where_a_clock_was_ahead,
        go_on_between_two_floors,
    }
    turned {
        #[ignore = "slow: a minute on Cassandra"]
        on_off_and_over_beside_who_changes_records,
        #[ignore = "slow: a minute on Cassandra"]
        on_off_and_over_beside_who_appends,
    }
    bucket_cuts {
        #[ignore = "slow: a minute on Cassandra"]
        none_has_more_rows_than_it_may,
        cursors_go_on_through_them,
        #[ignore = "slow: a minute on Cassandra"]
        cursors_go_on_from_before_there_were_any,
    }
    plain_views {
        appended_records_come_and_go_with_their_entries,
        another_appended_record_is_a_conflict_in_views_too,
        keeps_entries_exact_for_types_with_fewer_fields,
        overwritten_records_are_so_in_views,
        rejects_oversized_records_as_a_whole,
    }
    rounding {
        records_stand_in_the_order_of_what_is_rounded,
        ranges_are_exact,
        it_may_stand_behind_other_fields,
        a_sort_by_the_field_itself_is_refused,
        a_record_that_moves_a_little_stays,
        #[ignore = "slow: two minutes on Cassandra"]
        it_is_switched_on_off_and_over,
    }
    collation {
        names_page_as_people_sort_them,
        fields_have_collations_of_their_own,
        ranges_go_by_the_collation_everywhere,
        views_are_intersected_by_it,
        entries_move_with_their_texts,
        rejects_unsupported_queries_and_long_keys,
        they_are_kept_in_buckets,
        #[ignore = "slow: two minutes on Cassandra"]
        a_collation_is_added_changed_and_dropped,
        keys_of_another_number_are_refused_until_they_are_made_anew,
    }
    intersect {
        #[ignore = "slow: half a minute on Cassandra"]
        every_combination_is_served_by_views_of_a_field_each,
        key_fields_that_other_views_pin_are_no_part_of_the_order,
        a_cursor_goes_on_in_a_view_of_all_fields,
        applies_other_conditions_to_common_rows,
        reads_few_rows_if_nothing_matches,
        the_sparsest_is_read_on,
        a_budget_ends_it_at_what_is_decided,
        it_is_explained,
    }
    views {
        the_view_is_taken_that_reads_least,
        records_come_whole_from_every_view,
        fields_are_looked_up,
        a_cursor_goes_on_in_any_view_of_its_order,
        handles_from_before_read_a_view_that_is_added,
    }
    ;
    only on cassandra;
    checked_buckets {
        #[ignore = "slow: a minute and a half on Cassandra"]
        finds_and_repairs_planted_faults,
    }
    checked_shards {
        rows_in_others_are_found_and_taken_home,
    }
    checked_registry {
        #[ignore = "slow: half a minute on Cassandra"]
        finds_and_repairs_faults_in_buckets_by_time,
    }
}

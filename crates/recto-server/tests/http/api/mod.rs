//! The HTTP API over real HTTP, on both stores. Each response is checked against the server's own
//! description.

mod batches;
mod collections;
mod described;
mod explained;
mod exports;
mod keys;
mod lists;
mod methods;
mod paging;
mod queues;
mod records;
mod scoped;
mod support;
mod versions;
mod views;

crate::on_both_stores! {
    batches {
        are_made_together,
        hold_the_later_of_two_changes,
        do_not_change_what_is_appended,
        may_say_how_long_records_live,
        name_the_change_that_is_wrong,
        of_the_wrong_shape_are_refused,
        have_a_limit,
        too_large_for_cassandra_are_refused_whole,
    }
    collections {
        are_listed,
        are_described,
        are_a_schema,
        that_are_not_there_are_not_found,
    }
    described {
        refers_to_what_is_there,
        is_for_people_too,
        parameters_are_taken_in_a_body_as_in_an_address,
        names_each_parameter_that_is_wrong,
        says_what_arrays_hold,
    }
    explained {
        say_what_is_read,
        take_the_parameters_of_lists,
        take_them_in_a_body_too,
    }
    exports {
        hold_every_record_once,
        hold_the_fields_asked_for,
        go_on_after_a_cut,
        refuse_tokens_that_are_not_theirs,
        hold_what_a_filter_asks_for,
        go_on_for_whoever_sees_some_rows,
        are_not_read_ahead_of_the_client,
    }
    keys {
        hold_any_text,
        of_any_type_are_found_again,
        that_do_not_fit_are_refused,
    }
    lists {
        take_known_parameters_once,
        say_where_a_filter_is_wrong,
        say_where_a_sort_is_wrong,
        name_the_view_that_is_missing,
        hold_the_fields_asked_for,
        know_their_views,
        start_where_asked,
        are_revalidated,
        link_to_their_neighbours,
        are_asked_for_by_a_body_too,
        turn_at_keys_too_long_for_an_address,
    }
    methods {
        are_named_where_another_is_asked,
        are_those_of_the_description,
        name_the_ways_to_write,
        that_the_collection_does_not_offer_say_why,
        head_is_get_without_a_body,
        nothing_is_found_with_a_problem,
    }
    paging {
        size_is_the_default_if_absent_or_zero,
        size_cannot_be_negative_or_no_number,
        size_is_coerced_to_the_most,
        size_changes_from_page_to_page,
        next_is_empty_only_at_the_end,
        previous_is_empty_only_at_the_beginning,
        a_token_goes_on_after_its_row_is_gone,
        a_token_with_other_arguments_is_refused,
        a_token_that_was_altered_is_refused,
        an_empty_token_is_the_first_page,
        a_wrong_start_names_its_field,
        a_dash_descends,
        a_page_starts_at_one_place,
        row_page_tokens_stand_beside_records,
    }
    records {
        are_put_and_read_and_deleted,
        of_every_type_come_back,
        have_exact_numbers,
        take_what_else_means_the_same,
        are_of_their_address,
        are_revalidated,
        that_are_wrong_say_where,
        are_sent_as_json,
    }
    scoped {
        rows_of_others_are_not_seen,
        filters_outside_the_key_are_for_reading,
        batches_reach_no_further_than_their_parts,
        rights_not_granted_are_refused,
        hidden_rows_are_not_found_by_bisecting,
        lists_that_a_filter_needs_more_for_say_so,
        descriptions_hold_what_is_seen,
    }
}

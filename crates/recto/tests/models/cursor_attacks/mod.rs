//! Attacks on cursors, on both stores. The cursors are altered, truncated, extended, combined from
//! two, or expired. Others belong to another query, collection, sort order, key or release. The
//! tests attack the resume tokens of scans in the same ways.
//!
//! Each attack must cause a typed error with a hint. No attack may cause a panic, or read a row
//! that does not match the query.
#![allow(clippy::cast_possible_wrap)]

#[path = "../../page_costs/counting.rs"]
mod counting;

mod foreign;
mod forged;
mod golden;
mod rotation;
mod scans;
mod support;
mod telling;
mod views;

pub(crate) use support::SCHEMA;

crate::on_both_stores! { super::super::SCHEMA;
    forged {
        every_flipped_bit_is_refused,
        every_truncation_and_extension_is_refused,
        two_cursors_do_not_make_a_third,
        rejects_malformed_cursors,
    }
    foreign {
        another_query_of_the_collection_is_refused,
        another_collection_is_refused,
        another_sort_order_of_the_same_name_is_refused,
        another_sealing_key_is_refused,
        a_copy_on_the_other_store_continues,
    }
    views {
        every_flipped_bit_is_refused,
        every_truncation_and_extension_is_refused,
        two_cursors_do_not_make_a_third,
        rejects_malformed_cursors,
        those_of_others_are_refused,
    }
    telling {
        an_expired_cursor_says_when,
        a_forged_cursor_costs_what_an_expired_one_costs,
    }
    rotation {
        old_cursors_open_while_their_key_is_kept,
        a_retired_key_is_an_error,
        another_handle_learns_of_a_new_key,
        a_handle_that_looks_takes_over_keys_and_schemas,
        unknown_keys_are_asked_for_at_a_limited_rate,
        two_who_rotate_at_once_both_succeed,
        rejects_too_many_keys_and_configured_keys,
        keys_stored_by_an_earlier_release_open_and_rotate,
    }
    scans {
        every_flipped_bit_is_refused,
        every_truncation_and_extension_is_refused,
        cursors_and_tokens_are_no_substitutes,
        other_filters_and_row_filters_are_refused,
        other_collections_and_sort_orders_are_refused,
        on_the_other_kind_of_store,
        they_expire_and_follow_the_keys,
        every_row_comes_once_for_everyone,
        filters_that_are_none_are_refused,
        tokens_of_every_version_open,
    }
    golden {
        cursors_of_every_version_open,
        a_cursor_of_a_later_version_is_refused_by_its_number,
    }
}

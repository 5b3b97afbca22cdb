//! Behavior of queues on each kind of store, random histories of a queue, and the engine in virtual time.
// The test harness shows this output if a test fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod buried;
mod damage;
mod dead;
mod expiring;
mod fairness;
mod gathering;
mod histories;
mod inspecting;
#[path = "../common/keyspace.rs"]
mod keyspace;
mod large;
mod options;
mod ordered;
mod queues;
mod receiving;
mod ring;
mod segments;
mod sending;
mod settling;
mod shards;
mod simulation;
mod stores;
mod watched;

use std::time::Duration;

use recto_jobs::{Message, NewMessage, Sent, Shards};

/// Duration of claims in most tests. A message can be received again after it.
const VISIBILITY: Duration = Duration::from_secs(1);
/// Slightly longer than the duration of claims.
const LATER: Duration = Duration::from_millis(1_200);
/// Receive without waiting.
const NOW: Duration = Duration::ZERO;
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// Defines the tests for each store. The first list runs on each store. The second list has tests that take many
/// messages or the whole store; it runs on the embedded store. The third list has slow tests; it runs on the memory
/// store. The last list runs on stores with a ring of body tables.
macro_rules! behaviours {
    ($($module:ident::$name:ident),+; $($many:ident::$of_many:ident),+; $($long:ident::$that_takes_long:ident),+; $($ring:ident::$of_ring:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                $crate::$module::$name($crate::stores::memory(false)).await;
            })+

            $(#[tokio::test(start_paused = true)]
            async fn $that_takes_long() {
                $crate::$long::$that_takes_long($crate::stores::memory(false)).await;
            })+
        }

        /// Memory store that other processes may change, and without transactions over several writes.
        mod remote_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                $crate::$module::$name($crate::stores::memory(true)).await;
            })+
        }

        /// The same store, with queues of several shards.
        mod remote_shards {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                $crate::$module::$name($crate::stores::memory(true).with_shards(4)).await;
            })+

            $(#[tokio::test(start_paused = true)]
            async fn $of_ring() {
                $crate::$ring::$of_ring($crate::stores::memory(true).with_shards(4)).await;
            })+
        }

        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $crate::$module::$name($crate::stores::embedded()).await;
            })+

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $of_many() {
                $crate::$many::$of_many($crate::stores::embedded()).await;
            })+
        }
    };
}

behaviours! {
    buried::a_redrive_goes_on_with_one_that_was_cut_off,
    sending::messages_come_back_as_they_were_sent,
    sending::what_is_not_right_is_refused_by_number_and_field,
    sending::a_deduplication_id_is_sent_once,
    sending::what_is_delayed_comes_later,
    receiving::what_is_not_acknowledged_comes_again,
    receiving::numbers_that_are_not_right_are_refused,
    receiving::who_waits_is_told_of_what_is_sent,
    receiving::each_message_is_received_by_one_of_many_who_wait,
    receiving::who_goes_away_gives_back_what_it_received,
    settling::a_receipt_holds_until_the_message_is_received_again,
    settling::a_receipt_of_what_never_was_is_stale,
    settling::a_receipt_of_what_was_taken_away_is_stale,
    settling::what_is_given_back_comes_again_when_it_is_due,
    settling::what_is_kept_for_longer_does_not_come_again,
    settling::what_is_acknowledged_is_so_for_whoever_opens_the_store,
    expiring::what_has_expired_is_not_received,
    expiring::what_is_redriven_is_kept_from_the_move,
    expiring::a_dead_letter_is_kept_from_the_move,
    fairness::failing_messages_do_not_starve_others,
    fairness::failing_segments_do_not_starve_those_behind,
    fairness::all_messages_may_be_given_back,
    fairness::all_messages_may_be_in_flight,
    fairness::the_limit_of_messages_in_flight_is_an_error,
    fairness::receives_of_one_message_alternate,
    fairness::the_limit_holds_for_concurrent_receivers,
    inspecting::messages_are_looked_at_and_counted,
    inspecting::one_message_is_taken_out,
    ordered::of_a_group_one_message_is_received_at_a_time,
    ordered::who_has_no_group_is_not_sent,
    ordered::nothing_is_sent_behind_what_was_not,
    dead::what_is_received_too_often_is_a_dead_letter,
    dead::the_last_error_goes_with_a_dead_letter,
    damage::a_message_whose_body_is_lost_is_gone_and_counted,
    damage::a_message_whose_body_is_lost_is_a_dead_letter,
    damage::a_head_that_was_restored_alone_is_found_out,
    large::of_large_messages_fewer_are_received,
    segments::what_is_passed_over_comes_when_it_is_due,
    gathering::what_is_in_its_turn_stays,
    gathering::what_is_moved_on_is_a_dead_letter_in_its_time,
    gathering::what_no_shard_takes_is_refused,
    shards::how_many_shards_there_are_is_said;
    sending::a_deduplication_id_is_known_in_the_segments_behind,
    ordered::a_group_is_in_order_across_segments,
    ordered::a_group_behind_very_many_messages_waits_for_some_of_them,
    inspecting::dead_letters_go_back,
    options::what_a_queue_says_holds_where_nothing_else_is_said,
    options::in_an_ordered_queue_its_delay_holds,
    options::what_is_changed_holds_for_all_at_once,
    options::a_paused_queue_delivers_nothing,
    options::dead_letters_go_where_the_queue_of_that_name_is_now,
    options::what_is_done_is_counted,
    options::messages_that_are_too_large_are_not_redriven,
    options::what_cannot_be_moved_back_stays,
    queues::a_queue_is_made_once,
    queues::a_queue_is_changed_as_it_was_seen,
    queues::who_knows_a_deleted_queue_does_nothing_to_the_next,
    queues::what_is_purged_is_not_received,
    segments::segments_go_when_all_of_their_messages_are_done_with,
    segments::what_is_received_and_not_done_with_holds_up_nothing_new,
    segments::what_is_not_due_is_not_read_again,
    segments::what_is_left_in_the_first_segment_is_received_first,
    segments::rows_of_a_log_are_put_over_those_of_the_segments_before,
    damage::what_is_given_back_is_not_handed_out,
    damage::what_is_moved_back_goes_without_its_body,
    large::many_who_send_large_messages_are_served;
    expiring::what_is_older_than_its_queue_keeps_it_is_gone,
    expiring::what_is_delayed_is_kept_from_when_it_is_due,
    expiring::what_is_in_flight_expires_when_it_comes_back,
    expiring::the_upkeep_ends_with_the_queues,
    expiring::what_could_not_be_cleared_is_tried_again,
    buried::what_nobody_looks_at_is_a_dead_letter,
    buried::what_a_process_had_that_died_is_a_dead_letter,
    buried::what_was_received_too_often_by_a_change_is_a_dead_letter,
    buried::a_turn_moves_so_many_and_the_next_one_goes_on,
    buried::turns_go_round_all_queues,
    buried::what_was_being_moved_back_gets_there,
    buried::what_a_work_unit_has_is_a_dead_letter_too,
    buried::where_nothing_is_received_nothing_is_kept_in_memory,
    gathering::what_is_left_of_many_segments_comes_together,
    large::what_the_store_does_not_take_is_refused_by_number_and_field;
    buried::what_nobody_looks_at_is_a_dead_letter,
    buried::what_a_process_had_that_died_is_a_dead_letter,
    buried::what_was_received_too_often_by_a_change_is_a_dead_letter,
    buried::a_turn_moves_so_many_and_the_next_one_goes_on,
    buried::turns_go_round_all_queues,
    ring::tables_are_emptied_in_turn,
    ring::what_is_delayed_is_copied_on,
    ring::a_ring_without_a_free_table_goes_on,
    ring::what_cannot_be_emptied_stands_still_and_says_so,
    ring::a_table_of_which_nobody_knows_whether_it_is_empty_is_replaced,
    ring::a_table_that_a_node_has_not_heard_of_is_not_gone,
    ring::a_work_unit_ends_at_once,
    ring::work_units_that_cannot_begin_are_refused,
    ring::what_tables_have_is_told_in_bytes,
    ring::batches_take_few_conditional_writes,
    ring::what_another_process_sends_is_heard,
    ring::who_waits_for_nothing_reads_little,
    gathering::what_is_left_of_many_segments_comes_together,
    shards::who_is_late_goes_elsewhere,
    shards::who_is_alone_stays_where_it_is,
    shards::no_shard_is_passed_over,
    shards::who_waits_hears_of_each_shard,
    shards::a_batch_is_split_and_told_in_its_order,
    shards::receipts_of_all_shards_are_shown_together,
    shards::a_group_is_in_one_shard,
    shards::what_is_moved_from_all_shards_is_there_once,
    shards::a_redrive_that_fails_in_a_later_shard_says_what_was_moved,
    shards::a_redrive_that_was_cut_off_goes_on_in_any_shard,
    shards::all_shards_are_purged_and_cleared,
}

/// Checks a shard with more segments than its limit, on a real Cassandra.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_comes_together_on_cassandra() {
    gathering::comes_together(stores::cassandra().await, gathering::FEW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_messages_do_not_starve_others_on_cassandra() {
    fairness::failing_messages_do_not_starve_others(stores::cassandra().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_redriven_is_kept_from_the_move_on_cassandra() {
    expiring::what_is_redriven_is_kept_from_the_move(stores::cassandra().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_messages_may_be_in_flight_on_cassandra() {
    fairness::all_messages_may_be_in_flight(stores::cassandra().await).await;
}

/// Sends one message. Returns its identifier.
async fn send(shard: &Shards, message: NewMessage) -> Sent {
    let mut sent = shard.send(vec![message]).await;
    sent.pop().unwrap().unwrap()
}

/// Returns a message that is sent once, in the shard of its deduplication id.
fn with_id(id: &str) -> NewMessage {
    NewMessage {
        deduplication_id: Some(id.to_owned()),
        ..NewMessage::new(id)
    }
}

/// Receives the messages that are available now, at most `most`.
async fn receive(shard: &Shards, most: usize) -> Vec<Message> {
    shard.receive(most, Some(VISIBILITY), NOW).await.unwrap()
}

/// Returns the bodies of messages as text.
fn bodies(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| String::from_utf8(message.body.clone()).unwrap();
    messages.iter().map(text).collect()
}

//! Tests of the behavior of queues on each kind of store, of random histories of a queue, and of the engine
//! in virtual time.
// Tests print details, which the test harness shows only if a test fails.
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

use recto_queues::{Message, NewMessage, Sent, Shards};

/// Visibility timeout in most tests.
const VISIBILITY: Duration = Duration::from_secs(1);
/// Slightly longer than `VISIBILITY`.
const LATER: Duration = Duration::from_millis(1_200);
/// Wait of a receive that returns at once.
const NOW: Duration = Duration::ZERO;
/// Visibility timeout that is longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// Defines the tests for each store, from four lists:
///
/// - The first list runs on each store.
/// - The second list has tests that take many messages or the whole store. It runs on the embedded store.
/// - The third list has slow tests. It runs on the memory store.
/// - The last list runs on stores with a ring of body tables.
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

        /// Tests on a memory store without transactions, whose data other processes may change.
        mod remote_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                $crate::$module::$name($crate::stores::memory(true)).await;
            })+
        }

        /// Tests on the remote memory store, with queues of four shards.
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
    sending::rejects_invalid_messages_and_names_the_field,
    sending::a_deduplication_id_is_sent_once,
    sending::delivers_delayed_messages_when_due,
    receiving::redelivers_unacknowledged_messages,
    receiving::numbers_that_are_not_right_are_refused,
    receiving::wakes_waiting_receivers_when_a_message_is_sent,
    receiving::each_message_is_received_by_one_of_many_who_wait,
    receiving::a_dropped_receiver_gives_its_messages_back,
    settling::a_receipt_holds_until_the_message_is_received_again,
    settling::a_receipt_of_what_never_was_is_stale,
    settling::a_receipt_of_what_was_taken_away_is_stale,
    settling::redelivers_nacked_messages_when_due,
    settling::extended_messages_are_not_redelivered,
    settling::acknowledgements_survive_reopening,
    expiring::expired_messages_are_not_received,
    expiring::retention_restarts_at_a_redrive,
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
    ordered::rejects_messages_without_a_group_or_with_a_delay,
    ordered::nothing_is_sent_behind_what_was_not,
    dead::messages_received_too_often_become_dead_letters,
    dead::the_last_error_goes_with_a_dead_letter,
    damage::a_message_whose_body_is_lost_is_gone_and_counted,
    damage::a_message_whose_body_is_lost_is_a_dead_letter,
    damage::a_head_that_was_restored_alone_is_found_out,
    large::of_large_messages_fewer_are_received,
    segments::receives_skipped_messages_when_due,
    gathering::does_not_compact_receivable_or_ordered_messages,
    gathering::compacted_messages_become_dead_letters_at_the_limit,
    gathering::rejects_messages_when_all_shards_are_full,
    shards::how_many_shards_there_are_is_said;
    sending::a_deduplication_id_is_known_in_the_segments_behind,
    ordered::a_group_is_in_order_across_segments,
    ordered::a_group_behind_very_many_messages_waits_for_some_of_them,
    inspecting::dead_letters_go_back,
    options::applies_queue_options_by_default,
    options::in_an_ordered_queue_its_delay_holds,
    options::changed_options_apply_to_all_handles,
    options::a_paused_queue_delivers_nothing,
    options::dead_letters_go_where_the_queue_of_that_name_is_now,
    options::counts_completed_operations,
    options::messages_that_are_too_large_are_not_redriven,
    options::keeps_messages_that_cannot_be_redriven,
    queues::a_queue_is_made_once,
    queues::a_queue_is_changed_as_it_was_seen,
    queues::handles_of_a_deleted_queue_do_not_affect_the_next,
    queues::purged_messages_are_not_received,
    segments::segments_go_when_all_of_their_messages_are_done_with,
    segments::messages_in_flight_do_not_block_new_ones,
    segments::does_not_reread_messages_that_are_not_due,
    segments::receives_messages_left_in_the_first_segment,
    segments::rows_of_a_log_are_put_over_those_of_the_segments_before,
    damage::gives_messages_back_if_heads_are_unavailable,
    damage::redrives_messages_without_their_lost_bodies,
    large::many_who_send_large_messages_are_served;
    expiring::removes_messages_older_than_the_retention,
    expiring::retention_of_delayed_messages_starts_when_due,
    expiring::messages_in_flight_expire_when_given_back,
    expiring::the_upkeep_ends_with_the_queues,
    expiring::retries_failed_clearing_of_a_deleted_queue,
    buried::moves_dead_letters_without_a_receiver,
    buried::moves_dead_letters_of_a_crashed_process,
    buried::moves_dead_letters_after_the_limit_is_lowered,
    buried::a_turn_moves_so_many_and_the_next_one_goes_on,
    buried::turns_go_round_all_queues,
    buried::maintenance_completes_an_interrupted_redrive,
    buried::moves_dead_letters_of_work_units,
    buried::caches_nothing_for_queues_without_receivers,
    gathering::compacts_many_sparse_segments,
    large::rejects_bodies_too_large_for_the_store;
    buried::moves_dead_letters_without_a_receiver,
    buried::moves_dead_letters_of_a_crashed_process,
    buried::moves_dead_letters_after_the_limit_is_lowered,
    buried::a_turn_moves_so_many_and_the_next_one_goes_on,
    buried::turns_go_round_all_queues,
    ring::tables_are_emptied_in_turn,
    ring::copies_delayed_messages_between_tables,
    ring::a_ring_without_a_free_table_goes_on,
    ring::reports_tables_that_cannot_be_emptied,
    ring::a_table_of_which_nobody_knows_whether_it_is_empty_is_replaced,
    ring::a_table_that_a_node_has_not_heard_of_is_not_gone,
    ring::acknowledged_messages_do_not_count_as_lost,
    ring::dead_letters_do_not_count_as_lost,
    ring::counts_a_dead_letter_in_one_process,
    ring::finds_bodies_that_are_back_in_a_table,
    ring::a_work_unit_ends_at_once,
    ring::work_units_that_cannot_begin_are_refused,
    ring::reports_table_sizes_in_bytes,
    ring::batches_take_few_conditional_writes,
    ring::notices_messages_of_another_process_quickly,
    ring::idle_receivers_cause_few_reads,
    gathering::compacts_many_sparse_segments,
    shards::alternating_senders_choose_different_shards,
    shards::a_single_sender_stays_in_one_shard,
    shards::no_shard_is_passed_over,
    shards::wakes_waiting_receivers_of_every_shard,
    shards::a_batch_is_split_and_told_in_its_order,
    shards::receipts_of_all_shards_are_shown_together,
    shards::a_group_is_in_one_shard,
    shards::moves_messages_of_all_shards_exactly_once,
    shards::a_redrive_that_fails_in_a_later_shard_says_what_was_moved,
    shards::a_redrive_that_was_cut_off_goes_on_in_any_shard,
    shards::all_shards_are_purged_and_cleared,
}

/// Checks segment merging in a shard that has more segments than its limit, on a real Cassandra.
#[tokio::test(flavor = "multi_thread")]
async fn compacts_sparse_segments_on_cassandra() {
    gathering::comes_together(stores::cassandra().await, gathering::FEW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_messages_do_not_starve_others_on_cassandra() {
    fairness::failing_messages_do_not_starve_others(stores::cassandra().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_restarts_at_a_redrive_on_cassandra() {
    expiring::retention_restarts_at_a_redrive(stores::cassandra().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_messages_may_be_in_flight_on_cassandra() {
    fairness::all_messages_may_be_in_flight(stores::cassandra().await).await;
}

/// Sends one message. Returns the outcome.
async fn send(shard: &Shards, message: NewMessage) -> Sent {
    let mut sent = shard.send(vec![message]).await;
    sent.pop().unwrap().unwrap()
}

/// Returns a message whose body is also its deduplication id.
fn with_id(id: &str) -> NewMessage {
    NewMessage {
        deduplication_id: Some(id.to_owned()),
        ..NewMessage::new(id)
    }
}

/// Receives at most `most` messages without waiting.
async fn receive(shard: &Shards, most: usize) -> Vec<Message> {
    shard.receive(most, Some(VISIBILITY), NOW).await.unwrap()
}

/// Returns the bodies of messages as text.
fn bodies(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| String::from_utf8(message.body.clone()).unwrap();
    messages.iter().map(text).collect()
}

//! The tables in which the bodies of messages lie.

use recto::queues::{
    MAX_MARGIN_SECONDS, MAX_OPTION_TABLES, MAX_SLICE_SECONDS, MIN_SLICE_SECONDS, MIN_TABLES, RingPhase,
};
use serde_json::{Value as Json, json};

use super::queues::{array, as_patch, count, full_name, of, operation, text, whole, with_body};
use super::responses::json_of;
use super::schemas::reference;
use super::types::nullable;
use crate::access::Operation;

/// The ring's path.
pub(super) const PATH: &str = "/v1/queue-ring";

/// What may be done with the ring, and by which method.
pub(super) fn operations() -> [(Operation, &'static str, Json); 2] {
    [
        (Operation::Read, "get", get()),
        (Operation::Manage, "patch", patch()),
    ]
}

/// The bodies of these.
pub(super) fn schemas() -> [(&'static str, Json); 2] {
    [("QueueRingSettings", settings()), ("QueueRing", ring())]
}

fn settings() -> Json {
    let most = u32::from(MAX_OPTION_TABLES);
    let least = u32::from(MIN_TABLES);
    let slice = "For how long bodies go to one table, before they go to the next.";
    let margin = "For how long nothing refers to a table before it is emptied.";
    let units = "How many work units there may be at once. There are 48 tables at most, those of units and of slices together.";
    of(
        [
            (
                "slice_seconds",
                nullable(whole(MIN_SLICE_SECONDS, MAX_SLICE_SECONDS, slice)),
            ),
            ("margin_seconds", nullable(whole(1, MAX_MARGIN_SECONDS, margin))),
            (
                "tables",
                nullable(whole(least, most, "How many tables slices have.")),
            ),
            ("units", nullable(whole(0, most - least, units))),
        ],
        &[],
    )
}

fn ring() -> Json {
    let needed = "Whether bodies lie in such tables. Where not, as in an embedded store, they go with their messages, and \
                  only `units` matters.";
    let obstacle =
        "What stands still and why; null where nothing does. Nothing is lost, and sending goes on.";
    of(
        [
            ("needed", json!({ "type": "boolean", "description": needed })),
            ("options", reference("QueueRingSettings")),
            ("tables", array(table())),
            ("obstacle", nullable(text(obstacle))),
        ],
        &["needed", "options", "tables", "obstacle"],
    )
}

fn table() -> Json {
    let phases = RingPhase::ALL.map(RingPhase::name);
    let age = "For how long it has been so; null of one that is free or retired.";
    let messages = "How many messages were sent to those segments, done with or not.";
    let bytes = "How many bytes they have: bodies and attributes, as they were sent. Not what the store's files take: there lies what was done with, too, until the table is emptied.";
    let exact = "Whether all of those segments were looked at: of many a look asks 1,024. Else there are so many messages and bytes at least.";
    let mut unit = full_name();
    unit["description"] = "Of which work unit it is, if it is of one that has not ended.".into();
    of(
        [
            ("number", count("No other table ever has it.")),
            ("name", text("What it is called in the store.")),
            ("phase", json!({ "enum": phases })),
            (
                "age_seconds",
                nullable(json!({ "type": "number", "minimum": 0, "description": age })),
            ),
            ("unit", unit),
            (
                "segments",
                count("How many segments have bodies there that may still be needed."),
            ),
            ("messages", count(messages)),
            ("bytes", count(bytes)),
            ("exact", json!({ "type": "boolean", "description": exact })),
        ],
        &[
            "number",
            "name",
            "phase",
            "age_seconds",
            "segments",
            "messages",
            "bytes",
            "exact",
        ],
    )
}

fn get() -> Json {
    let answer = json_of("QueueRing", "How the tables stand.");
    let about = "On Cassandra bodies lie in tables that slices of time take in turn, and that are emptied whole. It is looked at by \
                 who may read every queue.";
    operation(
        "get_queue_ring",
        "The ring of tables",
        about,
        vec![("200", answer)],
        &[],
    )
}

fn patch() -> Json {
    let answer = json_of("QueueRing", "All queues go by that from now on.");
    let about = "What is not said stays. By who may manage every queue.";
    let answers = vec![("200", answer)];
    let patch = operation("patch_queue_ring", "Change the ring", about, answers, &["409"]);
    let mut patch = with_body(patch, &reference("QueueRingSettings"));
    as_patch(&mut patch);
    patch
}

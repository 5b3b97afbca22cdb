//! The tables in which the bodies of messages lie.

use serde_json::Value as Json;

use super::queues::{as_patch, operation, with_body};
use super::responses::json_of;
use super::schemas::reference;
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

//! What can be asked of work units.

use serde_json::Value as Json;

use super::queues::{no_content, operation};
use super::responses::{json_of, tagged_json_of};

/// What the members are called of a work unit's messages, beside those of a queue's.
const SUFFIX: &str = "_of_unit";

pub(super) fn list() -> Json {
    let answer = json_of("Units", "Those that have begun, by name.");
    let about = "A work unit is a part of a queue's work that ends at once, whatever is left of it: a queue as its queue is.";
    operation(
        "list_units",
        "The work units of a queue",
        about,
        vec![("200", answer)],
        &[],
    )
}

pub(super) fn get() -> Json {
    let answer = tagged_json_of("Queue", "The work unit, with what its queue is like.");
    let about = "How much there is in it.";
    operation("get_unit", "A work unit", about, vec![("200", answer)], &[])
}

pub(super) fn begin() -> Json {
    let answer = tagged_json_of("ChangedQueue", "It has begun.");
    let about = "Or had begun before. It does not begin where as many have begun as the store allows, or no table is free for it (409, `full`).";
    let answers = vec![("200", answer)];
    operation("begin_unit", "Begin a work unit", about, answers, &["409"])
}

pub(super) fn end() -> Json {
    let about = "What is left of it is gone, and its name is free.";
    let answers = vec![no_content("It has ended.")];
    operation("end_unit", "End a work unit", about, answers, &["409"])
}

/// An operation on messages of a queue, as one on those of a work unit.
pub(super) fn adapted(mut item: Json) -> Json {
    for (member, suffix) in [("operationId", SUFFIX), ("summary", ", of a work unit")] {
        let said = item[member].as_str().unwrap_or_default();
        item[member] = format!("{said}{suffix}").into();
    }
    item
}

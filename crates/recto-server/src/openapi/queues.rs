//! What can be asked of queues.

use recto::queues::MAX_QUEUE_NAME_LENGTH;
use recto_api::description;
use recto_api::queues::PeekOptions;
use serde_json::{Map, Value as Json, json};

use super::responses::{json_of, of_operation, tagged_json_of};
use super::schemas::reference;
use super::types::object;
use super::{parameters, queue_ring as ring, units};
use crate::access::{Access, Operation};

/// What the operations are listed under.
pub(super) const TAG: &str = "queues";

/// The paths of what may be done with queues: with any of them.
pub(super) fn paths(access: &Access) -> Map<String, Json> {
    let allows = |operation| access.allows_some_queue(operation);
    let mut paths = Map::new();
    let mut add = |operation, path: &str, method: &str, item: Json| {
        if !allows(operation) {
            return;
        }
        let at = paths.entry(path).or_insert_with(|| path_parameters(path));
        at[method] = item;
    };
    let (queue, unit) = ("/v1/queues/{queue}", "/v1/queues/{queue}/units/{unit}");
    add(Operation::Read, "/v1/queues", "get", list());
    add(Operation::Read, queue, "get", get());
    add(Operation::Manage, queue, "put", put());
    add(Operation::Manage, queue, "patch", patch());
    add(Operation::Manage, queue, "delete", delete());
    add(Operation::Read, "/v1/queues/{queue}/units", "get", units::list());
    add(Operation::Read, unit, "get", units::get());
    add(
        Operation::Manage,
        &format!("{unit}:begin"),
        "post",
        units::begin(),
    );
    add(Operation::Manage, &format!("{unit}:end"), "post", units::end());
    for (of, adapt) in [(queue, (|item| item) as fn(Json) -> Json), (unit, units::adapted)] {
        for (operation, path, method, item) in of_messages() {
            add(operation, &format!("{of}/messages{path}"), method, adapt(item));
        }
    }
    for (operation, method, item) in ring::operations() {
        if access.allows_every_queue(operation) {
            let at = paths.entry(ring::PATH).or_insert_with(|| json!({}));
            at[method] = item;
        }
    }
    paths
}

/// What may be done with messages: behind which path, and how.
fn of_messages() -> [(Operation, &'static str, &'static str, Json); 9] {
    [
        (Operation::Read, "", "get", peek()),
        (Operation::Manage, "/{position}", "delete", remove()),
        (Operation::Send, ":send", "post", send()),
        (Operation::Receive, ":receive", "post", receive()),
        (Operation::Receive, ":ack", "post", ack()),
        (Operation::Receive, ":nack", "post", nack()),
        (Operation::Receive, ":extend", "post", extend()),
        (Operation::Manage, ":purge", "post", purge()),
        (Operation::Manage, ":redrive", "post", redrive()),
    ]
}

fn path_parameters(path: &str) -> Json {
    let in_path = |name: &str, schema: Json, about: &str| json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema });
    let mut parameters = Vec::new();
    if path.contains("{queue}") {
        parameters.push(in_path("queue", name(), "What the queue is called."));
    }
    if path.contains("{unit}") {
        parameters.push(in_path(
            "unit",
            name(),
            "What the work unit is called, in its queue.",
        ));
    }
    if path.contains("{position}") {
        let schema = json!({ "type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,4}$" });
        parameters.push(in_path(
            "position",
            schema,
            "Where the message stands, as a look at the queue's messages says.",
        ));
    }
    if parameters.is_empty() {
        return json!({});
    }
    json!({ "parameters": parameters })
}

/// Names of the bodies and replies that operations on queues refer to.
const SCHEMAS: [&str; 12] = [
    "AckRequest",
    "ExtendRequest",
    "MovedMessages",
    "NackRequest",
    "OutgoingMessages",
    "PeekedMessages",
    "Queue",
    "QueueSettings",
    "ReceiveRequest",
    "ReceivedMessages",
    "RedriveRequest",
    "SentMessage",
];

/// The bodies and replies of queues.
pub(super) fn schemas(access: &Access) -> Map<String, Json> {
    let mut schemas = description::schemas(SCHEMAS);
    if access.allows_every_queue(Operation::Read) {
        schemas.extend(description::schemas(["QueueRing"]));
    }
    let queue = &mut schemas["Queue"];
    let members = queue["properties"].as_object().into_iter().flatten();
    let always: Vec<&String> = members
        .map(|(name, _)| name)
        .filter(|name| *name != "damage")
        .collect();
    queue["required"] = json!(always);
    let mut changed = queue.clone();
    changed["required"] = json!(["name", "version"]);
    changed["description"] =
        "The queue after the change. A token that may not read it gets `name` and `version` only.".into();
    schemas.extend(
        [
            ("ChangedQueue", changed),
            ("Queues", list_of("queues", "Queue")),
            ("Units", list_of("units", "Queue")),
            ("SentMessages", sent()),
            ("SettledMessages", settled()),
        ]
        .map(|(name, schema)| (name.to_owned(), schema)),
    );
    schemas
}

pub(super) fn of<const N: usize>(properties: [(&str, Json); N], required: &[&str]) -> Json {
    let properties = properties.into_iter();
    let properties = properties.map(|(name, schema)| (name.to_owned(), schema));
    object(properties.collect(), required)
}

pub(super) fn array(items: Json) -> Json {
    json!({ "type": "array", "items": items })
}

pub(super) fn list_of(member: &str, schema: &str) -> Json {
    of([(member, array(reference(schema)))], &[member])
}

fn name() -> Json {
    let most = MAX_QUEUE_NAME_LENGTH;
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+([.]fifo)?$", "minLength": 1, "maxLength": most })
}

fn sent() -> Json {
    let refused = of([("problem", reference("Problem"))], &["problem"]);
    let results = json!({ "type": "array", "items": { "anyOf": [reference("SentMessage"), refused] },
        "description": "What became of each message, in their order." });
    of([("results", results)], &["results"])
}

fn settled() -> Json {
    let about = "Whether it was done. False if the message was received again since, and for a malformed receipt, which has a problem. For nack and extend also false if \
                 the message was acknowledged, removed, purged or moved: its handler may stop.";
    let done = of(
        [
            ("done", json!({ "type": "boolean", "description": about })),
            ("problem", reference("Problem")),
        ],
        &["done"],
    );
    let results =
        json!({ "type": "array", "items": done, "description": "Of each receipt, in their order." });
    of([("results", results)], &["results"])
}

pub(super) fn operation(
    id: &str,
    summary: &str,
    about: &str,
    answers: Vec<(&str, Json)>,
    besides: &[&str],
) -> Json {
    json!({
        "operationId": id,
        "summary": summary,
        "description": about,
        "tags": [TAG],
        "responses": of_operation(answers, &[&["501"], besides].concat()),
    })
}

/// The same, with a body.
pub(super) fn with_body(mut operation: Json, schema: &Json) -> Json {
    operation["requestBody"] =
        json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    for status in ["413", "415"] {
        operation["responses"][status] = super::responses::reference(status);
    }
    operation
}

pub(super) fn no_content(about: &str) -> (&'static str, Json) {
    ("204", json!({ "description": about }))
}

fn list() -> Json {
    let answer = json_of("Queues", "The queues that may be read, by name.");
    let about = "What each is like, and how much there is in it.";
    operation("list_queues", "The queues", about, vec![("200", answer)], &[])
}

fn get() -> Json {
    let answer = tagged_json_of("Queue", "The queue. The ETag is the version of its options.");
    let about = "What it is like, and how much there is in it.";
    operation("get_queue", "A queue", about, vec![("200", answer)], &[])
}

fn put() -> Json {
    let there = tagged_json_of("ChangedQueue", "It was there, and is like that.");
    let made = tagged_json_of("ChangedQueue", "The queue was created.");
    let about = "Makes a queue, if there is none; one that is there and not like that is left as it is (409). Whoever \
                 names a queue for dead letters may send there.";
    let answers = vec![("200", there), ("201", made)];
    let mut put = operation("put_queue", "Make a queue", about, answers, &["409", "412"]);
    put["parameters"] = json!([parameters::if_absent()]);
    with_body(put, &reference("QueueSettings"))
}

fn patch() -> Json {
    let answer = tagged_json_of("ChangedQueue", "It is like that from now on.");
    let about = "What is not said stays. Whether it is ordered, how many shards it has, and where deduplication ids count, never changes.";
    let answers = vec![("200", answer)];
    let mut patch = operation("patch_queue", "Change a queue", about, answers, &["409", "412"]);
    patch["parameters"] = json!([parameters::reference("If-Match")]);
    let mut patch = with_body(patch, &reference("QueueSettings"));
    as_patch(&mut patch);
    patch
}

/// The body may be a merge patch, too.
pub(super) fn as_patch(patch: &mut Json) {
    let content = &mut patch["requestBody"]["content"];
    content["application/merge-patch+json"] = content["application/json"].clone();
}

fn delete() -> Json {
    let about =
        "With all of its messages. One that others send their dead letters to is left as it is (409).";
    let answers = vec![no_content("It is gone.")];
    operation("delete_queue", "Delete a queue", about, answers, &["409"])
}

fn send() -> Json {
    let answer = json_of("SentMessages", "What became of each message.");
    let about = "In this order. What is wrong with one message is said of that one, as `messages[1].body`, and the others \
                 are sent. Each that has an `id` is durable.";
    let send = operation(
        "send_messages",
        "Send messages",
        about,
        vec![("200", answer)],
        &[],
    );
    with_body(send, &reference("OutgoingMessages"))
}

fn receive() -> Json {
    let answer = json_of(
        "ReceivedMessages",
        "The messages; none, if there was none in this time.",
    );
    let about = "The oldest first; each is the receiver's until its visibility is over, and is received again then, if \
                 it was not acknowledged. Whoever waits is answered as soon as there is a message, and without any when the \
                 server stops, or the token is revoked, changed or over. If the client goes away before, messages are given \
                 back.";
    let receive = operation(
        "receive_messages",
        "Receive messages",
        about,
        vec![("200", answer)],
        &[],
    );
    with_body(receive, &reference("ReceiveRequest"))
}

/// An operation on received messages.
fn settle(id: &str, summary: &str, about: &str, body: &str) -> Json {
    let answer = json_of("SettledMessages", "Whether it was done, for each receipt.");
    let settle = operation(id, summary, about, vec![("200", answer)], &[]);
    with_body(settle, &reference(body))
}

fn ack() -> Json {
    let about = "An acknowledged message is never received again.";
    settle("ack_messages", "Acknowledge messages", about, "AckRequest")
}

fn nack() -> Json {
    let about = "The messages are received again. A message that was received as often as the queue allows becomes a dead letter, with \
                 `error` as an attribute.";
    settle("nack_messages", "Give messages back", about, "NackRequest")
}

fn extend() -> Json {
    let about = "A receiver that needs more time asks for it before the messages become visible to others.";
    settle("extend_messages", "Keep messages", about, "ExtendRequest")
}

fn purge() -> Json {
    let answers = vec![no_content("Every message that was there is received no more.")];
    let about = "Every message that is there now goes, whoever has received it.";
    operation("purge_messages", "Empty a queue", about, answers, &[])
}

fn redrive() -> Json {
    let answer = json_of("MovedMessages", "The messages are in the other queue.");
    let about = "Moves messages that nobody has received to another queue, the oldest first: dead letters back to where they \
                 came from, mostly. Whoever does so may send there. Ends after some seconds, and having moved something if there \
                 is anything: until `done` is true, the same request goes on. What one moves that is cut off no other moves \
                 again.";
    let redrive = operation(
        "redrive_messages",
        "Move messages",
        about,
        vec![("200", answer)],
        &["409"],
    );
    with_body(redrive, &reference("RedriveRequest"))
}

fn peek() -> Json {
    let answer = json_of("PeekedMessages", "The messages, by position.");
    let about = "As they stand: nobody receives them by that. The first by position: about the oldest, but that messages with a \
                 delay of more than 15 minutes stand apart, behind others of their time or before.";
    let mut peek = operation(
        "peek_messages",
        "Look at messages",
        about,
        vec![("200", answer)],
        &[],
    );
    let options = description::parameters_of::<PeekOptions>().iter();
    let options = options.map(|(name, option)| parameters::in_query(name, option.clone()));
    peek["parameters"] = options.collect();
    peek
}

fn remove() -> Json {
    let removed = json!({ "removed": { "type": "boolean",
        "description": "Whether it was there, and not on its way to another queue." } });
    let removed = removed.as_object().cloned().unwrap_or_default();
    let answer = json!({
        "description": "It is not there.",
        "content": { "application/json": { "schema": object(removed, &["removed"]) } },
    });
    let about = "Whoever has received it.";
    operation(
        "remove_message",
        "Take a message out",
        about,
        vec![("200", answer)],
        &[],
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use recto::queues::{
        MAX_ATTEMPTS, MAX_BATCH, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_IN_FLIGHT, MAX_MARGIN_SECONDS,
        MAX_OPTION_TABLES, MAX_RETENTION_SECONDS, MAX_SHARDS, MAX_SLICE_SECONDS, MAX_VISIBILITY_SECONDS,
        MAX_WAIT, MIN_RETENTION_SECONDS, MIN_SLICE_SECONDS, MIN_TABLES,
    };

    use super::*;

    /// The crate of the requests does not know the engine's limits.
    #[test]
    fn described_limits_are_those_of_the_engine() {
        let tables = u64::from(MAX_OPTION_TABLES);
        for (schema, field, limit, number) in [
            (
                "QueueSettings",
                "visibility_seconds",
                "maximum",
                MAX_VISIBILITY_SECONDS.into(),
            ),
            (
                "QueueSettings",
                "delay_seconds",
                "maximum",
                MAX_DELAY_SECONDS.into(),
            ),
            (
                "QueueSettings",
                "retention_seconds",
                "minimum",
                MIN_RETENTION_SECONDS.into(),
            ),
            (
                "QueueSettings",
                "retention_seconds",
                "maximum",
                MAX_RETENTION_SECONDS.into(),
            ),
            ("QueueSettings", "shards", "maximum", MAX_SHARDS.into()),
            ("QueueSettings", "body_bytes", "maximum", MAX_BODY_BYTES.into()),
            ("QueueSettings", "max_in_flight", "maximum", MAX_IN_FLIGHT.into()),
            ("DeadLetterSettings", "attempts", "maximum", MAX_ATTEMPTS.into()),
            ("OutgoingMessages", "messages", "maxItems", MAX_BATCH as u64),
            (
                "OutgoingMessage",
                "delay_seconds",
                "maximum",
                MAX_DELAY_SECONDS.into(),
            ),
            ("ReceiveRequest", "max_messages", "maximum", MAX_BATCH as u64),
            ("ReceiveRequest", "wait_seconds", "maximum", MAX_WAIT.as_secs()),
            (
                "NackRequest",
                "delay_seconds",
                "maximum",
                MAX_DELAY_SECONDS.into(),
            ),
            (
                "ExtendRequest",
                "visibility_seconds",
                "maximum",
                MAX_VISIBILITY_SECONDS.into(),
            ),
            ("PeekOptions", "max_messages", "maximum", MAX_BATCH as u64),
            (
                "PeekOptions",
                "max_messages",
                "default",
                crate::api::DEFAULT_PEEKED.into(),
            ),
            (
                "QueueRingSettings",
                "slice_seconds",
                "minimum",
                MIN_SLICE_SECONDS.into(),
            ),
            (
                "QueueRingSettings",
                "slice_seconds",
                "maximum",
                MAX_SLICE_SECONDS.into(),
            ),
            (
                "QueueRingSettings",
                "margin_seconds",
                "maximum",
                MAX_MARGIN_SECONDS.into(),
            ),
            ("QueueRingSettings", "tables", "minimum", MIN_TABLES.into()),
            ("QueueRingSettings", "tables", "maximum", tables),
            (
                "QueueRingSettings",
                "units",
                "maximum",
                tables - u64::from(MIN_TABLES),
            ),
        ] {
            let schemas = description::schemas([schema]);
            let described = schemas[schema]["properties"][field][limit].as_u64();
            assert_eq!(described, Some(number), "{schema}.{field}: {limit}");
        }
        let length = description::schemas(["DeadLetterSettings"])["DeadLetterSettings"]["properties"]["queue"]["maxLength"]
            .as_u64()
            .unwrap();
        assert_eq!(length, MAX_QUEUE_NAME_LENGTH as u64);
    }
}

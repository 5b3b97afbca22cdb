//! What can be asked of queues.

use recto::queues::{
    MAX_ATTEMPTS, MAX_BATCH, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_IN_FLIGHT, MAX_QUEUE_NAME_LENGTH,
    MAX_RETENTION_SECONDS, MAX_SHARDS, MAX_VISIBILITY_SECONDS, MAX_WAIT, MIN_RETENTION_SECONDS,
};
use recto_api::description;
use recto_api::queues::PeekOptions;
use serde_json::{Map, Value as Json, json};

use super::responses::{json_of, of_operation, tagged_json_of};
use super::schemas::reference;
use super::types::{nullable, object};
use super::{parameters, patterns, queue_ring as ring, units};
use crate::access::{Access, Operation};
use crate::api::{DEFAULT_PEEKED, MAX_MESSAGES};

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

/// The bodies of these.
pub(super) fn schemas(access: &Access) -> Map<String, Json> {
    let all = [
        ("QueueSettings", settings()),
        ("Queue", queue()),
        ("ChangedQueue", changed_queue()),
        ("Queues", list_of("queues", "Queue")),
        ("Units", list_of("units", "Queue")),
        ("OutgoingMessages", outgoing()),
        ("SentMessages", sent()),
        (
            "ReceivedMessages",
            of([("messages", array(received()))], &["messages"]),
        ),
        (
            "PeekedMessages",
            of([("messages", array(peeked()))], &["messages"]),
        ),
        ("SettledMessages", settled()),
    ];
    let of_ring = access
        .allows_every_queue(Operation::Read)
        .then(ring::schemas)
        .into_iter()
        .flatten();
    all.into_iter()
        .chain(of_ring)
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
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

/// The name of a queue or of a work unit, which is `QUEUE/UNIT`.
pub(super) fn full_name() -> Json {
    let most = 2 * MAX_QUEUE_NAME_LENGTH + 1;
    let pattern = "^[A-Za-z0-9_-]+([.]fifo)?(/[A-Za-z0-9_-]+([.]fifo)?)?$";
    json!({ "type": "string", "pattern": pattern, "minLength": 1, "maxLength": most })
}

pub(super) fn text(about: &str) -> Json {
    json!({ "type": "string", "description": about })
}

fn truth(about: &str) -> Json {
    json!({ "type": "boolean", "description": about })
}

pub(super) fn count(about: &str) -> Json {
    json!({ "type": "integer", "minimum": 0, "description": about })
}

pub(super) fn whole(least: u32, most: u32, about: &str) -> Json {
    json!({ "type": "integer", "minimum": least, "maximum": most, "description": about })
}

/// What is not said, or null, stays, or is the default.
fn settings() -> Json {
    let dead_letters = of(
        [
            ("queue", name()),
            (
                "attempts",
                whole(1, MAX_ATTEMPTS.into(), "How often a message is received before."),
            ),
        ],
        &["queue", "attempts"],
    );
    let mut dead_letters = nullable(dead_letters);
    dead_letters["description"] = "Where messages go that were received too often; null: nowhere.".into();
    let visibility = "For how long a message is its receiver's, if that says nothing else.";
    let delay = "How much later than sent a message is due, if its sender says nothing else. In an ordered queue 900 at most.";
    let retention = "For how long a message is kept that is not done with; null: until it is.";
    let ordered = "Whether messages have groups, each of which is received in order. Its name may end in `.fifo`; that \
                   of a queue which is not ordered may not. Never changes.";
    let shards = "Of how many parts it is, so that as many servers write to it side by side. In an embedded store of one, whatever \
                  is asked for. Never changes.";
    let deduplication =
        "Where two messages with one deduplication id are found to be the same. Never changes.";
    let bytes = "Bytes of a message's body and attributes at most.";
    let in_flight = "Maximum number of messages in flight at once. A receive beyond it is answered with 429 and the problem \
                     `too-many-in-flight`.";
    of(
        [
            (
                "visibility_seconds",
                nullable(whole(1, MAX_VISIBILITY_SECONDS, visibility)),
            ),
            ("delay_seconds", nullable(whole(0, MAX_DELAY_SECONDS, delay))),
            (
                "retention_seconds",
                nullable(whole(MIN_RETENTION_SECONDS, MAX_RETENTION_SECONDS, retention)),
            ),
            ("dead_letters", dead_letters),
            (
                "ordered",
                nullable(json!({ "type": "boolean", "description": ordered })),
            ),
            ("shards", nullable(whole(1, MAX_SHARDS.into(), shards))),
            (
                "deduplication",
                nullable(json!({ "enum": ["queue", "group"], "description": deduplication })),
            ),
            ("body_bytes", nullable(whole(1, MAX_BODY_BYTES, bytes))),
            ("max_in_flight", nullable(whole(1, MAX_IN_FLIGHT, in_flight))),
        ],
        &[],
    )
}

fn queue() -> Json {
    let totals = [
        ("sent", count("Messages that were sent.")),
        (
            "received",
            count("Messages that were handed out, one as often as it was."),
        ),
        ("acked", count("Messages that were acknowledged.")),
        ("given_back", count("Messages that their receivers gave back.")),
        ("dead_lettered", count("Messages that went to the dead letters.")),
        (
            "expired",
            count("Messages that were older than the queue keeps them, and are gone."),
        ),
        (
            "bodies_lost",
            count(
                "Messages whose bodies were missing or damaged: they went to another queue without, or are gone.",
            ),
        ),
    ];
    let names = totals.each_ref().map(|(name, _)| *name);
    let mut totals = of(totals, &names);
    totals["description"] = "What this server did since it opened the store.".into();
    let age = "Seconds since the oldest message is due; null if no message is due.";
    let exact = "Whether these numbers are exact: of a very long queue, some that are done with are counted among \
                 `messages`.";
    let properties = [
        ("name", full_name()),
        (
            "version",
            count("The ETag: another number for each change of its options."),
        ),
        ("options", reference("QueueSettings")),
        ("messages", count("Messages that are not done with.")),
        (
            "in_flight",
            count("Of those, the ones that somebody has received."),
        ),
        ("delayed", count("Of those, the ones that are not due yet.")),
        (
            "age_seconds",
            nullable(json!({ "type": "number", "minimum": 0, "description": age })),
        ),
        ("exact", json!({ "type": "boolean", "description": exact })),
        (
            "receivers_waiting",
            count("How many wait for a message at this server."),
        ),
        ("totals", totals),
        (
            "damage",
            text("Why the numbers are not known, if what is stored of it is damaged."),
        ),
    ];
    let names = properties.each_ref().map(|(name, _)| *name);
    let always: Vec<_> = names.into_iter().filter(|name| *name != "damage").collect();
    of(properties, &always)
}

/// A queue after a change: of one that the token may not read, its name and its version.
fn changed_queue() -> Json {
    let mut changed = queue();
    changed["required"] = json!(["name", "version"]);
    changed["description"] =
        "The queue after the change. A token that may not read it gets `name` and `version` only.".into();
    changed
}

/// The two ways to say a body, of which a message has one, and what is said of each.
fn bodies(of_text: &str, of_base64: &str) -> [(&'static str, Json); 2] {
    let base64 = json!({ "type": "string", "contentEncoding": "base64", "pattern": patterns::BASE64,
        "description": of_base64 });
    [("body", text(of_text)), ("body_base64", base64)]
}

/// The body of a message that was sent.
fn body() -> [(&'static str, Json); 2] {
    bodies(
        "The body, if it is UTF-8, whichever way it was sent.",
        "The body in base64, if it is not UTF-8.",
    )
}

fn attributes() -> Json {
    let about = "Names and values.";
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": about })
}

fn outgoing() -> Json {
    let [body, base64] = bodies(
        "The body as text. A message has this or `body_base64`.",
        "The body in base64: any bytes. If they are UTF-8 they come back as `body`.",
    );
    let delay = "For how long it is not received; else as the queue says. In an ordered queue no message has a delay of its own.";
    let id = "Within five minutes no other message of this id is sent.";
    let message = of(
        [
            body,
            base64,
            ("attributes", attributes()),
            ("delay_seconds", nullable(whole(0, MAX_DELAY_SECONDS, delay))),
            ("group", nullable(text("Its group, in an ordered queue."))),
            ("deduplication_id", nullable(text(id))),
        ],
        &[],
    );
    let messages = json!({ "type": "array", "items": message, "maxItems": MAX_BATCH });
    of([("messages", messages)], &["messages"])
}

fn id() -> Json {
    json!({ "type": "string", "pattern": "^[0-9a-f]{32}$", "description": "What the message is known by." })
}

fn sent() -> Json {
    let duplicate =
        "Whether it was sent before, within five minutes, under its deduplication id, and not again.";
    let sent = of(
        [
            ("id", id()),
            (
                "duplicate",
                json!({ "type": "boolean", "description": duplicate }),
            ),
        ],
        &["id", "duplicate"],
    );
    let refused = of([("problem", reference("Problem"))], &["problem"]);
    let results = json!({ "type": "array", "items": { "anyOf": [sent, refused] },
        "description": "What became of each message, in their order." });
    of([("results", results)], &["results"])
}

fn time(about: &str) -> Json {
    json!({ "type": "string", "format": "date-time", "description": about })
}

fn received() -> Json {
    let [body, base64] = body();
    of(
        [
            ("id", id()),
            ("receipt", text("What shows that it was received.")),
            body,
            base64,
            ("attributes", attributes()),
            ("group", text("As it was sent.")),
            ("deduplication_id", text("As it was sent.")),
            ("attempts", count("How often it was received, this time too.")),
            ("sent_at", time("When it was sent, by its sender's clock.")),
            (
                "first_received_at",
                time("When it was received for the first time."),
            ),
        ],
        &[
            "id",
            "receipt",
            "attributes",
            "attempts",
            "sent_at",
            "first_received_at",
        ],
    )
}

fn peeked() -> Json {
    let [body, base64] = body();
    let states = json!({ "enum": ["ready", "delayed", "in_flight", "leaving"],
        "description": "`leaving`: on its way to another queue." });
    of(
        [
            ("id", id()),
            ("position", text("Where it stands, by which it is removed.")),
            ("state", states),
            ("until", time("Until when it is delayed or in flight.")),
            ("attempts", count("How often it was received.")),
            ("sent_at", time("When it was sent, by its sender's clock.")),
            body,
            base64,
            ("attributes", attributes()),
            ("group", text("As it was sent.")),
            ("deduplication_id", text("As it was sent.")),
            ("damage", text("Why what it says cannot be read, if so.")),
        ],
        &["id", "position", "state", "attempts", "sent_at", "attributes"],
    )
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
    let wait = u32::try_from(MAX_WAIT.as_secs()).unwrap_or(u32::MAX);
    let most = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    let body = of(
        [
            (
                MAX_MESSAGES,
                nullable(whole(1, most, "Messages at most; else 1.")),
            ),
            (
                "visibility_seconds",
                nullable(whole(
                    1,
                    MAX_VISIBILITY_SECONDS,
                    "For how long they are the receiver's.",
                )),
            ),
            (
                "wait_seconds",
                nullable(whole(0, wait, "How long to wait if there is none; else 0.")),
            ),
        ],
        &[],
    );
    let receive = operation(
        "receive_messages",
        "Receive messages",
        about,
        vec![("200", answer)],
        &[],
    );
    with_body(receive, &body)
}

/// What is done by receipts, with these members beside them.
fn settle(id: &str, summary: &str, about: &str, more: Vec<(&str, Json)>, required: &[&str]) -> Json {
    // A text that is no receipt fails alone, however long it is.
    let receipts = json!({ "type": "array", "items": { "type": "string" }, "maxItems": MAX_BATCH });
    let members = [("receipts", receipts)].into_iter().chain(more);
    let members = members.map(|(name, schema)| (name.to_owned(), schema));
    let body = object(members.collect(), &[&["receipts"], required].concat());
    let answer = json_of("SettledMessages", "Of each receipt, whether it was so.");
    with_body(operation(id, summary, about, vec![("200", answer)], &[]), &body)
}

fn ack() -> Json {
    let about = "Durably: what is acknowledged is never received again.";
    settle("ack_messages", "Be done with messages", about, Vec::new(), &[])
}

fn nack() -> Json {
    let about = "They are received again. One that was received as often as it may be goes to the dead letters, with the \
                 `error` as an attribute.";
    let more = vec![
        (
            "delay_seconds",
            whole(
                0,
                MAX_DELAY_SECONDS,
                "After how long they are received again; else at once.",
            ),
        ),
        ("error", text("Why; else for no reason.")),
        (
            "counted",
            json!({
                "type": "boolean",
                "description": "False: nobody worked on them. They are there at once, whatever else is said, and that \
                                they were received is not counted; else true.",
            }),
        ),
    ];
    settle("nack_messages", "Give messages back", about, more, &[])
}

fn extend() -> Json {
    let about = "Whoever needs longer says so before the time is over.";
    let seconds = whole(1, MAX_VISIBILITY_SECONDS, "For how long, from now.");
    let more = vec![("visibility_seconds", seconds)];
    settle(
        "extend_messages",
        "Keep messages",
        about,
        more,
        &["visibility_seconds"],
    )
}

fn purge() -> Json {
    let answers = vec![no_content("Every message that was there is received no more.")];
    let about = "Every message that is there now goes, whoever has received it.";
    operation("purge_messages", "Empty a queue", about, answers, &[])
}

fn redrive() -> Json {
    let moved = json!({
        "moved": count("How many were moved."),
        "done": truth("Whether that is all that was to be moved; else the same request again goes on."),
    });
    let moved = moved.as_object().cloned().unwrap_or_default();
    let answer = json!({
        "description": "They are there.",
        "content": { "application/json": { "schema": object(moved, &["moved", "done"]) } },
    });
    let about = "Moves messages that nobody has received to another queue, the oldest first: dead letters back to where they \
                 came from, mostly. Whoever does so may send there. Ends after some seconds, and having moved something if there \
                 is anything: until `done` is true, the same request goes on. What one moves that is cut off no other moves \
                 again.";
    let to = "The other queue; else the one that sends its dead letters here, if only one does.";
    let mut to_queue = nullable(full_name());
    to_queue["description"] = to.into();
    let body = of(
        [
            ("to", to_queue),
            (MAX_MESSAGES, nullable(count("Messages at most; else all."))),
        ],
        &[],
    );
    let redrive = operation(
        "redrive_messages",
        "Move messages",
        about,
        vec![("200", answer)],
        &["409"],
    );
    with_body(redrive, &body)
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
    let mut most = description::parameters_of::<PeekOptions>()[MAX_MESSAGES].clone();
    most["minimum"] = 1.into();
    most["maximum"] = MAX_BATCH.into();
    most["default"] = DEFAULT_PEEKED.into();
    peek["parameters"] = json!([parameters::in_query(MAX_MESSAGES, most)]);
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

//! Operations on the messages of a queue or of a work unit (a temporary queue).

use super::{Access, Body, Method, Operation, Parameters, Reply};
use crate::rights::Right::{Manage, Read, Receive, Send};

const SETTLED: Reply = Reply::json(200, "SettledMessages", "Outcome of each receipt.");

/// Returns the operations on messages whose paths begin with `$base`: a queue or a work unit. Each
/// id ends with `$id` and each summary with `$summary`, so that both kinds have different names.
macro_rules! operations {
    ($base:literal, $id:literal, $summary:literal) => {
        [
            Operation {
                id: concat!("peek_messages", $id),
                path: concat!($base, "/messages"),
                access: Access::Queue(Read),
                summary: concat!("Peek at messages", $summary),
                description: "Returns messages without receiving them. They are in the order of their \
                              positions, which is roughly oldest first. Messages with a delay of more than \
                              15 minutes are after other messages.",
                parameters: &[Parameters::all("PeekOptions")],
                replies: &[Reply::json(200, "PeekedMessages", "Messages, by position.")],
                problems: &[501],
                ..Operation::READ
            },
            Operation {
                id: concat!("remove_message", $id),
                method: Method::Delete,
                path: concat!($base, "/messages/{position}"),
                access: Access::Queue(Manage),
                summary: concat!("Remove a message", $summary),
                description: "Removes the message, even if it is in flight.",
                replies: &[Reply::json(200, "RemovedMessage", "The message is not in the queue now.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("send_messages", $id),
                path: concat!($base, "/messages:send"),
                access: Access::Queue(Send),
                summary: concat!("Send messages", $summary),
                description: "Sends the messages in this order. The result of an invalid message is a \
                              problem that names its member, such as `messages[1].body`; the other messages \
                              are sent. A message with an `id` in its result is durable.",
                body: Body::Json("OutgoingMessages"),
                replies: &[Reply::json(200, "SentMessages", "Outcome of each message.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("receive_messages", $id),
                path: concat!($base, "/messages:receive"),
                access: Access::Queue(Receive),
                summary: concat!("Receive messages", $summary),
                description: "Returns the oldest messages. They are invisible to other receivers for the \
                              visibility timeout. A message that is not acknowledged in this time can be \
                              received again. A request that waits gets its reply as soon as there is a \
                              message. It gets an empty reply if the server stops, or if the token changes, \
                              expires or is revoked. If the client disconnects before the reply, the \
                              messages are given back.",
                body: Body::Json("ReceiveRequest"),
                replies: &[Reply::json(
                    200,
                    "ReceivedMessages",
                    "Messages; empty if no message came in time.",
                )],
                waits: true,
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("ack_messages", $id),
                path: concat!($base, "/messages:ack"),
                access: Access::Queue(Receive),
                summary: concat!("Acknowledge messages", $summary),
                description: "An acknowledged message is never delivered again.",
                body: Body::Json("AckRequest"),
                replies: &[SETTLED],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("nack_messages", $id),
                path: concat!($base, "/messages:nack"),
                access: Access::Queue(Receive),
                summary: concat!("Give messages back", $summary),
                description: "The messages can be received again. A message that was received as often as the queue allows becomes a dead \
                              letter, with `error` as an attribute.",
                body: Body::Json("NackRequest"),
                replies: &[SETTLED],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("extend_messages", $id),
                path: concat!($base, "/messages:extend"),
                access: Access::Queue(Receive),
                summary: concat!("Extend the visibility timeout of messages", $summary),
                description: "A receiver that needs more time sends this request before the visibility \
                              timeout ends.",
                body: Body::Json("ExtendRequest"),
                replies: &[SETTLED],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("purge_messages", $id),
                path: concat!($base, "/messages:purge"),
                access: Access::Queue(Manage),
                summary: concat!("Remove all messages", $summary),
                description: "Removes every message that is in the queue now, also messages in flight.",
                replies: &[Reply::empty(204, "No message that was in the queue can be received.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("redrive_messages", $id),
                path: concat!($base, "/messages:redrive"),
                access: Access::Queue(Manage),
                summary: concat!("Move messages to another queue", $summary),
                description: "Moves messages that are not in flight, the oldest first. Its usual purpose is \
                              to move dead letters back to their queue. The token needs the right to send to \
                              the other queue. A request ends after some seconds, and moves at least one \
                              message if there is any. Send the same request again until `done` is true. \
                              Each message is moved only once, even if a request is interrupted.",
                body: Body::Json("RedriveRequest"),
                replies: &[Reply::json(200, "MovedMessages", "The messages are in the other queue.")],
                problems: &[409, 501],
                ..Operation::CHANGE
            },
        ]
    };
}

pub(super) const OF_QUEUE: [Operation; 9] = operations!("/v1/queues/{queue}", "", "");
pub(super) const OF_UNIT: [Operation; 9] =
    operations!("/v1/queues/{queue}/units/{unit}", "_of_unit", ", of a work unit");

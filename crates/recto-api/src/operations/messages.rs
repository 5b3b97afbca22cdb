//! Operations on the messages of a queue or of a work unit.

use super::{Access, Body, Method, Operation, Parameters, Reply};
use crate::rights::Right::{Manage, Read, Receive, Send};

const SETTLED: Reply = Reply::json(200, "SettledMessages", "Outcome of each receipt.");

/// Returns the operations on the messages below a path. The endings are appended to ids and summaries.
macro_rules! operations {
    ($base:literal, $id:literal, $summary:literal) => {
        [
            Operation {
                id: concat!("peek_messages", $id),
                path: concat!($base, "/messages"),
                access: Access::Queue(Read),
                summary: concat!("Look at messages", $summary),
                description: "Receives none of them. They are in the order of their positions, which is roughly oldest first; messages with a \
                              delay of more than 15 minutes are behind others.",
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
                description: "Removes the message, even if somebody has received it.",
                replies: &[Reply::json(200, "RemovedMessage", "The message is not in the queue.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("send_messages", $id),
                path: concat!($base, "/messages:send"),
                access: Access::Queue(Send),
                summary: concat!("Send messages", $summary),
                description: "Sends the messages in this order. A message that is wrong gets a problem that names its member, such as \
                              `messages[1].body`, and the others are sent. Each message that got an `id` is durable.",
                body: Body::Json("OutgoingMessages"),
                replies: &[Reply::json(200, "SentMessages", "What became of each message.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("receive_messages", $id),
                path: concat!($base, "/messages:receive"),
                access: Access::Queue(Receive),
                summary: concat!("Receive messages", $summary),
                description: "Returns the oldest messages. They are invisible to others for the visibility time, and can be received again \
                              after it if nobody acknowledged them. A request that waits gets its reply as soon as there is a message, \
                              and an empty one when the server stops or the token changes, expires or is revoked. If the client \
                              disconnects before, the messages are given back.",
                body: Body::Json("ReceiveRequest"),
                replies: &[Reply::json(
                    200,
                    "ReceivedMessages",
                    "Messages; none, if there was none in this time.",
                )],
                waits: true,
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("ack_messages", $id),
                path: concat!($base, "/messages:ack"),
                access: Access::Queue(Receive),
                summary: concat!("Acknowledge messages", $summary),
                description: "A message that is acknowledged is never received again.",
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
                summary: concat!("Keep messages for longer", $summary),
                description: "A receiver that needs more time asks for it before others can receive the messages.",
                body: Body::Json("ExtendRequest"),
                replies: &[SETTLED],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("purge_messages", $id),
                path: concat!($base, "/messages:purge"),
                access: Access::Queue(Manage),
                summary: concat!("Remove all messages", $summary),
                description: "Removes every message that is there now, also those that somebody has received.",
                replies: &[Reply::empty(204, "No message that was there can be received.")],
                ..Operation::CHANGE
            },
            Operation {
                id: concat!("redrive_messages", $id),
                path: concat!($base, "/messages:redrive"),
                access: Access::Queue(Manage),
                summary: concat!("Move messages to another queue", $summary),
                description: "Moves messages that nobody has received, the oldest first: most often dead letters, back to where they came from. \
                              The token needs the right to send to the other queue. A request ends after some seconds, and moves \
                              something if there is anything. Until `done` is true, the same request continues. A message that a request \
                              moved is not moved again, even if the request is cut off.",
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

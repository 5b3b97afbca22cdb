//! Operations on queues and on work units, which are temporary queues.

use super::{Access, Body, Condition, Method, Operation, Reply, Requires};
use crate::rights::Right::{Manage, Read};

const ALWAYS: Requires = Requires::Nothing;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        id: "list_queues",
        path: "/v1/queues",
        access: Access::Queue(Read),
        summary: "List the queues",
        description: "Returns the options of each queue, and the numbers of its messages.",
        replies: &[Reply::json(
            200,
            "Queues",
            "Queues that the token may read, by name.",
        )],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "get_queue",
        path: "/v1/queues/{queue}",
        access: Access::Queue(Read),
        summary: "Get a queue",
        description: "Returns the options of the queue, and the numbers of its messages.",
        replies: &[Reply::tagged(
            200,
            "Queue",
            "Queue. The ETag is the version of its options.",
        )],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "put_queue",
        method: Method::Put,
        path: "/v1/queues/{queue}",
        access: Access::Queue(Manage),
        summary: "Create a queue",
        description: "If the queue exists with other options, the request is rejected with 409 and changes nothing. A token that names a \
                      queue for dead letters must be allowed to send to it.",
        conditions: &[Condition::IfAbsent(ALWAYS)],
        body: Body::Json("QueueSettings"),
        replies: &[
            Reply::tagged(200, "ChangedQueue", "The queue existed with these options."),
            Reply::tagged(201, "ChangedQueue", "The queue is new."),
        ],
        problems: &[409, 412, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "patch_queue",
        method: Method::Patch,
        path: "/v1/queues/{queue}",
        access: Access::Queue(Manage),
        summary: "Change a queue",
        description: "Options that the body does not have do not change. `ordered`, `shards` and \
                      `deduplication` never change. A token that names a queue for dead letters must be \
                      allowed to send to it.",
        conditions: &[Condition::IfMatch(ALWAYS)],
        body: Body::Patch("QueueSettings"),
        replies: &[Reply::tagged(
            200,
            "ChangedQueue",
            "The queue has these options now.",
        )],
        problems: &[409, 412, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "delete_queue",
        method: Method::Delete,
        path: "/v1/queues/{queue}",
        access: Access::Queue(Manage),
        summary: "Delete a queue",
        description: "Deletes the queue and all of its messages. Recto rejects the request with 409 if \
                      another queue sends dead letters to this queue.",
        replies: &[Reply::empty(204, "The queue is deleted.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "list_units",
        path: "/v1/queues/{queue}/units",
        access: Access::Queue(Read),
        summary: "List the work units of a queue",
        description: "A work unit is a temporary queue with the options of its queue. Ending the unit \
                      removes all its remaining messages at once.",
        replies: &[Reply::json(200, "Units", "Work units that have begun, by name.")],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "get_unit",
        path: "/v1/queues/{queue}/units/{unit}",
        access: Access::Queue(Read),
        summary: "Get a work unit",
        description: "Returns the numbers of messages of the work unit.",
        replies: &[Reply::tagged(
            200,
            "Queue",
            "Work unit, with the options of its queue.",
        )],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "begin_unit",
        path: "/v1/queues/{queue}/units/{unit}:begin",
        access: Access::Queue(Manage),
        summary: "Begin a work unit",
        description: "If the work unit has begun, nothing changes. Recto rejects the request (409, `full`) \
                      if the maximum number of work units have begun (`units` of the queue tables), or if no \
                      table is free.",
        replies: &[Reply::tagged(200, "ChangedQueue", "The work unit has begun.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "end_unit",
        path: "/v1/queues/{queue}/units/{unit}:end",
        access: Access::Queue(Manage),
        summary: "End a work unit",
        description: "Deletes the remaining messages of the work unit. Another work unit can then have the \
                      same name.",
        replies: &[Reply::empty(204, "The work unit has ended.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "get_queue_tables",
        path: "/v1/queue-tables",
        access: Access::EveryQueue(Read),
        summary: "Get the tables of message bodies",
        description: "On Cassandra, the bodies of messages are in tables that Recto fills in turn. Each \
                      table gets bodies for the rotation interval, and is later truncated as a whole. The \
                      token needs the right to read every queue.",
        replies: &[Reply::json(200, "QueueTables", "State of the tables.")],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "patch_queue_tables",
        method: Method::Patch,
        path: "/v1/queue-tables",
        access: Access::EveryQueue(Manage),
        summary: "Change the options of the tables of message bodies",
        description: "Options that the body does not have do not change. The token needs the right to manage \
                      every queue.",
        body: Body::Patch("QueueTableSettings"),
        replies: &[Reply::json(
            200,
            "QueueTables",
            "All queues use these options now.",
        )],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
];

//! Operations on queues and work units.

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
        description: "Options that the body leaves out stay as they are. `ordered`, `shards` and `deduplication` never change. A token \
                      that names a queue for dead letters must be allowed to send to it.",
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
        description: "Deletes the queue and all of its messages. A queue to which others send dead letters stays (409).",
        replies: &[Reply::empty(204, "The queue is deleted.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "list_units",
        path: "/v1/queues/{queue}/units",
        access: Access::Queue(Read),
        summary: "List the work units of a queue",
        description: "A work unit is a part of a queue's work that ends all at once, with whatever is left of it. It has the options of \
                      its queue.",
        replies: &[Reply::json(200, "Units", "Work units that have begun, by name.")],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "get_unit",
        path: "/v1/queues/{queue}/units/{unit}",
        access: Access::Queue(Read),
        summary: "Get a work unit",
        description: "Returns the numbers of its messages.",
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
        description: "A work unit that has begun stays as it is. If as many have begun as `units` of the queue tables allow, or no table is \
                      free, the request is rejected (409, `full`).",
        replies: &[Reply::tagged(200, "ChangedQueue", "The work unit has begun.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "end_unit",
        path: "/v1/queues/{queue}/units/{unit}:end",
        access: Access::Queue(Manage),
        summary: "End a work unit",
        description: "Deletes the messages that are left of it. Another work unit may have its name then.",
        replies: &[Reply::empty(204, "The work unit has ended.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "get_queue_tables",
        path: "/v1/queue-tables",
        access: Access::EveryQueue(Read),
        summary: "Get the tables of message bodies",
        description: "On Cassandra, bodies of messages are in tables that take turns: each is for a slice of time, and is emptied whole. A \
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
        description: "Options that the body leaves out stay as they are. A token needs the right to manage every queue.",
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

//! Names of the rules of the protocol. For each rule, a model leaves it out and finds the fault that the rule
//! prevents.

/// Rule of the protocol. A release keeps all rules. A model leaves one out and finds the fault that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A conditional write of unknown outcome is sent again unchanged, and not assumed to be applied.
    UnknownIsSentAgain,
    /// A response that needs no write is based on a read that began after the command arrived.
    AnsweredOnFreshCopy,
    /// An append that was sent before counts as successful if and only if its chunk is in the log.
    SettledByChunk,
    /// The outcome of an append that was sent before is unknown if the versioned cell now belongs to another
    /// segment.
    GoneIsUnknown,
    /// Nothing is appended to a sealed log.
    SealedIsFinal,
    /// Bodies are written before the log refers to them.
    BodiesFirst,
    /// A process that appends knows the deduplication ids of the earlier segments.
    EarlierLogsOfWindow,
    /// The versioned cell of a released segment stays unused for the deduplication window before another
    /// segment gets it.
    RegistersRest,
    /// A versioned cell is set up for a new segment only if its version is the version that the process read.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    SetUpByVersion,
    /// A segment is removed from its shard's manifest only when its log is sealed.
    ReleaseOnlySealed,
    /// A segment is removed from its shard's manifest only when all its messages are resolved.
    ReleaseOnlyResolved,
    /// A claim takes new messages and failed messages alternately.
    NewWithFailed,
    /// A claim takes failed messages in the order in which they were due.
    FailedByDue,
    /// A receipt is valid only for the newest claim of its message.
    ReceiptFencedByClaim,
    /// No receipt is valid for a message that is being moved to another segment.
    LeavingIsFenced,
    /// A purge does not resolve a message that is being moved, because the message would still arrive at its
    /// target.
    PurgeKeepsWhatLeaves,
    /// A moved message is marked in its source segment before it is appended to the target.
    MarkedFirst,
    /// A process changes the target in the mark of a moving message only if the mark still has the expected
    /// target.
    RedirectedFromMark,
    /// A moving message gets another target only when the first target can no longer take it and did not take
    /// it.
    RedirectedFromSealed,
    /// Before a segment is released, each message that was moved into it is resolved in its source segment.
    OriginsSettledFirst,
    /// A process that continues a move uses the target shard in the mark, even if it would choose another
    /// target.
    AskedWhereMarked,
    /// Messages of a group wait for the group's messages in earlier live segments. A segment whose log is not
    /// sealed blocks all groups, because it may contain unknown messages.
    EarlierLogsSealed,
    /// A lease counts from the time at which the claim was sent.
    LeaseFromSending,
    /// A worker gets a message only while its lease holds.
    HandedOutInLease,
    /// A process that did not give a lease adds the maximum clock difference before it regards the lease as
    /// ended.
    MarginForClocks,
    /// A process that knows an older ring than the shard's manifest neither opens a segment nor changes the
    /// body table of a segment.
    RingNoOlderThanFence,
    /// A process that knows an older epoch of a slot than the shard's manifest opens no segment: its queue
    /// was deleted.
    TenureNoOlderThanHead,
    /// The manifests of a deleted queue's shards record the deletion before another queue gets the slot.
    HeadsClosed,
    /// A process that clears a slot does not change a manifest that knows a newer epoch, because the slot
    /// belongs to the next queue.
    ClearedByTheNewest,
    /// The manifests of a deleted queue's shards have no live segment when another queue gets the slot.
    ClearedWhenEmpty,
    /// Only a fence creates a shard's manifest, with a ring that was read after the queue got its slot.
    /// Earlier fences did not reach the manifest, because it did not exist.
    HeadMadeByFence,
    /// Every manifest records that a body table is closing before the table counts as closed.
    HeadsFenced,
    /// A manifest changes the body table of a segment only after all needed bodies were copied to the new
    /// table.
    CopiedBeforePointing,
    /// A manifest changes the body table of a segment by the ring that was known before the copy of the
    /// bodies, even if a newer ring is known.
    PointedByRingOfCopy,
    /// A body table is emptied only when no manifest refers to it.
    EmptiedUnreferenced,
    /// Facts about one lifetime of a body table (which manifests are fenced, which refer to it) do not apply
    /// to the next lifetime.
    BelievedInItsLife,
    /// A temporary queue counts as ended only if a registry that was read after the ring does not list it. An
    /// earlier registry may not list the queue yet.
    EndedByLaterRegistry,
    /// The request to empty a body table is sent once.
    EmptiedOnce,
    /// A process never empties a body table if another process began to empty it.
    NoTakeOver,
}

/// Set of the enabled rules of this protocol.
pub(crate) type Rules = crate::rules::Rules<Rule>;

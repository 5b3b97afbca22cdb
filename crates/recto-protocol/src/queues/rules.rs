//! Named rules of the protocol of queues. For each rule, a test disables it, and shows the fault
//! that the rule prevents.

/// Rule of the protocol of queues. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A conditional write of unknown outcome is sent again unchanged, and not assumed to be
    /// applied.
    UnknownIsSentAgain,
    /// A response that needs no write is based on a read of the cell that began after the command
    /// arrived.
    AnsweredOnFreshCopy,
    /// A repeated append counts as successful if and only if the id of its bodies is in the log.
    SettledByChunk,
    /// The outcome of a repeated append is unknown if another segment uses the log's cell by now.
    GoneIsUnknown,
    /// No message is appended to a sealed log.
    SealedIsFinal,
    /// Message bodies are written before the log refers to them.
    BodiesFirst,
    /// A process that appends messages knows the deduplication ids of earlier segments (message
    /// batches).
    EarlierLogsOfWindow,
    /// After a segment is released, no other segment gets its versioned cells until the
    /// deduplication window is over.
    RegistersRest,
    /// A versioned cell (changed by compare-and-set) is set up for a new segment only if its
    /// version has not changed since the process read it.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    SetUpByVersion,
    /// A segment (batch of messages) is removed from its shard's manifest only when its log is
    /// sealed.
    ReleaseOnlySealed,
    /// A segment (message batch) is removed from its shard's manifest only when all of its messages
    /// are resolved.
    ReleaseOnlyResolved,
    /// A receiver gets new messages and failed (returned or timed-out) messages alternately.
    NewWithFailed,
    /// A receiver gets failed messages in the order in which they became due.
    FailedByDue,
    /// A receipt is valid only if it belongs to the newest claim of its message.
    ReceiptFencedByClaim,
    /// No receipt is valid for a message that is being moved to another segment (message batch).
    LeavingIsFenced,
    /// A purge does not resolve a message that is being moved, because the message would still
    /// arrive at its target.
    PurgeKeepsWhatLeaves,
    /// Before a moved message is appended to its target, a mark with the target is stored in the
    /// source segment.
    MarkedFirst,
    /// A process that changes the marked target of a moving message does so only if the mark is
    /// still the one that it read.
    RedirectedFromMark,
    /// A moving message gets another target only when the first target did not take the message,
    /// and can no longer take it.
    RedirectedFromSealed,
    /// Before a segment is released, the messages that were moved into it are resolved in their
    /// source segments.
    OriginsSettledFirst,
    /// A process that continues a move uses the target shard of the stored mark, even if it would
    /// choose another one.
    AskedWhereMarked,
    /// A message waits until earlier messages of its group, also in earlier live segments, are
    /// resolved. An earlier segment whose log is not sealed may contain unknown messages, so it
    /// blocks all groups.
    EarlierLogsSealed,
    /// A lease (time for which a claim is valid) counts from the time when the claim was sent.
    LeaseFromSending,
    /// A worker gets a claimed message only while the claim's lease is valid.
    HandedOutInLease,
    /// A lease that another process gave counts as ended only after the maximum clock difference
    /// has passed, too.
    MarginForClocks,
    /// A process whose ring (list of body tables) is older than the shard's manifest neither opens
    /// a segment nor changes a segment's body table.
    RingNoOlderThanFence,
    /// A process whose epoch (use of a slot) is older than the shard's manifest cannot open a
    /// segment, because its queue was deleted.
    TenureNoOlderThanHead,
    /// When a queue is deleted, all of its shard manifests record the deletion before another queue
    /// gets its slot (row of the registry).
    HeadsClosed,
    /// A process that clears a slot (row of the registry) does not change a shard manifest with a
    /// newer epoch, because the slot already belongs to another queue.
    ClearedByTheNewest,
    /// Another queue gets a slot (row of the registry) only when no shard manifest of the slot has
    /// live segments.
    ClearedWhenEmpty,
    /// A shard's manifest is created only by a fence, with a ring (list of body tables) that was
    /// read after the queue got its slot. Earlier fences could not reach the manifest, because it
    /// did not exist.
    HeadMadeByFence,
    /// A table for message bodies counts as closed only after every shard manifest has recorded
    /// that it is closing.
    HeadsFenced,
    /// A shard's manifest changes the table for a segment's message bodies only after all needed
    /// bodies are copied to the new table.
    CopiedBeforePointing,
    /// Bodies are copied from the table that the manifest names after the ring was read. A manifest that was
    /// read earlier may name an earlier lifetime of a table.
    CopiedByLaterHead,
    /// A manifest changes the body table of a segment by the ring that was known before the copy of the
    /// bodies, even if a newer ring is known.
    PointedByRingOfCopy,
    /// A body table is emptied only when no segment in any shard manifest (list of live segments)
    /// uses it.
    EmptiedUnreferenced,
    /// Facts about one lifetime of a body table (from opening to emptying) do not apply to its next
    /// lifetime.
    BelievedInItsLife,
    /// A temporary queue counts as ended only if a registry that was read after the ring does not
    /// list it. An older registry may not list a new queue yet.
    EndedByLaterRegistry,
    /// The request to empty a table for message bodies is sent only once, because a late repetition
    /// could delete newer bodies.
    EmptiedOnce,
    /// If a process has begun to empty a table for message bodies, no other process empties it.
    NoTakeOver,
}

/// Set of the enabled rules of the protocol of queues.
pub(crate) type Rules = crate::rules::Rules<Rule>;

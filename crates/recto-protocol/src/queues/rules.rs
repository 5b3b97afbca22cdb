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
    /// The outcome of an append that was sent before is unknown if another segment has the versioned cell.
    GoneIsUnknown,
    /// Nothing is appended to a sealed log.
    SealedIsFinal,
    /// Bodies are written before the log refers to them.
    BodiesFirst,
    /// A process that appends knows the deduplication ids of the earlier segments.
    EarlierLogsOfWindow,
    /// A versioned cell rests for the deduplication window before another segment gets it.
    RegistersRest,
    /// A versioned cell is set up for a segment only if its version is the one that was read.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    SetUpByVersion,
    /// A segment leaves the list only when it is sealed.
    ReleaseOnlySealed,
    /// A segment leaves the list only when all its messages are resolved.
    ReleaseOnlyResolved,
    /// A claim takes new messages and failed messages in turn.
    NewWithFailed,
    /// A claim takes failed messages in the order in which they were due.
    FailedByDue,
    /// A receipt is valid only for the newest claim of its message.
    ReceiptFencedByClaim,
    /// No receipt is valid for a message that is leaving.
    LeavingIsFenced,
    /// A purge does not resolve a leaving message, because the message would still arrive at its
    /// target.
    PurgeKeepsWhatLeaves,
    /// A moved message is marked in its source segment before it is appended to the target.
    MarkedFirst,
    /// A mark of a leaving message changes only if it still has the expected target.
    RedirectedFromMark,
    /// A message is redirected only when its target no longer takes it and did not take it.
    RedirectedFromSealed,
    /// Before a segment is released, each message that was moved into it is resolved in its source segment.
    OriginsSettledFirst,
    /// A process that continues a move asks the shard in the mark, even if it would choose another target.
    AskedWhereMarked,
    /// Messages of a group wait for those in the earlier live segments, whose logs must be known to the end.
    EarlierLogsSealed,
    /// A lease counts from the time at which the claim was sent.
    LeaseFromSending,
    /// A worker gets a message only while its lease holds.
    HandedOutInLease,
    /// A process that did not give a lease adds the maximum clock difference before it regards the lease as
    /// ended.
    MarginForClocks,
    /// A process whose ring is older than the head's opens no segment and points no segment to a table.
    RingNoOlderThanFence,
    /// A process whose epoch of a slot is older than the head's opens no segment: its queue was deleted.
    TenureNoOlderThanHead,
    /// The heads of a deleted queue record the deletion before another queue gets its slot.
    HeadsClosed,
    /// A process that clears a slot leaves a head alone if the head knows a newer epoch: the next queue has
    /// it.
    ClearedByTheNewest,
    /// The heads of a deleted queue have no live segment when another queue gets its slot.
    ClearedWhenEmpty,
    /// A fence creates a head, with a ring that was read since the queue has its slot. Earlier fences did not
    /// reach the head, because it did not exist.
    HeadMadeByFence,
    /// Every head records that a table is closing before the table counts as closed.
    HeadsFenced,
    /// A head points a segment to a table only after all needed bodies were copied there.
    CopiedBeforePointing,
    /// A head points a segment to a table by the ring that was known before the copy, even if a newer ring is
    /// known.
    PointedByRingOfCopy,
    /// A table is emptied only when no head refers to it.
    EmptiedUnreferenced,
    /// Facts that were established in one lifetime of a table (fenced, counted) do not apply to another.
    BelievedInItsLife,
    /// A temporary queue counts as ended only by a registry that was read after the ring: an earlier registry
    /// may not list the queue yet.
    EndedByLaterRegistry,
    /// The request to empty a table is sent once.
    EmptiedOnce,
    /// A process never empties a table if another process began to empty it.
    NoTakeOver,
}

/// Rules of this protocol that are kept.
pub(crate) type Rules = crate::rules::Rules<Rule>;

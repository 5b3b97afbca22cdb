//! The rules of the protocol by name. A model leaves one out and finds the fault that it prevents.

/// One rule of the protocol. A release keeps all of them; a model leaves one out and finds what breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A conditional write of unknown outcome is sent again as it was, and not taken for applied.
    UnknownIsSentAgain,
    /// An answer for which nothing is written is given of a register that was read since it was asked.
    AnsweredOnFreshCopy,
    /// An append that was sent before is settled by whether its chunk lies in the log.
    SettledByChunk,
    /// An append that was sent before is in doubt when another segment has the register.
    GoneIsUnknown,
    /// Nothing is added to a log that is sealed.
    SealedIsFinal,
    /// Bodies are written before the log names them.
    BodiesFirst,
    /// Who appends knows the deduplication ids of the segments before.
    EarlierLogsOfWindow,
    /// A register rests for the window of deduplication before another segment has it.
    RegistersRest,
    /// A register is set up for a segment only if it is as it was read.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "the store's condition; models leave it out")
    )]
    SetUpByVersion,
    /// A segment leaves the list only when it is sealed.
    ReleaseOnlySealed,
    /// A segment leaves the list only when all of it is resolved.
    ReleaseOnlyResolved,
    /// A claim takes messages that were never received and messages that failed in turn.
    NewWithFailed,
    /// A claim takes failed messages in the order in which they were due.
    FailedByDue,
    /// A receipt counts for the newest claim of its message only.
    ReceiptFencedByClaim,
    /// No receipt counts for a message that leaves.
    LeavingIsFenced,
    /// A purge resolves nothing that is on its way elsewhere: it would come there all the same.
    PurgeKeepsWhatLeaves,
    /// A message is marked where it was before it is appended elsewhere.
    MarkedFirst,
    /// A mark is changed only if it is as it was seen.
    RedirectedFromMark,
    /// A message is redirected only when its target takes it no more, and has not.
    RedirectedFromSealed,
    /// A segment is released when whatever was moved there is resolved where it was.
    OriginsSettledFirst,
    /// Who goes on with a mark asks the shard that it names, wherever it would move the message itself.
    AskedWhereMarked,
    /// Messages of a group wait for those of the live segments before; their logs must be known to the end.
    EarlierLogsSealed,
    /// A lease is counted from when the claim was sent.
    LeaseFromSending,
    /// A worker is given a message only while its lease holds.
    HandedOutInLease,
    /// Who did not give a lease waits for as much longer as clocks may be apart.
    MarginForClocks,
    /// Who knows an older ring than the head opens nothing, and points to nothing.
    RingNoOlderThanFence,
    /// Who knows an older use of a place than the head opens nothing: its queue was deleted.
    TenureNoOlderThanHead,
    /// The heads of a deleted queue know that before its place is another's.
    HeadsClosed,
    /// Who clears a place by an older use than a head knows leaves that alone: it is the next queue's.
    ClearedByTheNewest,
    /// Nothing is live in them then.
    ClearedWhenEmpty,
    /// A head is made by a fence, by a ring that was read since the queue has its place: before, none was fenced.
    HeadMadeByFence,
    /// Every head learns that a table is closing before it counts as closed.
    HeadsFenced,
    /// A head points to a table when all bodies that are needed were copied there.
    CopiedBeforePointing,
    /// It does so by the ring that was known before they were copied, whatever is known since.
    PointedByRingOfCopy,
    /// A table is emptied when no head refers to it.
    EmptiedUnreferenced,
    /// What was fenced, or counted, in one life of a table is not believed of another.
    BelievedInItsLife,
    /// That a unit has ended is said by a registry that was read after the ring: before, it may not have begun.
    EndedByLaterRegistry,
    /// Emptying is sent once.
    EmptiedOnce,
    /// Nobody empties a table whose emptying another has begun.
    NoTakeOver,
}

/// The rules of this protocol that are kept.
pub(crate) type Rules = crate::rules::Rules<Rule>;

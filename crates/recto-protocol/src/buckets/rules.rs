//! Rules of the protocol, by name. A model disables one rule and finds the fault that the rule prevents.

/// Rule of the protocol. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A writer takes the timestamp of a write after it has the range map that routes the write.
    StampAfterCopy,
    /// A write is acknowledged if the cached range map that routed it is still valid. If the range map has
    /// expired, the write is acknowledged only if it went to all buckets that a newer range map requires.
    AcknowledgedByLivingCopy,
    /// A write that went to the wrong buckets starts again, with a new timestamp.
    NewStampForNewCopy,
    /// A write to a guessed bucket is acknowledged only after a range map has confirmed that the key belongs
    /// to the bucket.
    GuessIsChecked,
    /// Deletions also go to old buckets, which receive no writes any more.
    DeletionsReachOld,
    /// A read of a key range shows only those rows of a bucket whose keys are in the range.
    ReadsClipped,
    /// A reader whose cached range map has expired reads the range map again. It starts again if the newer
    /// range map reads other buckets.
    ReadAgainWhenOver,
    /// The lifetime of a cached range map counts from the time before its read.
    LifeFromBeforeReading,
    /// The age of a cached range map is measured with two clocks. The larger age counts, because one clock
    /// may have stopped.
    LargerOfClocks,
    /// A process that waits for the expiry of cached range maps adds the time for which the clocks of a
    /// process may stop.
    MarginForStandstill,
    /// A process that waits for the expiry of cached range maps waits for the longest lifetime that any of them may
    /// have.
    LongestLifeRemembered,
    /// A split sends deletions to a new bucket before it sends writes to the bucket.
    DeletionsFirst,
    /// A new bucket receives writes only when no process deletes with an older range map that does not name
    /// the bucket.
    WaitAfterDeletions,
    /// A split copies rows only when no process writes with an older range map that does not name the new
    /// bucket.
    WaitAfterWrites,
    /// A new bucket is read only after all rows are copied to it.
    CopiedBeforeRead,
    /// A split copies rows with their own write timestamps.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that copies rows follows this rule, and models leave it out"
        )
    )]
    CopiedAtOwnStamp,
    /// After the switch of reads to a new bucket, the previous bucket still receives writes.
    WrittenWhileRead,
    /// The previous bucket receives writes until no process reads from it by an older range map.
    WaitBeforeLeaving,
    /// A range map is changed only if its version is the version that the process read.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    ChangedByVersion,
    /// A conditional write of unknown outcome does not count as applied. The process reads the range map to
    /// find the outcome.
    UnknownIsRead,
    /// A process that splits reads the range map serially, so that no other process reads an older range map
    /// afterwards.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that reads the range map follows this rule, and models leave it out"
        )
    )]
    ReadSerially,
    /// A process that continues the split of another process waits again.
    WaitedByOneself,
    /// A process that continues the split of another process copies the rows again.
    CopiedByOneself,
    /// Before the first range is split off, a mark in bucket 0 records that the partition exists.
    RootMarkedFirst,
    /// The remaining rows of an old bucket are copied before the bucket is cleared.
    CopiedBeforeCleared,
    /// An old bucket is cleared if the range map is still the same as when its remaining rows were copied.
    LookedAgainBeforeClearing,
    /// The retention bound hides rows before they are deleted.
    HiddenBeforeDropped,
    /// Rows that a retention bound hides are deleted only when no process reads with a range map that still
    /// shows them.
    WaitBeforeDropping,
    /// The ranges of a deleted bucket are removed from the range map only after the bucket is deleted.
    DroppedBeforeForgotten,
    /// A bucket beyond a retention bound is deleted as a whole only if no kept range can name it. Otherwise only
    /// the hidden keys of the bucket are deleted.
    SharedBucketsStay,
    /// Each bucket is the destination of only one run of adjacent ranges. Readers check this rule, and not the
    /// buckets that are read now.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the check of range maps follows this rule, and models leave it out"
        )
    )]
    PlacedByDestination,
    /// A split divides runs of adjacent ranges that have one destination. All ranges of a part get the same new
    /// bucket.
    SplitByRuns,
    /// A run that may continue outside the window is not joined. If it is split, the part at the edge of the
    /// window stays in its bucket.
    WholeRuns,
    /// A join takes only ranges of which no split and no join is under way.
    JoinedAtRest,
    /// A join takes only ranges that are read in the same buckets as when the join was decided.
    JoinedAsDecided,
    /// A join takes no ranges beyond the retention bound.
    JoinedAboveFloor,
    /// The remaining rows of an old bucket are deleted only within the range that left the bucket.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that deletes rows follows this rule, and models leave it out"
        )
    )]
    ClearedBySpan,
    /// The edges between joined ranges are removed after the old buckets of these ranges are cleared.
    EdgesGoLast,
}

/// Set of the enabled rules of this protocol.
pub(crate) type Rules = crate::rules::Rules<Rule>;

//! Rules of the protocol, by name. A model disables one rule and finds the fault that the rule prevents.

/// Rule of the protocol. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A writer takes the timestamp of a write after it has the range map that routes the write.
    StampAfterCopy,
    /// A write is acknowledged while the cached range map that routed it is valid. After that, it is acknowledged only
    /// if it went to all buckets that a newer range map requires.
    AcknowledgedByLivingCopy,
    /// A write that went to the wrong buckets starts again, with a new timestamp.
    NewStampForNewCopy,
    /// A write to a guessed bucket is acknowledged after the range map has confirmed the bucket.
    GuessIsChecked,
    /// Deletions also go to old buckets, which receive no writes any more.
    DeletionsReachOld,
    /// A read shows only the rows of a bucket that belong to the range.
    ReadsClipped,
    /// A reader whose cached range map has expired reads the range map again. It starts again if other buckets are read
    /// now.
    ReadAgainWhenOver,
    /// The lifetime of a cached range map counts from the time before its read.
    LifeFromBeforeReading,
    /// A cached range map has two ages, one for each clock. The larger age counts.
    LargerOfClocks,
    /// A process that waits for the expiry of cached range maps adds the time for which clocks may stop.
    MarginForStandstill,
    /// A process that waits for the expiry of cached range maps waits for the longest lifetime that any of them may
    /// have.
    LongestLifeRemembered,
    /// A new bucket receives deletions before it receives writes.
    DeletionsFirst,
    /// A new bucket receives writes when no process deletes with a range map that does not name the bucket.
    WaitAfterDeletions,
    /// Rows are copied when no process writes with a range map that does not name the new bucket.
    WaitAfterWrites,
    /// The new bucket is read when all rows are copied.
    CopiedBeforeRead,
    /// Rows are copied with their own timestamps.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that copies rows follows this rule, and models leave it out"
        )
    )]
    CopiedAtOwnStamp,
    /// The previous bucket still receives writes when it is no longer read.
    WrittenWhileRead,
    /// The previous bucket receives writes until no process uses a range map in which it is the bucket that is read.
    WaitBeforeLeaving,
    /// A range map is changed only if it has the version that was read.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    ChangedByVersion,
    /// A conditional write of unknown outcome does not count as applied.
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
    /// A mark in bucket 0 shows that the partition exists, before the first range is split off.
    RootMarkedFirst,
    /// The remaining rows of an old bucket are copied before the bucket is cleared.
    CopiedBeforeCleared,
    /// An old bucket is cleared if the range map is still the same as when its remaining rows were copied.
    LookedAgainBeforeClearing,
    /// Rows beyond the retention bound are hidden by the bound before they are deleted.
    HiddenBeforeDropped,
    /// These rows are deleted when no process reads with a range map that shows them.
    WaitBeforeDropping,
    /// The ranges of a bucket are removed from the range map after the bucket is deleted.
    DroppedBeforeForgotten,
    /// A retention bound is between ranges that have no bucket in common.
    SharedBucketsStay,
}

/// Set of the enabled rules of this protocol.
pub(crate) type Rules = crate::rules::Rules<Rule>;

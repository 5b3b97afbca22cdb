//! Named rules of the protocol for buckets. A test disables a rule and shows the fault that the
//! rule prevents.

/// Rule of the protocol for buckets. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A writer takes the timestamp of a write only after it has the range map that routes the
    /// write.
    StampAfterCopy,
    /// A write is acknowledged if the cached range map that routed it has not expired. Otherwise,
    /// it is acknowledged only if it went to all buckets that a newer range map requires.
    AcknowledgedByLivingCopy,
    /// A write that went to the wrong buckets is sent again with a new timestamp.
    NewStampForNewCopy,
    /// A write to a guessed bucket is acknowledged only after a range map has confirmed the bucket.
    GuessIsChecked,
    /// Deletions also go to old buckets (left by a split), which receive no writes any more.
    DeletionsReachOld,
    /// A read of a key range returns only rows whose keys are in the range. The bucket may have
    /// outdated rows outside it.
    ReadsClipped,
    /// If its cached range map expires during a read, a reader reads the range map again. If the
    /// newer range map names other buckets, the reader starts over.
    ReadAgainWhenOver,
    /// The lifetime of a cached range map counts from the time before its read, because its content
    /// may be that old.
    LifeFromBeforeReading,
    /// The age of a cached range map is measured with two clocks. The larger age counts, because one clock
    /// may have stopped.
    LargerOfClocks,
    /// A process that waits for the expiry of cached range maps adds the time for which the clocks
    /// of another process may stop.
    MarginForStandstill,
    /// A process that waits for the expiry of cached range maps waits for the longest lifetime that
    /// any cached range map may have.
    LongestLifeRemembered,
    /// A split first sends deletions to a new bucket, and later also writes.
    DeletionsFirst,
    /// A new bucket receives writes only when no process deletes rows by an older range map, which
    /// does not name the new bucket.
    WaitAfterDeletions,
    /// A split copies rows only when no process writes rows by an older range map, which does not
    /// name the new bucket.
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
    /// After reads switch to a new bucket, the previous bucket still receives writes, because
    /// processes may still read there.
    WrittenWhileRead,
    /// The previous bucket receives writes until no process reads from it by an older range map.
    WaitBeforeLeaving,
    /// A conditional write of a range map compares the version, so that a concurrent change is not
    /// lost.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the condition of the store follows this rule, and models leave it out"
        )
    )]
    ChangedByVersion,
    /// A conditional write of unknown outcome does not count as applied. The process reads the
    /// range map to find the outcome.
    UnknownIsRead,
    /// A process that splits reads the range map with serial consistency. Afterwards, no process
    /// can read an older range map.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that reads the range map follows this rule, and models leave it out"
        )
    )]
    ReadSerially,
    /// A process that continues another process's split waits again for the expiry of cached range
    /// maps.
    WaitedByOneself,
    /// A process that continues another process's split copies the rows again.
    CopiedByOneself,
    /// Before the first split of a partition, a mark in bucket 0 records that the partition exists,
    /// so that scans find it.
    RootMarkedFirst,
    /// The remaining rows of an old bucket (left by a split) are copied before the bucket is
    /// deleted.
    CopiedBeforeCleared,
    /// An old bucket (left by a split) is deleted only if the range map has not changed since its
    /// remaining rows were copied.
    LookedAgainBeforeClearing,
    /// The retention bound (a key) hides the rows beyond it before they are deleted.
    HiddenBeforeDropped,
    /// Rows beyond a retention bound are deleted only when no process reads with a range map that
    /// still shows them.
    WaitBeforeDropping,
    /// The key ranges of a deleted bucket are removed from the range map only after the bucket is
    /// deleted.
    DroppedBeforeForgotten,
    /// A bucket beyond a retention bound is deleted as a whole only if no kept range can name it.
    /// Otherwise only the hidden keys of the bucket are deleted.
    SharedBucketsStay,
    /// All ranges that will finally be read in one bucket (its destination) are adjacent. Readers
    /// check this rule, and not the buckets that are read now.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the check of range maps follows this rule, and models leave it out"
        )
    )]
    PlacedByDestination,
    /// A split divides whole runs (adjacent ranges with one destination bucket). All ranges of a
    /// part get the same new bucket.
    SplitByRuns,
    /// A run that may continue outside the window is not joined. If it is split, the part at the
    /// edge of the window keeps its bucket.
    WholeRuns,
    /// A join takes only ranges in which no split and no join is under way.
    JoinedAtRest,
    /// A join takes only ranges that are still read in the buckets that were seen when the join was
    /// decided.
    JoinedAsDecided,
    /// A join takes no ranges that the retention bound (key beyond which rows are deleted) hides.
    JoinedAboveFloor,
    /// The remaining rows of an old bucket (left by a split) are deleted only within the range that
    /// left the bucket.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that deletes rows follows this rule, and models leave it out"
        )
    )]
    ClearedBySpan,
    /// The edges between joined ranges are removed only after the old buckets of these ranges are
    /// deleted.
    EdgesGoLast,
    /// A process that registers a time bucket reads its entry first, and writes the entry at a later timestamp.
    RegisteredAboveRead,
    /// A process may write rows to a time bucket only for a limited time after it registered the bucket.
    RegistrationExpires,
    /// A process that removes an entry waits until no process uses a registration from before its first read.
    WaitBeforeUnregistering,
    /// An entry is removed only if it has the same timestamp after the wait.
    UnregisteredUnchanged,
    /// An entry is removed only if its bucket is empty after the wait.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that reads buckets follows this rule, and models leave it out"
        )
    )]
    UnregisteredEmpty,
    /// A removed entry stays in the registry with a mark, and shows its timestamp.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the code that writes entries follows this rule, and models leave it out"
        )
    )]
    RemovedEntriesStay,
}

/// Set of the enabled rules of the protocol for buckets.
pub(crate) type Rules = crate::rules::Rules<Rule>;

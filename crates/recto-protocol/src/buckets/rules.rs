//! The rules of the protocol by name. A model leaves one out and finds the fault that it prevents.

/// One rule of the protocol. A release keeps all of them; a model leaves one out and finds what breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// The stamp of a write is taken when the copy is that it goes by.
    StampAfterCopy,
    /// A write is acknowledged while the copy lives that it went by, or when it went wherever writes go by a later one.
    AcknowledgedByLivingCopy,
    /// A write that went elsewhere is begun anew, with another stamp.
    NewStampForNewCopy,
    /// A write to the likely bucket is acknowledged when the directory says so.
    GuessIsChecked,
    /// Deletions go to buckets that were left, too.
    DeletionsReachOld,
    /// Of a bucket is shown what lies within the piece.
    ReadsClipped,
    /// Who has read by a copy that is over reads it again, and begins again if other buckets are read.
    ReadAgainWhenOver,
    /// A copy lives from before it was read.
    LifeFromBeforeReading,
    /// A copy is as old as the clock says by which it is older.
    LargerOfClocks,
    /// Who waits for copies to be over waits for as much longer as clocks may stand still.
    MarginForStandstill,
    /// Who waits for copies to be over waits for the longest that anybody may have.
    LongestLifeRemembered,
    /// A new bucket takes deletions before it takes writes.
    DeletionsFirst,
    /// It takes writes when nobody deletes by a directory that does not name it.
    WaitAfterDeletions,
    /// Rows are copied when nobody writes by a directory that does not name it.
    WaitAfterWrites,
    /// The new bucket is read when all rows are copied.
    CopiedBeforeRead,
    /// Rows are copied at their own stamps.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "who copies does so; models leave it out")
    )]
    CopiedAtOwnStamp,
    /// The bucket before takes writes when it is not read any more, too.
    WrittenWhileRead,
    /// It takes none any more when nobody reads by a directory by which it is read.
    WaitBeforeLeaving,
    /// A directory is changed only if it is of the version that was read.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "the store's condition; models leave it out")
    )]
    ChangedByVersion,
    /// A conditional write of unknown outcome is not taken for applied.
    UnknownIsRead,
    /// Who cuts reads the directory so that nobody reads an older one any more.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "who reads does so; models leave it out")
    )]
    ReadSerially,
    /// Who goes on with what another began waits anew.
    WaitedByOneself,
    /// Who goes on with what another began copies anew.
    CopiedByOneself,
    /// Bucket 0 says that there is the partition before anything is cut off.
    RootMarkedFirst,
    /// What a bucket that was left still holds is copied before it goes.
    CopiedBeforeCleared,
    /// A bucket is cleared when the directory is still as it was by which the rest was copied.
    LookedAgainBeforeClearing,
    /// What is not kept any more is hidden by a floor before it is deleted.
    HiddenBeforeDropped,
    /// It is deleted when nobody reads by a directory that shows it.
    WaitBeforeDropping,
    /// What says of a bucket goes when the bucket is deleted.
    DroppedBeforeForgotten,
    /// A floor stands between pieces that have no bucket in common.
    SharedBucketsStay,
}

/// The rules of this protocol that are kept.
pub(crate) type Rules = crate::rules::Rules<Rule>;

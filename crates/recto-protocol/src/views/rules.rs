//! The rules of the protocol by name. A model leaves one out and finds the fault that it prevents.

/// One rule of the protocol. A release keeps all of them; a model leaves one out and finds what breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(test),
    allow(
        dead_code,
        reason = "the release keeps all rules without asking which there are"
    )
)]
pub(crate) enum Rule {
    /// The conditional write is sent when the intent is stored, not beside it.
    IntentFirst,
    /// The conditional write is sent only while the lease holds.
    LeaseHolds,
    /// A row of a newer schema is left alone until that schema is read.
    NewerRowReloads,
    /// Entries are of the schema that the row says it was written by, whatever the process has read since.
    EntriesByRowsSchema,
    /// A conditional write of unknown outcome is sent again as it was, not begun anew.
    RepeatIdentical,
    /// That a repeated write was not sent says nothing of the one before it.
    DoubtStays,
    /// What a read shows after an unknown outcome decides nothing.
    ReadDecidesNothing,
    /// A row remembers the tokens of earlier versions.
    TokensRemembered,
    /// Where neither the own token is remembered nor the one before it, the outcome is unknown.
    ForgottenIsUnknown,
    /// What the version before had still to remove is carried on.
    MustGoCarried,
    /// The entries of the version before have to go.
    MustGoOld,
    /// What the new version puts does not have to go.
    MustGoSparesNew,
    /// Only the mark of the newest version says that nothing is left to remove.
    DoneByVersion,
    /// The mark is set when all entries are written.
    DoneAfterEntries,
    /// A write is acknowledged when all entries are written.
    AcknowledgeAfterEntries,
    /// An intent is settled when all entries are written.
    SettleAfterEntries,
    /// A version is greater than the one before, whatever the clock says.
    VersionsRise,
    /// A version is greater by two, so that there is a stamp between them.
    VersionGap,
    /// Entries have their row's version for a stamp, whoever writes them.
    EntriesAtVersion,
    /// Entries are put by a copy of the directory that is older than the reading of their row.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the store that keeps buckets asks for it; models leave it out"
        )
    )]
    CopyBeforeRow,
    /// What came to lie elsewhere is not taken for written.
    MovedIsNotWritten,
    /// It is put elsewhere when the row was read again.
    MovedReadsRow,
    /// Where the row is of a newer version by then, that one is resolved.
    NewerRowIsResolved,
    /// An entry with nulls removes what was there before it.
    NullsRemoved,
    /// Who resolves an intent first replaces the row's token.
    FenceReplacesToken,
    /// Who resolves the intent of an absent record puts a deleted row there.
    FenceAbsent,
    /// Who resolves an intent gives the row its own generation.
    FenceGeneration,
    /// A deleted record keeps its row.
    DeletedRowStays,
    /// A view is filled when no writer is left that does not know it.
    Barrier,
    /// The barrier waits until the intents of the dead are resolved.
    BarrierSweepsDead,
    /// A schema is announced when no write begun by an older one is under way.
    DrainBeforeAnnouncing,
    /// A process registers before it reads the catalog.
    RegisterBeforeCatalog,
    /// A lease is counted from when its renewal was sent.
    LeaseFromSending,
    /// A renewal that was not applied when it was sent again, and whose counter is there, was applied before.
    RenewalRemembered,
    /// A process is dead when its counter stood still for longer than any lease.
    DeathOutlastsLease,
    /// Whether a process is dead is decided on its counter, by a conditional write.
    DeathDecidedOnCounter,
    /// A segment is deleted after a renewal that succeeded when all of it was settled.
    SegmentAfterRenewal,
    /// A process removes its registration when it has nothing under way, and all its intents are settled.
    SettledBeforeLeaving,
    /// The intents of the dead are resolved once more before they go.
    DeadResolvedTwice,
    /// The base is read after the entry.
    BaseAfterEntry,
    /// A false entry is removed at its own stamp.
    RemoveAtOwnStamp,
    /// An entry newer than the base as read decides nothing.
    NewerEntryIsUnknown,
    /// Entries outlive a record that expires by as much as clocks may be apart.
    EntriesOutlive,
    /// The entry of a record that has expired is not removed by who reads it.
    ExpiredIsLeft,
    /// Unique values are claimed before the row is written that has them.
    ClaimBeforeRow,
    /// Who takes a claim over first replaces the token of the record that has it.
    HolderFenced,
    /// A claim that is one's own is taken anew.
    TakenAnew,
    /// A claim of unknown outcome that is not there is taken by another token: the same might be there twice.
    ClaimTokenOnce,
    /// A claim is released by the token that it was taken with.
    ReleasedByToken,
}

/// The rules of this protocol that are kept.
pub(crate) type Rules = crate::rules::Rules<Rule>;

//! Rules of the protocol, by name. A model disables one rule and finds the fault that the rule prevents.

/// Rule of the protocol. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the release keeps all rules and does not list them")
)]
pub(crate) enum Rule {
    /// A writer stores the intent, a note that it is about to change a record, before it sends the
    /// conditional write.
    IntentFirst,
    /// A writer sends the conditional write only while its lease is valid.
    LeaseHolds,
    /// A writer does not change a row of a newer schema until it has read that schema.
    NewerRowReloads,
    /// A writer derives entries with the schema that the row names, even if the process has read a newer schema since.
    EntriesByRowsSchema,
    /// If the outcome of a conditional write is unknown, the writer repeats the identical write. It does not start a
    /// new attempt.
    RepeatIdentical,
    /// If a writer could not send the repetition of a conditional write, the outcome of the first sending
    /// stays unknown.
    DoubtStays,
    /// A read after an unknown outcome does not decide the outcome, because the write may still be applied
    /// later.
    ReadDecidesNothing,
    /// A row keeps the tokens of earlier conditional writes.
    TokensRemembered,
    /// If a row remembers neither the writer's own token nor the token before it, the outcome is unknown.
    ForgottenIsUnknown,
    /// A new version of a row still removes the view entries that the previous version had to remove.
    MustGoCarried,
    /// A new version of a row removes the view entries of the previous version.
    MustGoOld,
    /// A new version of a row does not remove entries at the keys at which it puts entries.
    MustGoSparesNew,
    /// The mark `recto_done` means that no entry is left to remove only if it names the newest version of the
    /// row.
    DoneByVersion,
    /// A writer sets the mark `recto_done` after it has written all entries of the version.
    DoneAfterEntries,
    /// A write is acknowledged after all entries are written.
    AcknowledgeAfterEntries,
    /// An intent counts as settled, and may be deleted, only after all entries of its change are written.
    SettleAfterEntries,
    /// A new version of a row is greater than the previous version, even if the clock of the writer is behind
    /// it.
    VersionsRise,
    /// A version is greater than the previous version by at least two, so that there is a timestamp between
    /// any two versions.
    VersionGap,
    /// The write timestamp of an entry is its row's version, whichever process writes the entry.
    EntriesAtVersion,
    /// A writer chooses the buckets of entries by a range map that it cached before it read the row.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the store that has buckets follows this rule, and models leave it out"
        )
    )]
    CopyBeforeRow,
    /// An entry that was sent to one bucket and now belongs to another bucket does not count as written.
    MovedIsNotWritten,
    /// A writer puts an entry that now belongs to another bucket into that bucket only after it has read the
    /// row again.
    MovedReadsRow,
    /// If the row that was read again after entries moved to other buckets has a newer version, the writer
    /// resolves that version.
    NewerRowIsResolved,
    /// A put of an entry with nulls removes the cells that were stored at its key before.
    NullsRemoved,
    /// A process that resolves an intent first replaces the row's token.
    FenceReplacesToken,
    /// A process that resolves the intent of an absent record writes a deleted row.
    FenceAbsent,
    /// A process that resolves an intent writes its own generation to the row.
    FenceGeneration,
    /// A deleted record keeps its base row for a limited time, with the version and the tokens of the
    /// deletion.
    DeletedRowStays,
    /// A new view is filled from the base table only when every process that writes knows the view.
    Barrier,
    /// The barrier before a view is filled waits until the intents of dead processes are resolved.
    BarrierSweepsDead,
    /// A process announces a schema only when none of its writes under way began with an older schema.
    DrainBeforeAnnouncing,
    /// A process registers before it reads the catalog.
    RegisterBeforeCatalog,
    /// A lease counts from the time when its renewal was sent.
    LeaseFromSending,
    /// A renewal whose repetition was not applied still counts as applied if the stored counter is the
    /// counter of the renewal.
    RenewalRemembered,
    /// A process is dead when its counter did not change for longer than any lease.
    DeathOutlastsLease,
    /// A conditional write on the counter decides whether a process is dead.
    DeathDecidedOnCounter,
    /// A process deletes a segment of intents only after a renewal succeeded that it sent when all these
    /// intents were settled.
    SegmentAfterRenewal,
    /// A process removes its registration when it has no write under way and all its intents are settled.
    SettledBeforeLeaving,
    /// The intents of a dead process are resolved once more before they are deleted.
    DeadResolvedTwice,
    /// A reader reads the base row after the entry.
    BaseAfterEntry,
    /// A reader removes a false entry with the write timestamp of the entry itself.
    RemoveAtOwnStamp,
    /// If an entry is newer than the base row that was read at quorum, the reader does not decide whether the
    /// entry is true.
    NewerEntryIsUnknown,
    /// The entries of a record that expires live longer than the record, by the maximum difference between
    /// two clocks.
    EntriesOutlive,
    /// A reader does not remove the entry of an expired record.
    ExpiredIsLeft,
    /// A writer claims unique values before it writes the row that has them.
    ClaimBeforeRow,
    /// Before a writer takes a claim from another record, it replaces the token of that record.
    HolderFenced,
    /// A record that has a claim takes it again with a new token, even though the claim is its own.
    TakenAnew,
    /// If the outcome of a claim is unknown and the claim is not stored, the writer uses another token. Otherwise one
    /// token could be stored twice.
    ClaimTokenOnce,
    /// A claim is released by the token with which it was taken.
    ReleasedByToken,
}

/// Set of the enabled rules of this protocol.
pub(crate) type Rules = crate::rules::Rules<Rule>;

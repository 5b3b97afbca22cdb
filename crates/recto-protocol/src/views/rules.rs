//! Rules of the protocol, by name. A model disables one rule and finds the fault that the rule prevents.

/// Rule of the protocol. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the release keeps all rules and does not list them")
)]
pub(crate) enum Rule {
    /// A writer sends the conditional write after the intent is stored, not concurrently with it.
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
    /// If the repetition of a write was not sent, the outcome of the earlier write stays unknown.
    DoubtStays,
    /// A read after an unknown outcome does not decide the outcome.
    ReadDecidesNothing,
    /// A row remembers the tokens of earlier versions.
    TokensRemembered,
    /// If a row remembers neither the writer's own token nor the token before it, the outcome is unknown.
    ForgottenIsUnknown,
    /// A new version still removes the keys that the previous version had to remove.
    MustGoCarried,
    /// A new version removes the entries of the previous version.
    MustGoOld,
    /// A new version does not remove the keys at which it puts entries.
    MustGoSparesNew,
    /// Only a mark of the newest version means that no entry is left to remove.
    DoneByVersion,
    /// A writer sets the mark after it has written all entries.
    DoneAfterEntries,
    /// A write is acknowledged after all entries are written.
    AcknowledgeAfterEntries,
    /// An intent is settled after all entries are written.
    SettleAfterEntries,
    /// A version is greater than the previous version, even if the clock is behind it.
    VersionsRise,
    /// A version is greater by at least two, so that there is a timestamp between any two versions.
    VersionGap,
    /// The write timestamp of an entry is its row's version, whichever process writes the entry.
    EntriesAtVersion,
    /// A writer puts entries with a cached range map that is older than its read of the row.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the store that has buckets follows this rule, and models leave it out"
        )
    )]
    CopyBeforeRow,
    /// An entry that now belongs to another bucket does not count as written.
    MovedIsNotWritten,
    /// A writer puts such an entry into the other bucket only after it has read the row again.
    MovedReadsRow,
    /// If the row then has a newer version, the writer resolves that version.
    NewerRowIsResolved,
    /// An entry with nulls removes the cells that were at its key before.
    NullsRemoved,
    /// A process that resolves an intent first replaces the row's token.
    FenceReplacesToken,
    /// A process that resolves the intent of an absent record writes a deleted row.
    FenceAbsent,
    /// A process that resolves an intent writes its own generation to the row.
    FenceGeneration,
    /// A deleted record keeps its row.
    DeletedRowStays,
    /// A view is filled when no writer remains that does not know the view.
    Barrier,
    /// The barrier waits until the intents of dead processes are resolved.
    BarrierSweepsDead,
    /// A process announces a schema only when none of its writes under way began with an older schema.
    DrainBeforeAnnouncing,
    /// A process registers before it reads the catalog.
    RegisterBeforeCatalog,
    /// A lease counts from the time when its renewal was sent.
    LeaseFromSending,
    /// If the repetition of a renewal was not applied, and the stored counter is the renewal's, an earlier sending was
    /// applied.
    RenewalRemembered,
    /// A process is dead when its counter did not change for longer than any lease.
    DeathOutlastsLease,
    /// A conditional write on the counter decides whether a process is dead.
    DeathDecidedOnCounter,
    /// A segment is deleted only after a successful renewal that was sent when all intents of the segment were settled.
    SegmentAfterRenewal,
    /// A process removes its registration when it has no write under way and all its intents are settled.
    SettledBeforeLeaving,
    /// The intents of a dead process are resolved once more before they are deleted.
    DeadResolvedTwice,
    /// A reader reads the base row after the entry.
    BaseAfterEntry,
    /// A false entry is removed at its own timestamp.
    RemoveAtOwnStamp,
    /// An entry that is newer than the base row as read decides nothing.
    NewerEntryIsUnknown,
    /// The entries of a record that expires live longer than the record, by the maximum difference between clocks.
    EntriesOutlive,
    /// A reader does not remove the entry of an expired record.
    ExpiredIsLeft,
    /// A writer claims unique values before it writes the row that has them.
    ClaimBeforeRow,
    /// Before a writer takes a claim from another record, it replaces the token of that record.
    HolderFenced,
    /// A record takes its own claim again, with a new token.
    TakenAnew,
    /// If the outcome of a claim is unknown and the claim is not stored, the writer uses another token. Otherwise one
    /// token could be stored twice.
    ClaimTokenOnce,
    /// A claim is released by the token with which it was taken.
    ReleasedByToken,
}

/// Set of the enabled rules of this protocol.
pub(crate) type Rules = crate::rules::Rules<Rule>;

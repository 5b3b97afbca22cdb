//! Named rules of the protocol for views. A test disables a rule and shows the fault that the rule
//! prevents.

/// Rule of the protocol for views. A release enables all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the release keeps all rules and does not list them")
)]
pub(crate) enum Rule {
    /// A writer stores an intent (note that it will change a record) before it sends the
    /// conditional write.
    IntentFirst,
    /// A writer sends the conditional write only while its lease (time for which it may write) is
    /// valid.
    LeaseHolds,
    /// A writer that finds a row of a newer schema reads that schema before it changes the row.
    NewerRowReloads,
    /// A writer computes view entries with the schema that the row names, even if the process has
    /// read a newer schema since.
    EntriesByRowsSchema,
    /// If the outcome of a conditional write is unknown, the writer sends the identical write
    /// again, not a new attempt.
    RepeatIdentical,
    /// If a conditional write has an unknown outcome and its repetition could not be sent, the
    /// outcome stays unknown.
    DoubtStays,
    /// After an unknown outcome, a read does not show that the write failed: it may still be
    /// applied later.
    ReadDecidesNothing,
    /// A row keeps the tokens (ids) of earlier conditional writes, so that a writer can find the
    /// outcome of its write.
    TokensRemembered,
    /// If a row contains neither the token (id) of a writer's own write nor the token before it,
    /// the outcome of the write is unknown.
    ForgottenIsUnknown,
    /// If the view entries that the previous version had to remove are not removed yet, the next
    /// version of the row removes them.
    MustGoCarried,
    /// A new version of a row removes the view entries of the previous version.
    MustGoOld,
    /// A new version of a row removes no entries at the keys where it puts entries.
    MustGoSparesNew,
    /// The mark `recto_done` says that no view entries are left to remove only if it names the
    /// newest version of the row.
    DoneByVersion,
    /// A writer sets the mark `recto_done` only after it has written all view entries of the
    /// version.
    DoneAfterEntries,
    /// A change is acknowledged only after all of its view entries are written.
    AcknowledgeAfterEntries,
    /// An intent (note of a pending change) counts as settled, and may be deleted, only after all
    /// view entries of its change are written.
    SettleAfterEntries,
    /// A new version of a row is greater than the previous version, even if the writer's clock
    /// shows an earlier time.
    VersionsRise,
    /// A version is greater than the previous version by at least 2, so that there is a timestamp
    /// between any two versions.
    VersionGap,
    /// The write timestamp of a view entry is the version of its row, whichever process writes the
    /// entry.
    EntriesAtVersion,
    /// A writer chooses the buckets of view entries by a range map (which bucket holds which keys)
    /// that it cached before it read the row.
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "the store that has buckets follows this rule, and models leave it out"
        )
    )]
    CopyBeforeRow,
    /// A view entry that was sent to a bucket where its key no longer belongs does not count as
    /// written.
    MovedIsNotWritten,
    /// If the key of a view entry now belongs to another bucket, the writer reads the row again
    /// before it puts the entry there.
    MovedReadsRow,
    /// If that repeated read of the row finds a newer version, the writer resolves the newer
    /// version: it completes that version's view entries.
    NewerRowIsResolved,
    /// A put of a view entry with nulls also deletes the cells that were stored at its key before.
    NullsRemoved,
    /// A process that resolves an intent (pending change) first replaces the row's token, so that
    /// the change can no longer be applied.
    FenceReplacesToken,
    /// A process that resolves the intent (pending change) of an absent record writes the row of a
    /// deleted record, so that a late insert is not applied.
    FenceAbsent,
    /// A process that resolves another process's intent (pending change) writes the id of its own
    /// schema to the row.
    FenceGeneration,
    /// The base row of a deleted record is kept for a limited time, with its version and tokens, to
    /// stop late writes.
    DeletedRowStays,
    /// A new view is filled from the base table only when every process that writes knows the view.
    Barrier,
    /// Before a view is filled, the intents (pending changes) of dead processes are resolved.
    BarrierSweepsDead,
    /// A process announces a schema only when none of its writes under way began with an older
    /// schema.
    DrainBeforeAnnouncing,
    /// A process registers before it reads the catalog of schemas.
    RegisterBeforeCatalog,
    /// A lease counts from the time when its renewal was sent, not from the response.
    LeaseFromSending,
    /// If a repeated renewal is not applied, but the stored counter is that of the renewal, an
    /// earlier sending was applied.
    RenewalRemembered,
    /// A process is declared dead only when its counter has not changed for longer than any lease.
    DeathOutlastsLease,
    /// A process is declared dead by a conditional write on its counter.
    DeathDecidedOnCounter,
    /// A process deletes a segment (group of intents) only after a renewal that it sent after all
    /// intents of the segment were settled.
    SegmentAfterRenewal,
    /// A process removes its registration only when it has no writes under way, and all of its
    /// intents (pending changes) are settled.
    SettledBeforeLeaving,
    /// The intents (pending changes) of a dead process are resolved a second time before they are
    /// deleted, because late writes may arrive in between.
    DeadResolvedTwice,
    /// A reader that checks a view entry reads the base row (row in the base table) after the
    /// entry.
    BaseAfterEntry,
    /// A reader deletes a stale view entry with the write timestamp of the entry, so that no newer
    /// entry is deleted.
    RemoveAtOwnStamp,
    /// If a view entry is newer than the base row of a quorum read, the reader does not decide
    /// whether the entry is correct.
    NewerEntryIsUnknown,
    /// The view entries of an expiring record live longer than the record, by the maximum
    /// difference between two clocks.
    EntriesOutlive,
    /// A reader does not delete the view entry of an expired record, because the record may be
    /// alive on another clock.
    ExpiredIsLeft,
    /// A writer reserves unique values before it writes the row that contains them.
    ClaimBeforeRow,
    /// A writer that takes unique values from another record first replaces the token (id of the
    /// last write) of that record, so that the record cannot get the values back.
    HolderFenced,
    /// A record that needs unique values again takes them with a new token (random id), even if it
    /// already owns them.
    TakenAnew,
    /// If the outcome of a write that reserves unique values is unknown, and the values are not
    /// reserved, the writer uses another token. Otherwise one token could be stored twice.
    ClaimTokenOnce,
    /// A reservation of unique values is released only by the token (random id) of the write that
    /// made it.
    ReleasedByToken,
}

/// Set of the enabled rules of the protocol for views.
pub(crate) type Rules = crate::rules::Rules<Rule>;

//! Comparison of claims with their records. A claim reserves the values of a unique constraint for
//! one record. Each record must have its claims, and no other claims may exist.
//!
//! A claim is written before its record, so a running change can look like a difference.
//! Differences are therefore read again after a pause.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowRef, Table};
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{ClaimsTable, EntryKey, Token, ViewNumber};
use recto_store::{PointRead, RowsRead};

use super::{MISFIT, Steps, Verification};
use crate::core::CollectionCore;
use crate::error::{ErrorKind, Result};
use crate::misfits::{count, list, misfits_of};
use crate::pace::Pace;
use crate::session::{Drift, Progress, VerifiedView, ViewProgress};
use crate::settle::patiently;
use crate::writes::{claim_as_it_is, claims_of, release_unheld};

/// Maximum number of rows that one step of a table scan reads.
const STEP_ROWS: u32 = 1_000;
/// Number of rows that are compared together: their counterparts in the other table are one
/// request.
const CHUNK: usize = 512;
/// Number of chunks of rows that are compared concurrently.
const PARALLEL_CHUNKS: usize = 2;
/// Number of suspected differences that are repaired concurrently.
const PARALLEL_REPAIRS: usize = 64;
/// Maximum number of suspected differences that are read again together, after one pause.
const MAX_SUSPECTS: usize = 32_768;
/// Pause before suspected differences are read again. A running write may complete during the
/// pause, and so resolve a difference.
const DOUBT_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of differences of a constraint that the report lists.
const MAX_EXAMPLES: usize = 20;

/// Maximum number of misfits (records whose values cannot be stored) that the report lists. It
/// leaves room for other examples.
const MAX_MISFIT_EXAMPLES: usize = MAX_EXAMPLES / 2;

/// Text in the report for a difference that was repaired.
const REPAIRED: &str = "repaired";

/// Comparison of a collection's claims (reservations of unique values) with its records.
pub(super) struct Claims<'a> {
    how: &'a Verification,
    core: &'a Arc<CollectionCore>,
    progress: Progress<'a, ViewProgress>,
}

/// Record and its claim (reservation of unique values). One of them may be missing.
#[derive(Debug, Clone)]
struct Pair {
    record: Cells,
    claim: EntryKey<KeyCells>,
    token: Option<Token>,
}

/// Table that is scanned. The counterpart of each of its rows is read in the other table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Records,
    Claims,
}

impl<'a> Claims<'a> {
    pub(super) fn new(
        how: &'a Verification,
        core: &'a Arc<CollectionCore>,
        progress: Progress<'a, ViewProgress>,
    ) -> Self {
        Self { how, core, progress }
    }

    /// Compares the claims (reservations of values) of each ready unique constraint with the
    /// records. Returns the id of each constraint with its findings. Adds a line to `left_out` for
    /// each constraint that is not ready.
    ///
    /// # Errors
    /// The store cannot be read or written, or a row is damaged.
    pub(super) async fn compare(&self, left_out: &mut Vec<String>) -> Result<Vec<(u64, VerifiedView)>> {
        let core = self.core;
        let name = &core.definition.name;
        let mut found = Vec::new();
        for kept in core.recorded.views.unique_of(name) {
            let view = format!("unique ({})", kept.fields.join(", "));
            if kept.is_building {
                left_out.push(format!("{view} of collection {name}: it is building"));
                continue;
            }
            let viewed = core.viewed.as_deref();
            let table = viewed.and_then(|viewed| viewed.views.claims_table(ViewNumber(kept.number)));
            let Some(table) = table else { continue };
            let mut one = VerifiedView {
                collection: name.clone(),
                view,
                ..VerifiedView::default()
            };
            self.side(table, Side::Records, &mut one).await?;
            self.side(table, Side::Claims, &mut one).await?;
            found.push((kept.number, one));
        }
        Ok(found)
    }

    /// Scans all records or all claims, and compares each row with its counterpart in the other
    /// table.
    async fn side(&self, claims: &ClaimsTable, side: Side, found: &mut VerifiedView) -> Result<()> {
        let shared = &self.core.shared;
        let table = match side {
            Side::Records => &self.core.base().table,
            Side::Claims => claims.table(),
        };
        let mut pace = Pace::new(self.how.rows_per_second, &shared.environment);
        let mut rows = 0;
        let steps = Steps {
            snapshot: shared.store.snapshot()?,
            table: Arc::clone(table),
            options: shared.read_options(),
            rows: pace.step_rows(STEP_ROWS),
            is_remote: shared.store.limits().remote,
            environment: shared.environment.clone(),
        };
        let mut steps = steps.all().await?;
        let mut suspects = Vec::new();
        while let Some((_, read)) = steps.try_next().await? {
            if side == Side::Records {
                for row in read.rows.iter() {
                    self.note_misfit(claims, row, found)?;
                }
            }
            let pairs = read.rows.iter().map(|row| self.pair(claims, side, row));
            let pairs: Vec<Pair> = pairs.filter_map(Result::transpose).collect::<Result<_>>()?;
            match side {
                Side::Records => found.records += pairs.len() as u64,
                Side::Claims => found.entries += pairs.len() as u64,
            }
            suspects.extend(self.suspects_among(claims, side, pairs).await?);
            if suspects.len() >= MAX_SUSPECTS {
                self.judge(claims, side, std::mem::take(&mut suspects), found)
                    .await?;
            }
            rows += read.rows.len() as u64;
            (self.progress)(ViewProgress {
                collection: found.collection.clone(),
                view: found.view.clone(),
                step: "verifying".to_owned(),
                rows,
                ..ViewProgress::default()
            });
            tokio::time::sleep(pace.after(read.rows.len() as u64, &shared.environment)).await;
        }
        self.judge(claims, side, suspects, found).await
    }

    /// Counts a record whose values a constraint cannot store.
    fn note_misfit(&self, claims: &ClaimsTable, row: RowRef<'_>, found: &mut VerifiedView) -> Result<()> {
        let misfits = misfits_of(self.core, row)?.into_iter();
        for misfit in misfits.filter(|misfit| misfit.number == claims.number()) {
            count(&mut found.misfits, misfit.cause);
            if found.misfits.total() <= MAX_MISFIT_EXAMPLES as u64 {
                let listed = list(self.core, row, misfit);
                found.examples.push(Drift {
                    kind: MISFIT.to_owned(),
                    outcome: listed.reason(),
                    key: listed.key,
                });
            }
        }
        Ok(())
    }

    /// Returns the record and the claim that a row of either table belongs to; `None` if the row
    /// has no claim.
    fn pair(&self, claims: &ClaimsTable, side: Side, row: RowRef<'_>) -> Result<Option<Pair>> {
        if side == Side::Records {
            return self.claimed(claims, side, row);
        }
        let pair = claims.owner(row).map(|record| Pair {
            record,
            claim: claims.key(row),
            token: claims.token(row),
        });
        Ok(pair)
    }

    /// Returns the record and the claim that a row of the base table requires.
    fn claimed(&self, claims: &ClaimsTable, side: Side, row: RowRef<'_>) -> Result<Option<Pair>> {
        // On a store without transactions, an expired record's claim of its values remains for some
        // time. So an expired record needs no claim, but may have one.
        let claimed = claims_of(self.core, row, side == Side::Records)?;
        let key = (0..self.core.base().table.partition().len()).map(|column| row.get(column));
        Ok(claimed
            .into_iter()
            .find(|claim| claim.view == claims.number())
            .map(|claim| Pair {
                record: key.collect(),
                claim,
                token: None,
            }))
    }

    /// Returns the pairs of record and claim whose counterpart is missing in the other table.
    async fn suspects_among(&self, claims: &ClaimsTable, side: Side, pairs: Vec<Pair>) -> Result<Vec<Pair>> {
        let other = match side {
            Side::Records => Side::Claims,
            Side::Claims => Side::Records,
        };
        self.those(claims, (side, other), pairs, false).await
    }

    /// Reads suspected differences again, reports the pairs that are still wrong, and repairs them
    /// if requested.
    async fn judge(
        &self,
        claims: &ClaimsTable,
        side: Side,
        suspects: Vec<Pair>,
        found: &mut VerifiedView,
    ) -> Result<()> {
        if suspects.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(DOUBT_PAUSE).await;
        // Read the scanned side again before the other side, because a row that no longer exists
        // requires no counterpart.
        let left = self.those(claims, (side, side), suspects, true).await?;
        let wrong = self.suspects_among(claims, side, left).await?;
        let settled: Vec<_> = wrong
            .into_iter()
            .map(|pair| self.settle(side, pair).boxed())
            .collect();
        let mut settled = stream::iter(settled).buffer_unordered(PARALLEL_REPAIRS);
        while let Some((pair, outcome)) = settled.try_next().await? {
            self.note(side, &pair, outcome, found);
        }
        Ok(())
    }

    /// Repairs a pair whose counterpart is missing, if a repair was requested. Returns the pair
    /// with the outcome.
    async fn settle(&self, side: Side, pair: Pair) -> Result<(Pair, String)> {
        let outcome = if self.how.mends {
            self.repair(side, &pair).await?
        } else {
            String::new()
        };
        Ok((pair, outcome))
    }

    /// Returns the pairs of record and claim that exist on `side` if `has` is true, or that are
    /// missing on `side` if `has` is false. `met` is the side that was scanned.
    async fn those(
        &self,
        claims: &ClaimsTable,
        (met, side): (Side, Side),
        pairs: Vec<Pair>,
        has: bool,
    ) -> Result<Vec<Pair>> {
        let chunks: Vec<_> = pairs
            .chunks(CHUNK)
            .map(|chunk| {
                async move {
                    let are_there = match side {
                        Side::Claims => self.are_claimed(claims, chunk).await?,
                        Side::Records => self.have_values(claims, met, chunk).await?,
                    };
                    let pairs = chunk.iter().zip(are_there);
                    let pairs = pairs.filter(|(_, is_there)| *is_there == has);
                    Ok(pairs.map(|(pair, _)| pair.clone()).collect::<Vec<_>>())
                }
                .boxed()
            })
            .collect();
        stream::iter(chunks).buffered(PARALLEL_CHUNKS).try_concat().await
    }

    /// Returns, for each pair, whether the claims table has the claim of the record. Compares the
    /// token of the claim if it is known.
    async fn are_claimed(&self, claims: &ClaimsTable, pairs: &[Pair]) -> Result<Vec<bool>> {
        let keys: Vec<Option<Cells>> = pairs
            .iter()
            .map(|pair| Some(pair.claim.key.in_table(claims.table())?.0))
            .collect();
        let found = self.read(claims.table(), keys.iter().flatten()).await?;
        let mut found = found.iter();
        let is_claimed = |(pair, key): (&Pair, &Option<Cells>)| {
            let row = key.as_ref().and_then(|_| found.next()?.rows.iter().next());
            row.is_some_and(|row| {
                let is_of_token = pair.token.is_none() || claims.token(row) == pair.token;
                is_of_token && claims.owner(row).as_ref() == Some(&pair.record)
            })
        };
        Ok(pairs.iter().zip(&keys).map(is_claimed).collect())
    }

    /// Returns, for each pair, whether the record has the claimed values.
    async fn have_values(&self, claims: &ClaimsTable, met: Side, pairs: &[Pair]) -> Result<Vec<bool>> {
        let keys = pairs.iter().map(|pair| &pair.record);
        let found = self.read(&self.core.base().table, keys).await?;
        let has_values = |(pair, found): (&Pair, &RowsRead)| {
            let Some(row) = found.rows.iter().next() else {
                return Ok(false);
            };
            let has = self.claimed(claims, met, row)?;
            Ok(has.is_some_and(|has| has.claim == pair.claim))
        };
        pairs.iter().zip(&found).map(has_values).collect()
    }

    /// Reads rows by their partition keys, from a table with one row in each partition.
    async fn read(&self, table: &Arc<Table>, keys: impl Iterator<Item = &Cells>) -> Result<Vec<RowsRead>> {
        let shared = &self.core.shared;
        let read = |key: &Cells| PointRead {
            table: Arc::clone(table),
            partition: key.clone(),
            clustering: Cells::new(),
        };
        let reads: Vec<PointRead> = keys.map(read).collect();
        let snapshot = shared.store.snapshot()?;
        let read = async || Ok(snapshot.get_many(&reads, &shared.read_options()).await?);
        patiently(&shared.environment, read).await
    }

    /// Counts a difference, and adds it to the examples of the report.
    fn note(&self, side: Side, pair: &Pair, outcome: String, found: &mut VerifiedView) {
        let (kind, count) = match side {
            Side::Records => ("missing", &mut found.missing),
            Side::Claims => ("orphan", &mut found.orphan),
        };
        *count += 1;
        found.repaired += u64::from(outcome == REPAIRED);
        if found.examples.len() < MAX_EXAMPLES {
            found.examples.push(Drift {
                kind: kind.to_owned(),
                key: self.core.key_text(&pair.record, &Cells::new()),
                outcome,
            });
        }
    }

    /// Repairs a difference. Returns the outcome as text for the report.
    async fn repair(&self, side: Side, pair: &Pair) -> Result<String> {
        let numbers = [pair.claim.view];
        let repair = || match side {
            Side::Records => claim_as_it_is(self.core, &pair.record, &numbers).boxed(),
            Side::Claims => release_unheld(self.core, &pair.record, &pair.claim, pair.token).boxed(),
        };
        let repaired = patiently(&self.core.shared.environment, repair).await;
        match repaired {
            Ok(()) => Ok(REPAIRED.to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Timeout) => {
                Ok(error.to_string())
            }
            Err(error) => Err(error),
        }
    }
}

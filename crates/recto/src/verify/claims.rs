//! Claims of unique values, compared with their records: each record has its own, and there is no other.
//!
//! What seems wrong is read again after a while: a claim is there before its record.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, RowRef};
use recto_views::collection::KeyCells;
use recto_views::{ClaimsTable, EntryKey, Token, ViewNumber};

use super::{MISFIT, Steps, Verification};
use crate::core::CollectionCore;
use crate::error::{ErrorKind, Result};
use crate::misfits::{list, misfits_of};
use crate::pace::Pace;
use crate::session::{Drift, Progress, VerifiedView, ViewProgress};
use crate::settle::patiently;
use crate::writes::{claim_as_it_is, claims_of, get, release_unheld};

/// Rows read at a time.
const STEP_ROWS: u32 = 1_000;
/// Rows that are looked up at a time.
const READS_AT_ONCE: usize = 64;
/// Number of suspects that are looked at together, after one pause.
const MAX_SUSPECTS: usize = 8_192;
/// Pause before suspects are looked at: a write that is under way may put them right.
const DOUBT_PAUSE: Duration = Duration::from_millis(500);
/// The most examples of what is wrong with the claims of a constraint.
const MAX_EXAMPLES: usize = 20;

/// The most examples of records whose values cannot be kept, which leaves room for others.
const MAX_MISFIT_EXAMPLES: usize = MAX_EXAMPLES / 2;

/// What is said of what was mended.
const MENDED: &str = "mended";

/// The comparison of a collection's claims.
pub(super) struct Claims<'a> {
    how: &'a Verification,
    core: &'a Arc<CollectionCore>,
    progress: Progress<'a, ViewProgress>,
}

/// Which record should have which claim, or has.
#[derive(Debug, Clone)]
struct Pair {
    record: Cells,
    claim: EntryKey<KeyCells>,
    token: Option<Token>,
}

/// Of which two tables each row of one is looked up in the other.
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

    /// Compares the claims of each constraint that is ready, and returns the constraint's number with the findings. For each
    /// other constraint it adds a line to `left_out`.
    ///
    /// # Errors
    /// The store cannot be read, or written; a row is damaged.
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

    /// Looks at all records, or at all claims.
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

    /// Counts a record whose values cannot be kept.
    fn note_misfit(&self, claims: &ClaimsTable, row: RowRef<'_>, found: &mut VerifiedView) -> Result<()> {
        let misfits = misfits_of(self.core, row)?.into_iter();
        for misfit in misfits.filter(|misfit| misfit.number == claims.number()) {
            found.misfits.add(misfit.cause);
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

    /// What a row says, of either table; none if it claims nothing.
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

    /// What the row of a record claims.
    fn claimed(&self, claims: &ClaimsTable, side: Side, row: RowRef<'_>) -> Result<Option<Pair>> {
        // On a store without transactions the claim of one that has expired stays for a while.
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

    async fn suspects_among(&self, claims: &ClaimsTable, side: Side, pairs: Vec<Pair>) -> Result<Vec<Pair>> {
        let looks = pairs
            .into_iter()
            .map(|pair| self.seems_wrong(claims, side, pair).boxed());
        let looks: Vec<_> = looks.collect();
        let seems = stream::iter(looks).buffer_unordered(READS_AT_ONCE);
        seems
            .try_filter_map(|pair| async { Ok(pair) })
            .try_collect()
            .await
    }

    /// Looks at suspects again, reports those that are wrong, and repairs them if that was asked for.
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
        let settled = suspects
            .into_iter()
            .map(|pair| self.settle(claims, side, pair).boxed());
        let settled: Vec<_> = settled.collect();
        let mut settled = stream::iter(settled).buffer_unordered(READS_AT_ONCE);
        while let Some(wrong) = settled.try_next().await? {
            if let Some((pair, outcome)) = wrong {
                self.note(side, &pair, outcome, found);
            }
        }
        Ok(())
    }

    /// Looks at a suspect again, and repairs it if that was asked for. Returns it with the outcome if it was wrong still.
    async fn settle(&self, claims: &ClaimsTable, side: Side, pair: Pair) -> Result<Option<(Pair, String)>> {
        let environment = &self.core.shared.environment;
        if !patiently(environment, || self.is_wrong(claims, side, &pair)).await? {
            return Ok(None);
        }
        let outcome = if self.how.mends {
            self.mend(side, &pair).await?
        } else {
            String::new()
        };
        Ok(Some((pair, outcome)))
    }

    /// Returns whether the pair is wrong still. The side that must have the other is read first.
    async fn is_wrong(&self, claims: &ClaimsTable, side: Side, pair: &Pair) -> Result<bool> {
        let is_wrong = match side {
            Side::Records => {
                self.has_values(claims, side, pair).await? && !self.is_claimed(claims, pair).await?
            }
            Side::Claims => {
                self.is_claimed(claims, pair).await? && !self.has_values(claims, side, pair).await?
            }
        };
        Ok(is_wrong)
    }

    async fn seems_wrong(&self, claims: &ClaimsTable, side: Side, pair: Pair) -> Result<Option<Pair>> {
        let is_right = async || match side {
            Side::Records => self.is_claimed(claims, &pair).await,
            Side::Claims => self.has_values(claims, side, &pair).await,
        };
        let is_right = patiently(&self.core.shared.environment, is_right).await?;
        Ok((!is_right).then_some(pair))
    }

    /// Whether the claim is the record's, by this token if it is known.
    async fn is_claimed(&self, claims: &ClaimsTable, pair: &Pair) -> Result<bool> {
        let Some((partition, _)) = pair.claim.key.in_table(claims.table()) else {
            return Ok(false);
        };
        let rows = get(self.core, claims.table(), &partition).await?;
        let is_of = |row: RowRef<'_>| {
            let is_of_token = pair.token.is_none() || claims.token(row) == pair.token;
            is_of_token && claims.owner(row).as_ref() == Some(&pair.record)
        };
        Ok(rows.iter().next().is_some_and(is_of))
    }

    /// Whether the record has the values that the claim is of.
    async fn has_values(&self, claims: &ClaimsTable, side: Side, pair: &Pair) -> Result<bool> {
        let rows = get(self.core, &self.core.base().table, &pair.record).await?;
        let Some(row) = rows.iter().next() else {
            return Ok(false);
        };
        let has = self.claimed(claims, side, row)?;
        Ok(has.is_some_and(|has| has.claim == pair.claim))
    }

    /// Counts and lists what is wrong.
    fn note(&self, side: Side, pair: &Pair, outcome: String, found: &mut VerifiedView) {
        let (kind, count) = match side {
            Side::Records => ("missing", &mut found.missing),
            Side::Claims => ("orphan", &mut found.orphan),
        };
        *count += 1;
        found.mended += u64::from(outcome == MENDED);
        if found.examples.len() < MAX_EXAMPLES {
            found.examples.push(Drift {
                kind: kind.to_owned(),
                key: self.core.key_text(&pair.record, &Cells::new()),
                outcome,
            });
        }
    }

    /// Repairs what is wrong, and returns the outcome.
    async fn mend(&self, side: Side, pair: &Pair) -> Result<String> {
        let numbers = [pair.claim.view];
        let mend = || match side {
            Side::Records => claim_as_it_is(self.core, &pair.record, &numbers).boxed(),
            Side::Claims => release_unheld(self.core, &pair.record, &pair.claim, pair.token).boxed(),
        };
        let mended = patiently(&self.core.shared.environment, mend).await;
        match mended {
            Ok(()) => Ok(MENDED.to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Timeout) => {
                Ok(error.to_string())
            }
            Err(error) => Err(error),
        }
    }
}

//! Maintenance of an open store, for sessions.

use std::path::Path;

use async_trait::async_trait;
use recto_model::schema::Schema;

use crate::bucketed;
use crate::error::Result;
use crate::open;
use crate::recto::Recto;
use crate::session::{
    Applied, ApplyOptions, Backup, BucketList, BucketPartitions, BucketsRequest, CheckOutcome, CommitLog,
    CursorKey, ErrorHandler, FindingHandler, LoadProgress, LoadReport, LoadRequest, Progress,
    RebalanceProgress, RebalanceReport, RebalanceRequest, RecoveryPass, RowSizes, SchemaPlan, StoreProgress,
    Tools, VerifyReport, VerifyRequest, ViewProgress, ViewStatus,
};

/// Maintenance operations of an open store. Only an unrestricted session offers them.
#[derive(Debug, Clone)]
pub(super) struct LocalTools {
    pub(super) recto: Recto,
}

#[async_trait]
impl Tools for LocalTools {
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        self.recto.plan_with(schema, options).await
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        self.recto.apply_telling(schema, options, progress).await
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        self.recto.views().await
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        self.recto.verify(request, progress).await
    }

    async fn recover(
        &self,
        goes_on: FindingHandler<'_, RecoveryPass>,
        bears: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        if self.recto.store().limits().transactions {
            return Ok(None);
        }
        let pass = self.recto.recover_bearing(|pass| goes_on(*pass), bears).await;
        pass.map(Some)
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        let names = request.collections.iter();
        let collections = names
            .map(|name| self.recto.core(name))
            .collect::<Result<Vec<_>>>()?;
        crate::load::load(&collections, request, progress).await
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let bytes = open::backup(self.recto.operations(), to, progress).await?;
        let folder = to.display().to_string();
        Ok(Backup { bytes, folder })
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        open::compact(self.recto.operations(), progress).await
    }

    async fn commit_log(&self) -> Result<Option<CommitLog>> {
        Ok(self.recto.commit_log())
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        self.recto.cursor_keys().await
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        self.recto.rotate_cursor_keys(earlier).await
    }

    async fn row_sizes(&self, collection: &str) -> Result<RowSizes> {
        crate::scan::row_sizes(self.recto.handle(collection)?).await
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        bucketed::partitions(&*self.recto.core(collection)?, request).await
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        bucketed::buckets(&*self.recto.core(collection)?, request).await
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        bucketed::rebalance(&*self.recto.core(collection)?, request, progress).await
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        let mut outcome = open::check(
            self.recto.operations(),
            self.recto.store(),
            &self.recto.recorded(),
            self.recto.reach(),
            progress,
        )
        .await?;
        let clock = self.recto.check_clock().await;
        let note = |warning| format!("{warning}; {}", clock.hint().unwrap_or_default());
        outcome.notes.extend(clock.warning().map(note));
        Ok(outcome)
    }
}

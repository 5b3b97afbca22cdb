//! Loading files.
use std::sync::Arc;

use crate::core::CollectionCore;
use crate::error::Result;
use crate::session::{LoadProgress, LoadReport, LoadRequest, Progress};

pub(crate) async fn load(
    _collections: &[Arc<CollectionCore>],
    _request: &LoadRequest,
    _progress: Progress<'_, LoadProgress>,
) -> Result<LoadReport> {
    todo!()
}

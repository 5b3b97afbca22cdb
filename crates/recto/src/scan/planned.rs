//! Scans that read the rows of a plan, page after page.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use recto_plan::scan_token::ScanProgress;

use super::token::Seal;
use super::{Rows, Step, Steps};
use crate::error::{Error, Result};
use crate::keys::check_position;
use crate::query::PageQuery;
use crate::record::DynamicRecord;
use recto_api::pages::MAX_PAGE_SIZE;

/// Returns the pages of `query` as steps of a scan, from the beginning or from the position in the
/// token `resume`.
pub(super) async fn begin(
    query: PageQuery<DynamicRecord>,
    rows: &Rows,
    resume: Option<String>,
) -> Result<Steps> {
    let seal = rows.seal();
    let mut query = query.page_size(MAX_PAGE_SIZE);
    if let Some(token) = resume {
        let ScanProgress::Position(position) = seal.open(&token).await? else {
            return Err(Seal::unknown());
        };
        let planned = Arc::clone(&query.prepared()?.candidates[0]);
        check_position(&planned.plan, &position)?;
        query = query.at(planned, position);
    }
    let query = query.decoded_by(|_, _, _| Ok(()));
    let steps = stream::try_unfold((seal, Some(query)), |(seal, query)| async move {
        let Some(query) = query else {
            return Ok::<_, Error>(None);
        };
        let page = query.clone().fetch().await?;
        let next = page.next_position();
        let resume = match &next {
            Some(position) => Some(seal.seal(&ScanProgress::Position(position.clone()))?),
            None => None,
        };
        let planned = Arc::clone(page.planned());
        let next = next.map(|position| query.at(planned, position));
        let rows = page.into_rows();
        Ok(Some((Step { rows, resume }, (seal, next))))
    });
    Ok(steps.boxed())
}

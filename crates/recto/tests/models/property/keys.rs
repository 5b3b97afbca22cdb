//! Checks of reads by key and of scans of whole collections.

use std::sync::Arc;

use futures::StreamExt;
use recto::LocalSession;
use recto::session::{Pages, ScanRequest};
use recto_plan::text::MAX_TEXT_BYTES;
use recto_testkit::generate::Change;
use recto_testkit::oracle::{Oracle, Row};

use super::loaded_case::{Failure, LoadedCase, ensure};

/// Maximum number of table ranges that a scan reads concurrently.
const MAX_PARALLEL: usize = 6;

/// Checks that reads by key find exactly the existing rows, and that a scan finds all rows of the
/// oracle.
pub(crate) async fn and_scans(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    if asked.subject.view.is_some() {
        // Reads by key and scans use the base table, whose key differs from the key of the tested
        // view. Skip them.
        return Ok(());
    }
    for page in &asked.case.moves {
        let there = asked.subject.oracle.rows();
        let mut keys: Vec<Row> = page
            .row
            .checked_rem(there.len())
            .map(|index| there[index].clone())
            .into_iter()
            .collect();
        keys.extend(page.writes.iter().filter_map(|change| match change {
            Change::Put(row) => Some(row.clone()),
            Change::Delete(_) => None,
        }));
        for row in keys {
            let key = asked.subject.key(&row);
            let found = asked.subject.collection.get(key.as_slice()).await;
            let found = found.map_err(|error| Failure::of(&error, "by key"))?;
            let found: Vec<Row> = found.iter().map(|record| record.values().to_vec()).collect();
            let expected: Vec<Row> = asked.subject.oracle.get(&row).cloned().into_iter().collect();
            asked.same_rows(&found, &expected, "by key")?;
        }
    }
    let all = asked.subject.oracle.rows().to_vec();
    scan(asked, String::new(), &all).await?;
    // A scan must accept every filter, even if pages cannot be served for it.
    let filter = asked.case.question.filter_text(&asked.subject.definition);
    if filter.len() > MAX_TEXT_BYTES {
        return Ok(());
    }
    let sequence = asked.subject.oracle.ask(&asked.case.question);
    scan(asked, filter, sequence.rows()).await
}

/// Checks that a scan with the given filter finds each row in `rows` once, and no other row.
async fn scan(asked: &mut LoadedCase<'_>, filter: String, rows: &[Row]) -> Result<(), Failure> {
    let session = LocalSession::new(asked.subject.recto.clone());
    let what = format!("scanned, {filter:?}");
    let mut wanted = Oracle::new(Arc::clone(&asked.subject.definition));
    for row in rows {
        wanted.put(row.clone());
    }
    let mut request = ScanRequest {
        filter,
        parallel: (asked.page_move(0).row % MAX_PARALLEL) as u32,
        ..ScanRequest::default()
    };
    let mut found = 0;
    loop {
        // Drop each scan after one step, and resume with its token.
        let mut steps = session.scan(&asked.case.collection.name, &request);
        let Some(step) = steps.next().await else { break };
        let step = step.map_err(|error| Failure::of(&error, "scan"))?;
        asked.pages += 1;
        for record in &step.records {
            let row = asked.subject.row(&serde_json::Value::Object(record.clone()));
            let expected: Vec<Row> = wanted.get(&row).cloned().into_iter().collect();
            asked.same_rows(&[row], &expected, &what)?;
            found += 1;
        }
        request.resume_token = step.resume;
        if request.resume_token.is_none() {
            break;
        }
    }
    ensure!(found == rows.len(), "{found} of {} rows {what}", rows.len());
    Ok(())
}

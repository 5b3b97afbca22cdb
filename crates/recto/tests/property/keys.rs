//! Beside the guarantees of pages: reads by key, and scans of whole collections.

use futures::StreamExt;
use recto::session::ScanRequest;
use recto::{LocalSession, Session};
use recto_testkit::generate::Change;
use recto_testkit::oracle::Row;

use super::asked::{Asked, Failure, ensure};

/// The most token ranges read side by side.
const MAX_PARALLEL: usize = 6;

/// Reads by key, of rows there are and of others, and a scan of everything find what the oracle has.
pub(crate) async fn and_scans(asked: &mut Asked<'_>) -> Result<(), Failure> {
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
    scan(asked).await
}

async fn scan(asked: &mut Asked<'_>) -> Result<(), Failure> {
    let session = LocalSession::new(asked.subject.recto.clone());
    let mut request = ScanRequest {
        fields: Vec::new(),
        parallel: (asked.page_move(0).row % MAX_PARALLEL) as u32,
        ..ScanRequest::default()
    };
    let mut found = 0;
    loop {
        // Each step is one of a scan of its own, which resumes the one before.
        let mut steps = session.scan(&asked.case.collection.name, &request);
        let Some(step) = steps.next().await else { break };
        let step = step.map_err(|error| Failure::of(&error, "scan"))?;
        asked.pages += 1;
        for record in &step.records {
            let row = asked.subject.row(&serde_json::Value::Object(record.clone()));
            let expected = asked.subject.oracle.get(&row).cloned();
            asked.same_rows(&[row], &expected.into_iter().collect::<Vec<_>>(), "scanned")?;
            found += 1;
        }
        request.resume = step.resume;
        if request.resume.is_none() {
            break;
        }
    }
    let all = asked.subject.oracle.rows().len();
    ensure!(found == all, "{found} of {all} rows scanned");
    Ok(())
}

//! Pages, scans and lists of partitions in a session on an open store.

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use recto_plan::cursor::{CursorError, CursorName};

use super::LocalSession;
use crate::error::{Error, ErrorKind, Part, Result, of_cursor};
use crate::explain;
use crate::page::Page;
use crate::page_text;
use crate::paging::Place;
use crate::partitions;
use crate::query::PageQuery;
use crate::record::{DynamicRecord, check_fields};
use crate::scan;
use crate::session::{
    ActualCost, Choices, Explanation, JsonRecord, PageReply, PageRequest, PageText, Pages, ScanRequest,
    ScanStep,
};

#[async_trait]
impl Pages for LocalSession {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let query = self.query(collection, request)?;
        // Do not decode whole records, because a field that was not requested may have
        // an unreadable value.
        let page = query.decoded_by(|_, _, _| Ok(())).await;
        let page = page.map_err(|error| told(error, request))?;
        let (core, sort_order, fields) = (page.core(), page.sort_order(), &request.fields);
        let records = page.rows().iter().map(|row| {
            let record = DynamicRecord::read_fields(core, sort_order, row, fields);
            record.map(|record| record.to_json_of(fields))
        });
        Ok(PageReply {
            records: records.collect::<Result<_>>()?,
            ..reply(&page, request)
        })
    }

    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let query = self.query(collection, request)?;
        // Write the rows to the text as they are stored, without creating records.
        let page = query.decoded_by(|_, _, _| Ok(())).await;
        let page = page.map_err(|error| told(error, request))?;
        let records = page_text::records(&page, &request.fields)?;
        let reply = reply(&page, request);
        // The digest includes the versions, because a record can get a new version while its
        // fields stay the same.
        let versions = reply.versions.iter().flatten().flatten();
        // The digest includes the counts, because they also change with rows of other pages.
        let counted = reply.row_count.iter().flat_map(|count| {
            let offset = [count.offset, count.offset_error].map(Option::unwrap_or_default);
            let is_minimum = u64::from(count.total_size_is_minimum);
            [
                count.total_size,
                count.total_size_error,
                is_minimum,
                offset[0],
                offset[1],
            ]
        });
        let counted = counted.flat_map(u64::to_be_bytes);
        let versions = versions.flat_map(|version| version.to_be_bytes());
        let versions: Vec<u8> = versions.chain(counted).collect();
        let ring = page.core().shared.keys.ring();
        Ok(PageText {
            digest: Some(if versions.is_empty() {
                ring.digest(records.as_bytes())
            } else {
                ring.digest(&[records.as_bytes(), &versions].concat())
            }),
            records,
            count: page.len(),
            reply,
        })
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let query = self.query(collection, request)?;
        let prepared = query.prepared()?;
        let spec = query.spec(&prepared).await;
        let (planned, mut spec) = spec.map_err(|error| told(error, request))?;
        if planned.hides {
            // If the previous page ended among hidden rows, its position is the key of a hidden
            // row. So do not show the position.
            spec.place = Place::First;
        }
        if !run || planned.hides {
            return Ok(explain::explain(&prepared.core, &planned, &spec, &[]));
        }
        let page = query.await?;
        // Explain after the page was read, because only then its buckets are known.
        let explanation = explain::explain(&prepared.core, &planned, &spec, page.buckets());
        Ok(Explanation {
            actual: Some(ActualCost {
                cost: page.cost(),
                rows_returned: page.len() as u64,
            }),
            ..explanation
        })
    }

    async fn choices(&self, collection: &str, request: &PageRequest) -> Result<Choices> {
        self.query(collection, request)?.choices()
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let collection = collection.to_owned();
        let request = request.clone();
        let begin = async move {
            let handle = self.recto().handle(&collection)?;
            let filters = self.filters(&collection).unwrap_or_default().to_vec();
            Ok::<_, Error>(scan::steps(&handle, filters, request))
        };
        futures::stream::once(begin).try_flatten().boxed()
    }

    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let collection = collection.to_owned();
        let begin = async move {
            let core = self.recto().core(&collection)?;
            let filters = self.filters(&collection).unwrap_or_default().to_vec();
            Ok::<_, Error>(partitions::steps(core, filters))
        };
        futures::stream::once(begin).try_flatten().boxed()
    }
}

impl LocalSession {
    fn query(&self, collection: &str, request: &PageRequest) -> Result<PageQuery<DynamicRecord>> {
        let collection = self.recto().dynamic(collection)?;
        let definition = collection.definition();
        check_fields(&definition, &request.fields)?;
        let mut query = collection
            .query()
            .filter(&request.filter)
            .order_by(&request.order_by)
            .view(&request.view)
            .looking_at(&request.fields)
            .page_size(page_size(request.page_size)?);
        if self.rows.is_some() {
            let filters = self.filters(&definition.name);
            query = query.restricted(filters.unwrap_or_default());
        }
        if request.allow_filter_scan {
            query = query.allow_filter_scan();
        }
        if request.both_edges {
            query = query.both_edges();
        }
        if !request.page_token.is_empty() {
            query = query.page_token(&request.page_token);
        }
        if request.last {
            let size = page_size(request.page_size)?;
            query = query.last(size);
        }
        if let Some(from) = &request.from {
            query = query.from_json(from);
        }
        if let Some(around) = &request.around {
            query = match around.strip_suffix('%') {
                Some(percent) => query.around_percent(percent.trim().parse().unwrap_or(f64::NAN)),
                None => query.around(around),
            };
        }
        if let Some(rows) = request.skip {
            query = query.skip(not_negative(rows)?);
        }
        if let Some(count) = request.count {
            query = query.count(count);
        }
        Ok(query)
    }
}

/// Converts the number of rows to skip. Rejects a negative number.
fn not_negative(rows: i64) -> Result<u64> {
    u64::try_from(rows).map_err(|_| {
        Error::new(
            ErrorKind::InvalidQuery,
            format!("skip is {rows}; it cannot be negative"),
        )
        .with_part(Part::Skip)
    })
}

/// Returns the page size by AIP-158: 0 or absent means the default, and a negative number is
/// rejected. A number above the maximum is reduced to the maximum later.
fn page_size(asked: Option<i64>) -> Result<u32> {
    match asked.unwrap_or(0) {
        negative if negative < 0 => Err(Error::new(
            ErrorKind::InvalidQuery,
            format!("page_size is {negative}; it cannot be negative"),
        )
        .with_part(Part::PageSize)),
        asked => Ok(u32::try_from(asked).unwrap_or(u32::MAX)),
    }
}

/// Converts an error about a cursor to the terms of sessions, which call cursors page tokens or row
/// tokens.
fn told(error: Error, request: &PageRequest) -> Error {
    let name = match request.around {
        Some(_) => CursorName::RowToken,
        None => CursorName::PageToken,
    };
    match error.cause::<CursorError>() {
        Some(cause) => of_cursor(cause, name),
        None => error,
    }
}

/// Returns the reply for a page, without the page's records.
fn reply<T>(page: &Page<T>, request: &PageRequest) -> PageReply {
    let text = |cursor: Option<recto_plan::cursor::Cursor>| cursor.map(String::from).unwrap_or_default();
    PageReply {
        records: Vec::new(),
        next_page_token: text(page.next_cursor()),
        previous_page_token: text(page.previous_cursor()),
        stop: page.stop(),
        row_page_tokens: request.row_page_tokens.then(|| {
            (0..page.len())
                .map(|index| page.cursor(index).into_string())
                .collect()
        }),
        versions: request
            .versions
            .then(|| (0..page.len()).map(|index| page.version(index)).collect()),
        row_count: page.row_count(),
        // Do not report how many records the view lacks, because hidden records count too.
        lacks: if page.hides() { 0 } else { page.lacks() },
        shape: Some(page.shape()),
        cost: page.cost(),
        cost_hidden: page.hides(),
    }
}

//! Reading a whole collection, in the store's token order.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::stream::{self, Stream, StreamExt};
use recto_model::RowSet;
use recto_store::{ScanPosition, TokenRange};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};

/// Token ranges read side by side unless told otherwise.
const DEFAULT_PARALLEL: u32 = 4;
/// The most token ranges read side by side.
const MAX_PARALLEL: u32 = 64;
/// Rows read of a range at a time.
const STEP_ROWS: u32 = 1_000;
/// The version of resume tokens.
const TOKEN_VERSION: u8 = 1;
/// The most token ranges of one scan, and so of a resume token. Stores make about as many as are
/// asked for.
const MAX_RANGES: usize = 1_024;
/// The longest resume token.
const MAX_TOKEN_CHARACTERS: usize = 1 << 20;

/// One range of a scan and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    range: TokenRange,
    after: Option<ScanPosition>,
}

/// A scan: the ranges not read to their end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    ranges: Vec<Option<Range>>,
}

/// A step of a scan: rows, and the token to go on after them.
pub(crate) struct Step {
    pub(crate) rows: RowSet,
    pub(crate) resume: Option<String>,
}

/// All rows of a collection, in steps. Nothing is read until the stream is polled; at most
/// `parallel` steps are read ahead.
pub(crate) fn scan(
    core: Arc<CollectionCore>,
    parallel: u32,
    resume: Option<String>,
) -> impl Stream<Item = Result<Step>> + Send {
    let begin = async move {
        let progress = match resume {
            Some(token) => Progress::from_token(&core, &token)?,
            None => Progress::begin(&core, parallel).await?,
        };
        Ok::<_, Error>(run(core, progress))
    };
    stream::once(begin).flat_map(|begun| match begun {
        Ok(steps) => steps.left_stream(),
        Err(error) => stream::once(async { Err(error) }).right_stream(),
    })
}

fn run(core: Arc<CollectionCore>, progress: Progress) -> impl Stream<Item = Result<Step>> + Send {
    let readers = progress.ranges.iter().enumerate().filter_map(|(index, range)| {
        let range = range.clone()?;
        Some(read_range(Arc::clone(&core), index, range).boxed())
    });
    let readers: Vec<_> = readers.collect();
    let merged = stream::iter(readers).flatten_unordered(Some(MAX_PARALLEL as usize));
    let collection = core.definition.name.clone();
    merged.scan((progress, false), move |(progress, failed), step| {
        if *failed {
            return std::future::ready(None);
        }
        let step = step.map(|(index, rows, next)| {
            progress.ranges[index] = next;
            Step {
                rows,
                resume: progress.to_token(&collection),
            }
        });
        *failed = step.is_err();
        std::future::ready(Some(step))
    })
}

type RangeStep = (usize, RowSet, Option<Range>);

/// The steps of one range; each says how far the range is after it.
fn read_range(
    core: Arc<CollectionCore>,
    index: usize,
    range: Range,
) -> impl Stream<Item = Result<RangeStep>> + Send {
    stream::try_unfold(Some(range), move |range| {
        let core = Arc::clone(&core);
        async move {
            let Some(range) = range else { return Ok(None) };
            let view = core.shared.store.view()?;
            let table = &core.base().table;
            let read = view
                .scan(
                    table,
                    &range.range,
                    range.after.as_ref(),
                    STEP_ROWS,
                    &core.shared.read_options(),
                )
                .await?;
            let next = read.next.map(|after| Range {
                range: range.range,
                after: Some(after),
            });
            Ok(Some(((index, read.rows, next.clone()), next)))
        }
    })
}

impl Progress {
    async fn begin(core: &CollectionCore, parallel: u32) -> Result<Self> {
        let parallel = if parallel == 0 {
            DEFAULT_PARALLEL
        } else {
            parallel.min(MAX_PARALLEL)
        };
        let view = core.shared.store.view()?;
        let ranges = view.token_ranges(&core.base().table, parallel).await?;
        Ok(Self {
            ranges: ranges
                .into_iter()
                .map(|range| Some(Range { range, after: None }))
                .collect(),
        })
    }

    /// A token is the ranges left, with how far each is. It holds keys in the store's own form and is
    /// for whoever may read the whole collection anyway, so it is not sealed; but it is bound to the
    /// collection and its bytes are checked.
    fn to_token(&self, collection: &str) -> Option<String> {
        let left: Vec<&Range> = self.ranges.iter().flatten().collect();
        if left.is_empty() {
            return None;
        }
        let mut bytes = vec![TOKEN_VERSION];
        put(&mut bytes, collection.as_bytes());
        for range in left {
            put(&mut bytes, &range.range.start);
            put(&mut bytes, &range.range.end);
            match &range.after {
                None => bytes.push(0),
                Some(ScanPosition(position)) => {
                    bytes.push(1);
                    put(&mut bytes, position);
                }
            }
        }
        let check = blake3::hash(&bytes);
        bytes.extend_from_slice(&check.as_bytes()[..8]);
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn from_token(core: &CollectionCore, token: &str) -> Result<Self> {
        let damaged = || {
            Error::new(
                ErrorKind::InvalidCursor,
                "the resume token is damaged or not one of a scan",
            )
            .with_hint("scan from the beginning, or give the token exactly as the scan gave it")
        };
        if token.len() > MAX_TOKEN_CHARACTERS {
            return Err(damaged());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| damaged())?;
        let (bytes, check) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
        if blake3::hash(bytes).as_bytes()[..8] != check[..] {
            return Err(damaged());
        }
        let (&version, mut rest) = bytes.split_first().ok_or_else(damaged)?;
        if version != TOKEN_VERSION {
            return Err(damaged());
        }
        let collection = take(&mut rest).ok_or_else(damaged)?;
        if collection != core.definition.name.as_bytes() {
            return Err(Error::new(
                ErrorKind::InvalidCursor,
                format!(
                    "the resume token is of a scan of {}",
                    String::from_utf8_lossy(&collection)
                ),
            )
            .with_hint("give it to a scan of the collection that made it"));
        }
        let mut ranges = Vec::new();
        while !rest.is_empty() {
            if ranges.len() == MAX_RANGES {
                return Err(damaged());
            }
            ranges.push(Some(take_range(&mut rest).ok_or_else(damaged)?));
        }
        Ok(Self { ranges })
    }
}

fn take_range(rest: &mut &[u8]) -> Option<Range> {
    let range = TokenRange {
        start: take(rest)?,
        end: take(rest)?,
    };
    let (&has_position, after) = rest.split_first()?;
    *rest = after;
    let after = if has_position == 1 {
        Some(ScanPosition(take(rest)?))
    } else {
        None
    };
    Some(Range { range, after })
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
    bytes.extend_from_slice(part);
}

fn take(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (part, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(part.to_vec())
}

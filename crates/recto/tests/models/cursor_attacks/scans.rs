//! Attacks on the resume tokens of scans. A token must resume only the scan that created it, and
//! only in sessions that may see the same rows.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt as _;
use recto::session::{PageRequest, Pages, ScanRequest, ScanStep};
use recto::{Error, ErrorKind, LocalSession, OpenOptions, Recto};
use recto_plan::cursor::CursorError;
use recto_plan::scan_token::ScanTokenError;

use super::support::{BEGIN_SECONDS, Clock, SCHEMA, fresh, kind, other, refused, rows_of};

/// Partitions with rows. [`ROWS`] is the number of rows of each partition.
const STREAMS: [&str; 6] = ["a", "b", "c", "d", "e", "scanned"];
const ROWS: i32 = 30;

/// Returns a session on a new store that has rows in several partitions.
async fn filled(recto: &Recto, options: OpenOptions) -> LocalSession {
    let recto = fresh(kind(recto), SCHEMA, options).await;
    for stream in STREAMS {
        rows_of(&recto, "events", stream, ROWS).await;
    }
    LocalSession::new(recto)
}

fn asking(filter: &str, resume: Option<&str>) -> ScanRequest {
    ScanRequest {
        filter: filter.to_owned(),
        resume_token: resume.map(str::to_owned),
        // With four parallel reads, the embedded store also splits the scan into several ranges.
        parallel: 4,
        ..ScanRequest::default()
    }
}

fn restricted(session: &LocalSession, rows: &str) -> LocalSession {
    session.restricted(BTreeMap::from([("events".to_owned(), rows.to_owned())]))
}

async fn first(session: &LocalSession, filter: &str, resume: Option<&str>) -> Result<ScanStep, Error> {
    let mut steps = session.scan("events", &asking(filter, resume));
    steps.next().await.unwrap()
}

/// Returns the resume token that a scan reports after its first step.
async fn token(session: &LocalSession, filter: &str) -> String {
    first(session, filter, None).await.unwrap().resume.unwrap()
}

/// Returns the reason why a scan rejects a token. Asserts that the error has a hint.
async fn refusal(session: &LocalSession, filter: &str, text: &str) -> ScanTokenError {
    let error = first(session, filter, Some(text)).await.expect_err(text);
    assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{error}");
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{error}");
    let reason = error.source().unwrap().downcast_ref::<ScanTokenError>();
    reason.unwrap().clone()
}

/// Interrupts a scan after every step and resumes it. Returns all rows, and the number of steps.
async fn all(session: &LocalSession, filter: &str) -> (Vec<(String, i64)>, usize) {
    let (mut found, mut resume, mut steps) = (Vec::new(), None::<String>, 0);
    loop {
        let step = first(session, filter, resume.as_deref()).await.unwrap();
        steps += 1;
        let key = |record: &recto::session::JsonRecord| {
            let stream = record["stream"].as_str().unwrap().to_owned();
            (stream, record["at"].as_i64().unwrap())
        };
        found.extend(step.records.iter().map(key));
        match step.resume {
            Some(token) => resume = Some(token),
            None => return (found, steps),
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) async fn every_flipped_bit_is_refused(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let token = token(&session, "").await;
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit {
            0..8 => ScanTokenError::NotOfScan,
            8..16 => ScanTokenError::UnknownFormat { version: altered[1] },
            _ => ScanTokenError::NotOurs,
        };
        assert_eq!(refusal(&session, "", &text_of(&altered)).await, expected, "{bit}");
    }
    first(&session, "", Some(&token)).await.unwrap();
}

pub(crate) async fn every_truncation_and_extension_is_refused(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let token = token(&session, "").await;
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    // An empty token is valid and means the beginning, so begin with one byte.
    for length in 1..bytes.len() {
        refusal(&session, "", &text_of(&bytes[..length])).await;
        let longer = [&bytes[..length], &[0; 256], &bytes[length..]].concat();
        refusal(&session, "", &text_of(&longer)).await;
    }
    for text in ["R", "Ug", "UgE", "null", "../..", "🙂🙂🙂🙂"] {
        refusal(&session, "", text).await;
    }
    for more in ["A", "AAAA", "=", " ", "\0", &token] {
        refusal(&session, "", &format!("{token}{more}")).await;
        refusal(&session, "", &format!("{more}{token}")).await;
    }
}

/// Checks that a scan rejects the cursor of a page, and a page rejects the resume token of a scan,
/// for both kinds of scans.
pub(crate) async fn cursors_and_tokens_are_no_substitutes(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let filter = r#"stream = "scanned""#;
    let request = PageRequest {
        filter: filter.to_owned(),
        page_size: Some(3),
        row_page_tokens: true,
        ..PageRequest::default()
    };
    let page = session.page("events", &request).await.unwrap();
    let cursors = page.row_page_tokens.unwrap();
    for cursor in cursors.iter().chain([&page.next_page_token]) {
        for filter in ["", filter] {
            assert_eq!(refusal(&session, filter, cursor).await, ScanTokenError::NotOfScan);
        }
    }
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let query = rows_of(&recto, "events", "scanned", 1_100).await;
    let session = LocalSession::new(recto);
    for filter in ["", filter] {
        let token = token(&session, filter).await;
        assert_eq!(refused(&query, &token).await, CursorError::OfScan);
    }
}

/// Checks that a scan rejects a token of a scan with other conditions on the same collection and
/// keys. The conditions differ in the filter, or in the session's row filter.
pub(crate) async fn other_filters_and_row_filters_are_refused(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let of_all = token(&session, "").await;
    let late = token(&session, "at >= 3").await;
    for filter in ["at >= 4", "at > 3", "at >= 3 AND at < 50", "note = \"x\""] {
        assert_eq!(
            refusal(&session, filter, &of_all).await,
            ScanTokenError::OtherFilter
        );
        assert_eq!(
            refusal(&session, filter, &late).await,
            ScanTokenError::OtherFilter
        );
    }
    // A token of a session that sees more rows, or other rows, must be rejected, although both
    // sessions use the same keys.
    let mine = restricted(&session, "note >= \"note 1\"");
    let theirs = restricted(&session, "note < \"note 1\"");
    let token_of_theirs = token(&theirs, "").await;
    for foreign in [&of_all, &late, &token_of_theirs] {
        for filter in ["", "at >= 3", "note < \"note 1\""] {
            assert_eq!(refusal(&mine, filter, foreign).await, ScanTokenError::OtherFilter);
        }
    }
    let of_mine = token(&mine, "").await;
    assert_eq!(refusal(&session, "", &of_mine).await, ScanTokenError::OtherFilter);
    // A session without a row filter can use the same condition as its filter. It then selects the
    // same rows, so the token must be valid.
    first(&session, "note >= \"note 1\"", Some(&of_mine))
        .await
        .unwrap();
    // The token must contain no text of the hidden rows.
    let bytes = URL_SAFE_NO_PAD.decode(&of_mine).unwrap();
    for hidden in STREAMS.iter().filter(|stream| stream.len() > 1) {
        assert!(!bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes()));
    }
}

pub(crate) async fn other_collections_and_sort_orders_are_refused(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let token = token(&session, "").await;
    let mut steps = session.scan("twins", &asking("", Some(&token)));
    let error = steps.next().await.unwrap().unwrap_err();
    let reason = error.source().unwrap().downcast_ref::<ScanTokenError>().unwrap();
    assert_eq!(*reason, ScanTokenError::OtherCollection);
    drop(steps);
    let keyed = filled(&recto, OpenOptions::new()).await;
    assert_eq!(refusal(&keyed, "", &token).await, ScanTokenError::NotOurs);
    let keys = fresh(kind(&recto), SCHEMA, OpenOptions::new())
        .await
        .export_cursor_keys();
    let options = || OpenOptions::new().cursor_keys(&keys);
    let token = self::token(&filled(&recto, options()).await, "").await;
    let other_order = SCHEMA.replacen("order = [\"-at\"]", "order = [\"at\"]", 1);
    let arranged = fresh(kind(&recto), &other_order, options()).await;
    let reason = refusal(&LocalSession::new(arranged), "", &token).await;
    assert_eq!(reason, ScanTokenError::OtherSortOrder);
}

/// Checks tokens on another kind of store. A token of a scan of all rows must be rejected, because
/// each kind of store has its own order. If pages can be served for the filter of a scan, its token
/// is a position in their order. Such a token must continue on a copy of the rows in any store.
pub(crate) async fn on_the_other_kind_of_store(recto: Recto) {
    let keys = fresh(kind(&recto), SCHEMA, OpenOptions::new())
        .await
        .export_cursor_keys();
    let mut sessions = Vec::new();
    for kind in [kind(&recto), other(kind(&recto))] {
        let options = OpenOptions::new().cursor_keys(&keys);
        let recto = fresh(kind, SCHEMA, options).await;
        rows_of(&recto, "events", "scanned", 1_100).await;
        sessions.push(LocalSession::new(recto));
    }
    let of_all = token(&sessions[0], "").await;
    assert_eq!(
        refusal(&sessions[1], "", &of_all).await,
        ScanTokenError::OtherStore
    );
    let filter = r#"stream = "scanned" AND at >= 10"#;
    let begun = first(&sessions[0], filter, None).await.unwrap();
    let rest = first(&sessions[1], filter, begun.resume.as_deref())
        .await
        .unwrap();
    assert_eq!((begun.records.len(), rest.records.len()), (1_000, 90));
    assert_eq!(rest.records[0]["at"], 99);
    assert_eq!(rest.resume, None);
}

pub(crate) async fn they_expire_and_follow_the_keys(recto: Recto) {
    let clock = Clock::new();
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    rows_of(&recto, "events", "a", ROWS).await;
    rows_of(&recto, "events", "b", ROWS).await;
    let session = LocalSession::new(recto.clone());
    let options = OpenOptions::new()
        .environment(clock.environment())
        .cursor_lifetime(Duration::from_secs(60));
    let brief = Recto::with_store(Arc::clone(recto.store()), options)
        .await
        .unwrap();
    let brief = LocalSession::new(brief);
    let of_minute = token(&brief, "").await;
    clock.pass_seconds(59);
    first(&brief, "", Some(&of_minute)).await.unwrap();
    clock.pass_seconds(1);
    assert_eq!(
        refusal(&brief, "", &of_minute).await,
        ScanTokenError::Expired {
            expired_at_seconds: BEGIN_SECONDS as u64 + 60
        }
    );
    let old = token(&session, "").await;
    recto.rotate_cursor_keys(1).await.unwrap();
    first(&session, "", Some(&old)).await.unwrap();
    // Another handle must learn the new key from the token.
    let new = token(&session, "").await;
    first(&brief, "", Some(&new)).await.unwrap();
    recto.rotate_cursor_keys(0).await.unwrap();
    assert_eq!(refusal(&session, "", &old).await, ScanTokenError::NotOurs);
}

/// Checks that a scan in a session with a row filter returns each row exactly once, even if it is
/// interrupted after every step. Some scans read the rows of one partition, like pages. Others
/// filter the rows of all partitions.
pub(crate) async fn every_row_comes_once_for_everyone(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    let whole = STREAMS.len() * ROWS as usize;
    let mine = restricted(&session, r#"stream = "scanned""#);
    let (stream_a, late) = (
        restricted(&session, r#"stream = "a""#),
        restricted(&session, "at >= 10"),
    );
    for (session, filter, expected) in [
        (&session, "", whole),
        (&session, "at < 10", whole / 3),
        (&session, r#"stream = "b""#, ROWS as usize),
        (&session, r#"note = "note 7""#, STREAMS.len()),
        (&mine, "", ROWS as usize),
        (&mine, "at < 10", 10),
        (&mine, r#"stream = "a""#, 0),
        (&stream_a, r#"note = "note 7""#, 1),
        (&late, "", 20 * STREAMS.len()),
        (&late, "at < 12", 2 * STREAMS.len()),
        (&late, "at < 10", 0),
    ] {
        let (found, steps) = all(session, filter).await;
        let distinct: BTreeSet<_> = found.iter().collect();
        assert_eq!(found.len(), expected, "{filter}");
        assert_eq!(distinct.len(), expected, "{filter}");
        assert!(steps >= 1);
    }
    let (found, steps) = all(&session, "").await;
    assert_eq!(found.len(), whole);
    assert!(steps > 1, "one step for each range that has rows");
}

/// Checks that an invalid filter of a scan causes the same error as an invalid filter of a page.
pub(crate) async fn filters_that_are_none_are_refused(recto: Recto) {
    let session = filled(&recto, OpenOptions::new()).await;
    for (filter, kind) in [
        ("nothing = 1", ErrorKind::InvalidQuery),
        ("at =", ErrorKind::InvalidQuery),
        (&"x".repeat(9_000), ErrorKind::InvalidQuery),
    ] {
        let error = first(&session, filter, None).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with("filter"), "{error}");
    }
    let error = first(&restricted(&session, "owner = \"a\""), "", None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
}

/// Golden files, one for each version of the token's format. A file has the keys that encrypted the
/// tokens, the rows of the store, and the tokens, each with the rows that still follow it. Every
/// later release must open these tokens, so never edit the files.
const GOLDEN: [&str; 1] = [include_str!("golden/scan-token-v1.txt")];

pub(crate) async fn tokens_of_every_version_open(recto: Recto) {
    for text in GOLDEN {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .unwrap()
        };
        let keys = URL_SAFE_NO_PAD.decode(value("keys")).unwrap();
        let store = fresh(kind(&recto), SCHEMA, OpenOptions::new().cursor_keys(&keys)).await;
        rows_of(&store, "events", value("stream"), value("rows").parse().unwrap()).await;
        let session = LocalSession::new(store.clone());
        let mut opened = 0;
        for line in text.lines().filter(|line| line.contains(" | ")) {
            let [of, filter, token, rest] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            if of != "any" && !store.describe().starts_with(of) {
                continue;
            }
            let filter = if filter == "-" { "" } else { filter };
            let step = first(&session, filter, Some(token)).await.unwrap();
            let times: Vec<String> = step
                .records
                .iter()
                .map(|record| record["at"].to_string())
                .collect();
            assert_eq!((times.join(" ").as_str(), step.resume), (rest, None), "{line}");
            opened += 1;
        }
        assert_eq!(opened, 4);
    }
}

//! Fixed replies of the fake session.

use std::path::PathBuf;

use recto::schema::{OrderColumn, Schema};
use recto::session::{
    ActualCost, BucketFault, BucketFigures, BucketList, BucketPartition, BucketPartitions, BucketStatus,
    BucketTarget, BucketsRequest, CheckOutcome, CheckedCollection, CommitLog, CursorKey, Drift,
    ExplainedSource, Explanation, JsonRecord, LoadReport, LoadRequest, LoadedCollection, LoadedView,
    MisfitCounts, PageCost, PageReply, PageRequest, PlanShape, RecoveryPass, RejectedSortOrder, RowSizes,
    ScanStep, SchemaPlan, Shape, StoreDescription, TableOrder, VerifiedBuckets, VerifiedView, VerifyReport,
    VerifyRequest, ViewStatus,
};
use recto::{Direction, Error, ErrorKind, ErrorPart, Result, Stop};
use serde_json::{Value as Json, json};

const FLIGHTS: u64 = 336_776;

pub(crate) fn flights() -> Schema {
    Schema::parse(crate::commands::demo::SCHEMA).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Returns rows with wide, long, absent and hostile values.
pub(crate) fn records() -> Vec<JsonRecord> {
    let rows = [
        json!({ "time_hour": "2013-12-31T23:00:00.000Z", "carrier": "UA", "flight": 1_545, "origin": "EWR", "dest": "IAH", "dep_delay": -3, "tailnum": "N14228" }),
        json!({ "time_hour": "2013-12-31T22:00:00.000Z", "carrier": "UA", "flight": 7, "origin": "LGA", "dest": "a name far longer than any column of a terminal should ever be", "tailnum": "\u{1b}[31mred" }),
        json!({ "time_hour": "2013-12-31T22:00:00.000Z", "carrier": "漢", "flight": 12_345, "origin": "JFK", "dest": "MIA", "dep_delay": 1_301 }),
    ];
    rows.into_iter().map(object).collect()
}

fn object(json: Json) -> JsonRecord {
    match json {
        Json::Object(record) => record,
        other => panic!("{other}"),
    }
}

/// Returns the error of a store that does not reply.
pub(super) fn unavailable(hint: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "no node answers").with_hint(hint)
}

pub(super) fn description(is_empty: bool) -> StoreDescription {
    let collections = flights().collections;
    StoreDescription {
        store: "embedded store in shop.data".into(),
        generation: if is_empty { 0 } else { 2 },
        collections: collections.iter().map(|one| one.name.clone()).collect(),
        unavailable: Vec::new(),
        cluster: None,
    }
}

pub(super) const COMMIT_LOG: CommitLog = CommitLog {
    file_bytes: 33_554_432,
    record_bytes: 1_248_000,
    records: 5_120,
    checkpoints: 3,
    last_checkpoint_at_seconds: Some(1_763_740_800),
    last_checkpoint_age_seconds: Some(12),
    replayed_records: 7,
    incomplete_records: 1,
};

const COST: PageCost = PageCost {
    rows_read: 4,
    bytes_read: 732,
    round_trips: 1,
    statements: 1,
    tombstones: 0,
    buckets: 4,
    directory_reads: 1,
    seeks: 0,
    time_micros: 212,
};

/// Rejects queries that contain the misspelled field `carier` or the direction `upwards`, or need a
/// filter scan.
pub(super) fn check_query(request: &PageRequest) -> Result<()> {
    if let Some(at) = request.filter.find("carier") {
        return Err(Error::new(
            ErrorKind::InvalidQuery,
            format!("filter, column {}: there is no field \"carier\"", at + 1),
        )
        .with_part(ErrorPart::Filter)
        .with_column(at + 1)
        .with_hint("did you mean carrier?"));
    }
    if let Some(at) = request.order_by.find("upwards") {
        return Err(Error::new(
            ErrorKind::InvalidQuery,
            format!("sort, column {}: \"upwards\" is no direction", at + 1),
        )
        .with_part(ErrorPart::Sort)
        .with_column(at + 1)
        .with_hint("write asc or desc"));
    }
    if request.filter.contains("distance") && !request.allow_filter_scan {
        return Err(Error::new(ErrorKind::NoPlan, "no view serves this query").with_hint(
            "this view would:\n\n[collection.flights.view.by_distance]\npartition = [\"distance\"]\norder = [\"-time_hour\"]",
        ));
    }
    Ok(())
}

/// Returns the index (from 0) of the requested page, which is below `pages`.
pub(super) fn page_number(request: &PageRequest, pages: usize) -> Result<usize> {
    match (request.page_token.as_str(), request.last) {
        ("", true) => Ok(pages.saturating_sub(1)),
        ("", false) => Ok(0),
        (token, _) => token.parse().map_err(|_| {
            Error::new(ErrorKind::InvalidCursor, "the token is not one of Recto's")
                .with_hint("leave it out to begin with the first page")
        }),
    }
}

pub(super) fn page(request: &PageRequest, page: usize, pages: usize) -> PageReply {
    let token = |page: Option<usize>| page.map(|page| page.to_string()).unwrap_or_default();
    let records = if pages == 0 { Vec::new() } else { records() };
    let row_tokens = || (1..=records.len()).map(|row| format!("row{row}")).collect();
    PageReply {
        row_page_tokens: request.row_page_tokens.then(row_tokens),
        versions: request
            .versions
            .then(|| vec![Some(1_763_740_800_000_000); records.len()]),
        records,
        next_page_token: token((page + 1 < pages).then_some(page + 1)),
        previous_page_token: token(page.checked_sub(1)),
        stop: request.allow_filter_scan.then_some(Stop::Scanned),
        row_count: None,
        lacks: 0,
        shape: Some(PlanShape {
            sources: Shape::Scan,
            filter_scan: false,
        }),
        cost: COST,
        cost_hidden: false,
    }
}

pub(super) fn explanation(filter_scan: bool, run: bool) -> Explanation {
    let order = |field: &str, direction| OrderColumn {
        field: field.into(),
        direction,
    };
    let conditions = filter_scan.then(|| "distance > 1000".to_owned());
    Explanation {
        shape: PlanShape {
            sources: Shape::Merge,
            filter_scan,
        },
        view: "primary".into(),
        sort_order: flights().collections[0].base().into(),
        table: "flights".into(),
        intersected: Vec::new(),
        order: vec![
            order("time_hour", Direction::Descending),
            order("flight", Direction::Ascending),
            order("carrier", Direction::Ascending),
        ],
        collate: std::collections::BTreeMap::new(),
        misfits: MisfitCounts::default(),
        direction: TableOrder::With,
        sources: vec![explained_source("AA", run), explained_source("UA", run)],
        filter_scan: conditions.into_iter().collect(),
        base_rows: None,
        row_count: None,
        expected_rows: 102,
        expected_round_trips: 1,
        actual: run.then_some(ActualCost {
            cost: COST,
            rows_returned: 3,
        }),
        rejected: vec![RejectedSortOrder {
            sort_order: "by_distance (distance), -time_hour".into(),
            reason: "the filter does not pin distance".into(),
        }],
    }
}

fn explained_source(carrier: &str, run: bool) -> ExplainedSource {
    ExplainedSource {
        view: String::new(),
        partition: format!("carrier = \"{carrier}\""),
        bounds: "time_hour < \"2013-07-01T00:00:00.000Z\"".into(),
        requests: vec![format!(
            "SELECT * FROM flights\nWHERE carrier = '{carrier}' AND time_hour < ? LIMIT 51"
        )],
        buckets: if run { vec![3, 1] } else { Vec::new() },
    }
}

/// Returns the steps of a scan, one per record. If `fails` is true, the last step is an error.
pub(super) fn scan(fails: bool) -> Vec<Result<ScanStep>> {
    let tokens = [Some("T1"), Some("T2"), None];
    let steps = records().into_iter().zip(tokens).map(|(record, token)| {
        if fails && token.is_none() {
            return Err(unavailable("see whether Cassandra runs"));
        }
        Ok(ScanStep {
            records: vec![record],
            resume: token.map(str::to_owned),
            versions: None,
        })
    });
    steps.collect()
}

pub(super) fn plan(is_empty: bool, rejected: &[String]) -> SchemaPlan {
    if !is_empty && rejected.is_empty() {
        return SchemaPlan {
            generation: 2,
            ..SchemaPlan::default()
        };
    }
    SchemaPlan {
        generation: 0,
        changes: vec![
            "collection posts is made".into(),
            "collection readings is made".into(),
        ],
        statements: vec!["CREATE TABLE posts (\n  user_id uuid,\n  PRIMARY KEY (user_id)\n)".into()],
        rejected: rejected.to_vec(),
        ..SchemaPlan::default()
    }
}

pub(super) fn views() -> Vec<ViewStatus> {
    let view = |name: &str, number: u64, state: &str, rows_filled: Option<u64>| ViewStatus {
        collection: "flights".into(),
        view: name.into(),
        sort_order: format!("({name}), -time_hour"),
        partition: vec![name.into()],
        order: vec!["-time_hour".into()],
        collate: std::iter::once((name.into(), "de".into()))
            .filter(|_| number == 4)
            .collect(),
        fields: vec![name.into(), "time_hour".into()],
        state: state.into(),
        number,
        table: format!("flights_{name}_{number}"),
        rows_filled,
        misfits: MisfitCounts {
            empty: 0,
            too_large: number / 4,
        },
    };
    vec![
        view("origin", 1, "ready", None),
        view("tailnum", 4, "building", Some(12_345)),
    ]
}

/// Returns a report in which one view is complete. If `missing` is not 0, another view lacks so
/// many entries.
pub(super) fn verify_report(request: &VerifyRequest, missing: u64) -> VerifyReport {
    let mut views = vec![verified_view("route", 0)];
    if missing > 0 {
        views.insert(0, drifted_view(missing, request.repair));
    }
    VerifyReport {
        buckets: vec![verified_buckets(missing > 0, request.repair)],
        views,
        left_out: vec!["view tailnum of collection flights: it is building".into()],
        begun_seconds_ago: request.resume.as_ref().map(|_| 12_000),
    }
}

fn verified_view(view: &str, missing: u64) -> VerifiedView {
    VerifiedView {
        collection: "flights".into(),
        view: view.into(),
        records: FLIGHTS,
        entries: FLIGHTS - missing,
        missing,
        ..VerifiedView::default()
    }
}

fn drifted_view(missing: u64, repair: bool) -> VerifiedView {
    let drift = |kind: &str, key: &str, outcome: &str| Drift {
        kind: kind.into(),
        key: key.into(),
        outcome: outcome.into(),
    };
    let key = "(2013-01-01T10:00:00.000Z, UA, 1545)";
    let if_repaired = |outcome| if repair { outcome } else { "" };
    VerifiedView {
        differing: 1,
        repaired: u64::from(repair),
        examples: vec![
            drift("missing", key, if_repaired("the record stands in its way")),
            drift("differing", key, if_repaired("repaired")),
            drift("misfit", "(2013-01-02T10:00:00.000Z, UA, 7)", "origin is empty"),
        ],
        misfits: MisfitCounts {
            empty: 2,
            too_large: 0,
        },
        misfits_recorded: MisfitCounts {
            empty: 2 * u64::from(repair),
            too_large: 0,
        },
        ..verified_view("origin", missing)
    }
}

fn verified_buckets(is_faulty: bool, repair: bool) -> VerifiedBuckets {
    let mut verified = VerifiedBuckets {
        collection: "flights".into(),
        view: "primary".into(),
        rows: FLIGHTS,
        buckets: 12,
        ..VerifiedBuckets::default()
    };
    if is_faulty {
        verified.found.insert("stray".into(), 2);
        verified.too_large = 1;
        verified.repaired = 2 * u64::from(repair);
        verified.examples.push(BucketFault {
            kind: "stray".into(),
            partition: json!({ "carrier": "UA" }),
            bucket: Some(3),
            key: Some(vec!["2013-01-01T10:00:00.000Z".into()]),
            outcome: if repair { "repaired".into() } else { String::new() },
            ..BucketFault::default()
        });
    }
    verified
}

/// Returns the passes of a recovery. If `is_left` is true, a dead process stays unresolved in the
/// last pass.
pub(super) fn recovery(is_left: bool) -> [RecoveryPass; 3] {
    let left = usize::from(is_left);
    let pass = |watched, found_dead, unresolved, waiting, resolved| {
        let mut pass = RecoveryPass::default();
        pass.living = 2;
        pass.watched = watched;
        pass.found_dead = found_dead;
        pass.unresolved = unresolved;
        pass.waiting = waiting;
        pass.resolved = resolved;
        pass
    };
    [
        pass(1, 0, 0, 0, 0),
        pass(0, 1, 1, 0, 3),
        pass(0, 0, left, 1 - left, 2),
    ]
}

/// Returns the report of a load. With several collections, only rows of `delays` are rejected.
pub(super) fn load_report(request: &LoadRequest, rejected: u64) -> LoadReport {
    let is_single = request.collections.len() == 1;
    let loaded = |name: &String| {
        let rejects = is_single || name == "delays";
        loaded_collection(name, if rejects { rejected } else { 0 })
    };
    LoadReport {
        rows_read: FLIGHTS,
        rows_resumed: 0,
        collections: request.collections.iter().map(loaded).collect(),
        rejects: (rejected > 0).then(|| PathBuf::from("flights.csv.zip.rejects.csv")),
        already_loaded: request.file.ends_with("loaded.csv"),
    }
}

fn loaded_collection(name: &str, rejected: u64) -> LoadedCollection {
    let reason = (rejected > 0).then(|| ("tailnum is null".to_owned(), rejected));
    let view = (name == "flights").then(|| LoadedView {
        name: "by_tailnum".to_owned(),
        entries: 334_264,
        left_out: 2_512,
    });
    LoadedCollection {
        name: name.to_owned(),
        rows_stored: FLIGHTS - rejected,
        rows_rejected: rejected,
        reasons: reason.into_iter().collect(),
        views: view.into_iter().collect(),
        ..LoadedCollection::default()
    }
}

pub(super) fn cursor_keys(is_empty: bool) -> Vec<CursorKey> {
    let key = |id: u32, encrypts: bool, age_seconds: Option<u64>| CursorKey {
        id,
        encrypts,
        created_at_seconds: age_seconds.map(|age| 1_763_740_800 - age),
        age_seconds,
    };
    if is_empty {
        return Vec::new();
    }
    vec![
        key(1, false, None),
        key(2, false, Some(7_776_000)),
        key(3, true, Some(125)),
    ]
}

pub(super) const ROW_SIZES: RowSizes = RowSizes {
    rows: FLIGHTS,
    bytes: 44_454_432,
    squared_bytes: 5_871_013_000,
    largest_bytes: 139,
};

const BUCKET_TARGET: BucketTarget = BucketTarget {
    bytes: Some(10_000_000),
    rows: None,
    shards: None,
};

fn bucket_figures(rows: u64) -> BucketFigures {
    BucketFigures {
        rows,
        rows_error: rows / 4,
        bytes: rows * 100,
        bytes_error: rows * 25,
    }
}

pub(super) fn bucket_partitions(collection: &str) -> BucketPartitions {
    BucketPartitions {
        collection: collection.into(),
        view: "tailnum".into(),
        target: BUCKET_TARGET,
        partitions: vec![BucketPartition {
            partition: object(json!({ "tailnum": "N14228" })),
            buckets: 3,
            figures: bucket_figures(200_000),
            largest: bucket_figures(90_000),
            too_large: 0,
            ..BucketPartition::default()
        }],
        next_page_token: String::new(),
    }
}

pub(super) fn buckets(collection: &str, request: &BucketsRequest) -> Result<BucketList> {
    if let Some(at) = request.filter.find("carier") {
        return Err(
            Error::new(ErrorKind::InvalidQuery, "there is no field \"carier\"")
                .with_part(ErrorPart::Filter)
                .with_column(at + 1),
        );
    }
    Ok(BucketList {
        collection: collection.into(),
        view: "tailnum".into(),
        partition: object(json!({ "tailnum": "N14228" })),
        target: BUCKET_TARGET,
        buckets: vec![BucketStatus {
            figures: bucket_figures(90_000),
            step: "at_rest".into(),
            ..BucketStatus::default()
        }],
        ..BucketList::default()
    })
}

pub(super) fn check(problems: &[String]) -> CheckOutcome {
    let collections = [("flights", FLIGHTS), ("airports", 3)];
    let collections = collections.map(|(name, rows)| CheckedCollection {
        name: name.into(),
        rows,
    });
    CheckOutcome {
        rows: FLIGHTS + 3,
        collections: collections.into(),
        internal_rows: 3,
        problems: problems.to_vec(),
        ..CheckOutcome::default()
    }
}

//! Session with fixed rows, which records its requests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use recto::schema::{OrderColumn, Schema};
use recto::session::{
    Action, ActualCost, Applied, ApplyOptions, Backup, BucketFault, BucketFigures, BucketList,
    BucketPartition, BucketPartitions, BucketStatus, BucketTarget, BucketsRequest, CheckOutcome,
    CheckedCollection, CursorKey, Drift, ErrorHandler, ExplainedSource, Explanation, FindingHandler,
    JsonRecord, LoadProgress, LoadReport, LoadRequest, LoadedCollection, LoadedView, MisfitCounts, PageCost,
    PageReply, PageRequest, Pages, PlanShape, Progress, RebalanceProgress, RebalanceReport, RebalanceRequest,
    RecordChange, Records, RecoveryPass, RejectedSortOrder, RowSizes, ScanRequest, ScanStep, SchemaPlan,
    Shape, StoreDescription, StoreProgress, TableOrder, Tools, VerifiedBuckets, VerifiedView, VerifyReport,
    VerifyRequest, Versioned, ViewProgress, ViewStatus, Written,
};
use recto::{Direction, Error, ErrorKind, ErrorPart, Result, Session, Stop};
use serde_json::{Value as Json, json};

/// Returns the schema of the demo.
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

fn order(field: &str, direction: Direction) -> OrderColumn {
    OrderColumn {
        field: field.into(),
        direction,
    }
}

fn shape(sources: Shape, filter_scan: bool) -> PlanShape {
    PlanShape { sources, filter_scan }
}

fn object(json: Json) -> JsonRecord {
    match json {
        Json::Object(record) => record,
        other => panic!("{other}"),
    }
}

/// Session with fixed rows.
#[derive(Debug, Default)]
pub(crate) struct FakeSession {
    /// Requests, one line each.
    pub(crate) asked: Mutex<Vec<String>>,
    /// Whether the store has no schema.
    pub(crate) empty: bool,
    /// Number of pages. A page token is the number of a page.
    pub(crate) pages: usize,
    /// Rejections of a plan.
    pub(crate) refused: Vec<String>,
    /// Number of rows that a load rejects.
    pub(crate) rejected: u64,
    /// Whether a scan fails after its second step, and a recovery after its first pass.
    pub(crate) failing_scan: bool,
    /// Problems that a check finds.
    pub(crate) problems: Vec<String>,
}

impl FakeSession {
    /// Creates a session with three pages.
    pub(crate) fn new() -> Self {
        Self {
            pages: 3,
            ..Self::default()
        }
    }

    fn ask(&self, text: impl Into<String>) {
        self.asked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(text.into());
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    fn check_query(request: &PageRequest) -> Result<()> {
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
}

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

#[async_trait]
impl Session for FakeSession {
    async fn describe(&self) -> Result<StoreDescription> {
        let generation = if self.empty { 0 } else { 2 };
        let collections = flights()
            .collections
            .iter()
            .map(|collection| collection.name.clone())
            .collect();
        Ok(StoreDescription {
            store: "embedded store in shop.data".into(),
            generation,
            collections,
            unavailable: Vec::new(),
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        Ok(Arc::new(if self.empty { Schema::default() } else { flights() }))
    }

    fn tools(&self) -> Result<&dyn Tools> {
        Ok(self)
    }
}

#[async_trait]
impl Pages for FakeSession {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        Self::check_query(request)?;
        let page = match (request.page_token.as_str(), request.last) {
            ("", true) => self.pages.saturating_sub(1),
            ("", false) => 0,
            (token, _) => token.parse().map_err(|_| {
                Error::new(ErrorKind::InvalidCursor, "the token is not one of Recto's")
                    .with_hint("leave it out to begin with the first page")
            })?,
        };
        self.ask(format!("page {page} of {collection} by {:?}", request.page_size));
        let token = |page: Option<usize>| page.map(|page| page.to_string()).unwrap_or_default();
        let records = if self.pages == 0 { Vec::new() } else { records() };
        Ok(PageReply {
            row_page_tokens: request
                .row_page_tokens
                .then(|| (1..=records.len()).map(|row| format!("row{row}")).collect()),
            versions: request
                .versions
                .then(|| vec![Some(1_763_740_800_000_000); records.len()]),
            records,
            next_page_token: token((page + 1 < self.pages).then_some(page + 1)),
            previous_page_token: token(page.checked_sub(1)),
            stop: request.allow_filter_scan.then_some(Stop::Scanned),
            row_count: None,
            lacks: 0,
            shape: Some(shape(Shape::Scan, false)),
            cost: COST,
            cost_hidden: false,
        })
    }

    async fn explain(&self, _collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        Self::check_query(request)?;
        let source = |carrier: &str| ExplainedSource {
            view: String::new(),
            partition: format!("carrier = \"{carrier}\""),
            bounds: "time_hour < \"2013-07-01T00:00:00.000Z\"".into(),
            requests: vec![format!(
                "SELECT * FROM flights\nWHERE carrier = '{carrier}' AND time_hour < ? LIMIT 51"
            )],
            buckets: if run { vec![3, 1] } else { Vec::new() },
        };
        Ok(Explanation {
            shape: shape(Shape::Merge, request.allow_filter_scan),
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
            sources: vec![source("AA"), source("UA")],
            filter_scan: if request.allow_filter_scan {
                vec!["distance > 1000".to_owned()]
            } else {
                Vec::new()
            },
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
        })
    }

    fn scan<'a>(&'a self, _collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        self.ask(format!("scan {request:?}"));
        let step = |records: &[JsonRecord], resume: Option<&str>| {
            Ok(ScanStep {
                records: records.to_vec(),
                resume: resume.map(str::to_owned),
                versions: None,
            })
        };
        let records = records();
        let end = if self.failing_scan {
            Err(Error::new(ErrorKind::Unavailable, "no node answers").with_hint("see whether Cassandra runs"))
        } else {
            step(&records[2..], None)
        };
        futures::stream::iter([
            step(&records[..1], Some("T1")),
            step(&records[1..2], Some("T2")),
            end,
        ])
        .boxed()
    }
}

#[async_trait]
impl Records for FakeSession {
    async fn get(&self, _collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        self.ask(format!("get {key:?}"));
        Ok((key[1] == "UA").then(|| Versioned {
            record: records()[0].clone(),
            version: None,
        }))
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let mut written = Written::default();
        for change in &changes {
            written.count(&change.action);
            self.ask(asked(change));
        }
        Ok(written)
    }
}

/// Returns a short text of a change.
fn asked(change: &RecordChange) -> String {
    let lives = |seconds: &Option<u32>| {
        seconds
            .map(|seconds| format!(" for {seconds} s"))
            .unwrap_or_default()
    };
    let of = &change.collection;
    let asked = match &change.action {
        Action::Insert { record, ttl_seconds } => {
            format!(
                "insert {of} {}{}",
                Json::Object(record.clone()),
                lives(ttl_seconds)
            )
        }
        Action::Put { record, ttl_seconds } => {
            format!("put {of} {}{}", Json::Object(record.clone()), lives(ttl_seconds))
        }
        Action::Update { key, fields } => format!("update {key:?} {}", Json::Object(fields.clone())),
        Action::Delete { key } => format!("delete {key:?}"),
    };
    match change.if_version {
        None => asked,
        Some(version) => format!("{asked} if {version}"),
    }
}

#[async_trait]
impl Tools for FakeSession {
    async fn plan(&self, _: &Schema, _: &ApplyOptions) -> Result<SchemaPlan> {
        if !self.empty && self.refused.is_empty() {
            return Ok(SchemaPlan {
                generation: 2,
                ..SchemaPlan::default()
            });
        }
        Ok(SchemaPlan {
            generation: 0,
            changes: vec![
                "collection posts is made".into(),
                "collection readings is made".into(),
            ],
            statements: vec!["CREATE TABLE posts (\n  user_id uuid,\n  PRIMARY KEY (user_id)\n)".into()],
            rejected: self.refused.clone(),
            ..SchemaPlan::default()
        })
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        _: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        self.ask(format!("apply {}", schema.collections.len()));
        let changes = self.plan(schema, options).await?.changes;
        Ok(Applied {
            generation: 1,
            changes,
            ..Applied::default()
        })
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
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
        if self.empty {
            return Ok(Vec::new());
        }
        Ok(vec![
            view("origin", 1, "ready", None),
            view("tailnum", 4, "building", Some(12_345)),
        ])
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        self.ask(format!("{request:?}"));
        progress(ViewProgress {
            resume: Some("so-far".into()),
            ..ViewProgress::default()
        });
        let drift = |kind: &str, outcome: &str| Drift {
            kind: kind.into(),
            key: "(2013-01-01T10:00:00.000Z, UA, 1545)".into(),
            outcome: if request.repair {
                outcome.into()
            } else {
                String::new()
            },
        };
        let compared = |view: &str, missing: u64| VerifiedView {
            collection: "flights".into(),
            view: view.into(),
            records: 336_776,
            entries: 336_776 - missing,
            missing,
            ..VerifiedView::default()
        };
        let drifted = VerifiedView {
            differing: 1,
            repaired: u64::from(request.repair),
            examples: vec![
                drift("missing", "the record stands in its way"),
                drift("differing", "repaired"),
                Drift {
                    kind: "misfit".into(),
                    key: "(2013-01-02T10:00:00.000Z, UA, 7)".into(),
                    outcome: "origin is empty".into(),
                },
            ],
            misfits: MisfitCounts {
                empty: 2,
                too_large: 0,
            },
            misfits_recorded: MisfitCounts {
                empty: 2 * u64::from(request.repair),
                too_large: 0,
            },
            ..compared("origin", self.rejected)
        };
        let views = if self.rejected > 0 {
            vec![drifted]
        } else {
            Vec::new()
        };
        let astray = u64::from(self.rejected > 0);
        let stray = BucketFault {
            kind: "stray".into(),
            partition: json!({ "carrier": "UA" }),
            bucket: Some(3),
            key: Some(vec!["2013-01-01T10:00:00.000Z".into()]),
            outcome: if request.repair {
                "repaired".into()
            } else {
                String::new()
            },
            ..BucketFault::default()
        };
        let buckets = VerifiedBuckets {
            collection: "flights".into(),
            view: "primary".into(),
            rows: 336_776,
            buckets: 12,
            found: (0..astray).map(|_| ("stray".into(), 2)).collect(),
            too_large: astray,
            repaired: 2 * astray * u64::from(request.repair),
            examples: (0..astray).map(|_| stray.clone()).collect(),
        };
        Ok(VerifyReport {
            buckets: vec![buckets],
            views: [views, vec![compared("route", 0)]].concat(),
            left_out: vec!["view tailnum of collection flights: it is building".into()],
            begun_seconds_ago: request.resume.as_ref().map(|_| 12_000),
        })
    }

    async fn recover(
        &self,
        goes_on: FindingHandler<'_, RecoveryPass>,
        bears: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        self.ask("recover");
        if self.empty {
            return Ok(None);
        }
        let is_left = usize::from(self.rejected > 0);
        let looks = [
            json!({ "living": 2, "watched": 1 }),
            json!({ "living": 2, "found_dead": 1, "unresolved": 1, "resolved": 3 }),
            json!({ "living": 2, "unresolved": is_left, "waiting": 1 - is_left, "resolved": 2 }),
        ];
        let none = serde_json::to_value(RecoveryPass::default()).unwrap();
        let mut pass = RecoveryPass::default();
        for look in looks {
            let mut all = none.clone();
            all.as_object_mut()
                .unwrap()
                .extend(look.as_object().unwrap().clone());
            pass = serde_json::from_value(all).unwrap();
            if !goes_on(pass) {
                break;
            }
            if self.failing_scan && pass.watched > 0 {
                bears(Error::new(ErrorKind::Unavailable, "no node answers").with_hint("try again"))?;
            }
        }
        Ok(Some(pass))
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        self.ask(format!("load {request:?}"));
        progress(LoadProgress {
            rows_read: 10,
            bytes_consumed: 5,
            bytes_total: 10,
            ..LoadProgress::default()
        });
        let rejected = |name: &str| {
            let all = request.collections.len() == 1 || name == "delays";
            if all { self.rejected } else { 0 }
        };
        let collections = request.collections.iter().map(|name| LoadedCollection {
            name: name.clone(),
            rows_stored: 336_776 - rejected(name),
            rows_replaced: 0,
            rows_repeated: 0,
            rows_rejected: rejected(name),
            reasons: (rejected(name) > 0)
                .then(|| ("tailnum is null".to_owned(), rejected(name)))
                .into_iter()
                .collect(),
            views: (name == "flights")
                .then(|| LoadedView {
                    name: "by_tailnum".to_owned(),
                    entries: 334_264,
                    left_out: 2_512,
                })
                .into_iter()
                .collect(),
        });
        let collections = collections.collect();
        Ok(LoadReport {
            rows_read: 336_776,
            rows_resumed: 0,
            collections,
            rejects: (self.rejected > 0).then(|| PathBuf::from("flights.csv.zip.rejects.csv")),
            already_loaded: request.file.ends_with("loaded.csv"),
        })
    }

    async fn backup(&self, to: &Path, _progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let folder = to.display().to_string();
        self.ask(format!("backup {folder}"));
        Ok(Backup {
            bytes: 514_000_000,
            folder,
        })
    }

    async fn compact(&self, _progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        Ok((1_028_000_000, 514_000_000))
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        if self.empty {
            return Ok(Vec::new());
        }
        let key = |id: u32, encrypts: bool, age_seconds: Option<u64>| CursorKey {
            id,
            encrypts,
            created_at_seconds: age_seconds.map(|age| 1_763_740_800 - age),
            age_seconds,
        };
        Ok(vec![
            key(1, false, None),
            key(2, false, Some(7_776_000)),
            key(3, true, Some(125)),
        ])
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        self.ask(format!("rotate, keep {earlier}"));
        self.cursor_keys().await
    }

    async fn row_sizes(&self, _: &str) -> Result<RowSizes> {
        Ok(RowSizes {
            rows: 336_776,
            bytes: 44_454_432,
            squared_bytes: 5_871_013_000,
            largest_bytes: 139,
        })
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        self.ask(format!("bucket partitions of {collection} {request:?}"));
        Ok(BucketPartitions {
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
        })
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        self.ask(format!("buckets of {collection} {request:?}"));
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

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        self.ask(format!("rebalance {collection} {request:?}"));
        progress(RebalanceProgress::default());
        Ok(RebalanceReport {
            partitions: 1,
            buckets: 3,
            created: 2,
            ..RebalanceReport::default()
        })
    }

    async fn check(&self, _progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        Ok(CheckOutcome {
            rows: 336_779,
            collections: [("flights", 336_776), ("airports", 3)]
                .map(|(name, rows)| CheckedCollection {
                    name: name.into(),
                    rows,
                })
                .into(),
            internal_rows: 3,
            problems: self.problems.clone(),
            ..CheckOutcome::default()
        })
    }
}

//! Queries for each kind of query plan (shapes), and the positions of the measured pages.

use std::future::IntoFuture;

use recto::session::PageRequest;
use recto::{Cursor, Page, PageQuery, Record, Recto, Session};

use crate::common::run;
use crate::data::{Event, Reading, Task};

/// Number of rows of a measured page.
pub(crate) const PAGE_ROWS: u32 = 20;
/// Number of rows before the position of a deep page.
pub(crate) const DEPTH_ROWS: u32 = 1_000;
/// Number of rows of each page that is read on the way to a deep page.
const STRIDE_ROWS: u32 = 500;

/// Position of a measured page in the result of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    /// After a cursor that has [`DEPTH_ROWS`] rows before it.
    After,
    /// Before a cursor that has [`DEPTH_ROWS`] rows before it.
    Before,
    Last,
    Around,
    From,
}

/// Kind of query plan, with a query that has such a plan.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Name of the kind of query plan in the output of `explain`.
    pub(crate) plan: &'static str,
    collection: SortOrder,
    filter: &'static str,
    order_by: &'static str,
    filter_scan: bool,
    /// Values for [`Place::From`]: the values of the row after [`DEPTH_ROWS`] rows.
    from: &'static str,
}

enum SortOrder {
    Readings,
    Events,
    Tasks,
}

const TENANTS: &str = r#"tenant = "t0" OR tenant = "t1" OR tenant = "t2" OR tenant = "t3"
    OR tenant = "t4" OR tenant = "t5" OR tenant = "t6" OR tenant = "t7""#;
const KINDS: &str = r#"tenant = "t0" AND (kind = "k10" OR kind = "k11" OR kind = "k12" OR kind = "k13"
    OR kind = "k14" OR kind = "k15" OR kind = "k16" OR kind = "k17" OR kind = "k18" OR kind = "k19")"#;

const fn shape(
    name: &'static str,
    plan: &'static str,
    collection: SortOrder,
    filter: &'static str,
    order_by: &'static str,
) -> Shape {
    Shape {
        name,
        plan,
        collection,
        filter,
        order_by,
        filter_scan: false,
        from: "",
    }
}

/// All kinds of query plans that the tests measure.
pub(crate) const SHAPES: [Shape; 12] = [
    Shape {
        from: r#"["2023-11-15T03:46:20Z", 1000]"#,
        ..shape(
            "single slice",
            "scan",
            SortOrder::Readings,
            r#"tenant = "t0""#,
            "",
        )
    },
    shape(
        "reverse",
        "scan",
        SortOrder::Readings,
        r#"tenant = "t0""#,
        "at desc, id desc",
    ),
    shape(
        "mixed directions",
        "scan",
        SortOrder::Events,
        r#"tenant = "t0""#,
        "",
    ),
    shape(
        "mixed directions, reverse",
        "scan",
        SortOrder::Events,
        r#"tenant = "t0""#,
        "at, id desc",
    ),
    shape(
        "range",
        "scan",
        SortOrder::Readings,
        r#"tenant = "t0" AND at >= "2023-11-14T23:13:20Z" AND at < "2023-11-15T10:00:00Z""#,
        "",
    ),
    shape(
        "tuple range",
        "scan",
        SortOrder::Readings,
        r#"tenant = "t0" AND (at, id) > ("2023-11-14T23:13:20Z", 180)"#,
        "",
    ),
    shape(
        "tuple range, mixed directions",
        "concat",
        SortOrder::Events,
        r#"tenant = "t0" AND (at, id) < ("2023-11-15T10:00:00Z", 2001)"#,
        "",
    ),
    shape(
        "prefix",
        "scan",
        SortOrder::Tasks,
        r#"tenant = "t0" AND startsWith(kind, "k1")"#,
        "",
    ),
    shape(
        "filter_scan",
        "scan + filter",
        SortOrder::Readings,
        r#"tenant = "t0" AND amount < 750"#,
        "",
    )
    .with_filter_scan(),
    shape(
        "merge of partitions",
        "merge",
        SortOrder::Events,
        TENANTS,
        "at desc",
    ),
    shape(
        "merge of values of an order column",
        "merge",
        SortOrder::Tasks,
        KINDS,
        "at",
    ),
    shape(
        "concat of partitions",
        "concat",
        SortOrder::Events,
        TENANTS,
        "tenant desc, at desc",
    ),
];

/// Evaluates an expression with the typed query of a shape.
macro_rules! with_query {
    ($shape:expr, $recto:expr, $query:ident => $body:expr) => {
        match $shape.collection {
            SortOrder::Readings => {
                let $query = $shape.query::<Reading>($recto);
                $body
            }
            SortOrder::Events => {
                let $query = $shape.query::<Event>($recto);
                $body
            }
            SortOrder::Tasks => {
                let $query = $shape.query::<Task>($recto);
                $body
            }
        }
    };
}

/// Content and cost of one page.
pub(crate) struct Outcome {
    pub(crate) rows: usize,
    pub(crate) cost: recto::session::PageCost,
}

impl Shape {
    const fn with_filter_scan(mut self) -> Self {
        self.filter_scan = true;
        self
    }

    fn query<T: Record>(&self, recto: &Recto) -> PageQuery<T> {
        let query = recto
            .collection::<T>()
            .unwrap()
            .query()
            .filter(self.filter)
            .order_by(self.order_by)
            .timeout(std::time::Duration::from_secs(60));
        if self.filter_scan {
            query.allow_filter_scan()
        } else {
            query
        }
    }

    /// Returns a reader for the page at a position. This function plans the query, so that the
    /// reader measures pages with a cached plan.
    pub(crate) fn reader(&self, recto: &Recto, place: Place) -> Box<dyn ReadPage> {
        with_query!(self, recto, query => {
            let cursor = run(self.cursor(&query, place));
            run(query.clone().first(1).into_future()).unwrap();
            Box::new(Reader { query, place, cursor, from: self.from })
        })
    }

    /// Returns a cursor with [`DEPTH_ROWS`] rows before it. Returns an empty text if the position
    /// needs no cursor.
    async fn cursor<T: Send + 'static>(&self, query: &PageQuery<T>, place: Place) -> String {
        if matches!(place, Place::First | Place::Last | Place::From) {
            return String::new();
        }
        let mut page = query.clone().first(STRIDE_ROWS).await.unwrap();
        let mut depth = page.len() as u32;
        while depth < DEPTH_ROWS {
            let next = page.next_cursor().unwrap();
            page = query.clone().first(STRIDE_ROWS).after(next).await.unwrap();
            depth += page.len() as u32;
        }
        assert_eq!(depth, DEPTH_ROWS, "{}: too few rows", self.name);
        let cursor: Cursor = page.next_cursor().unwrap();
        cursor.as_str().to_owned()
    }

    /// Returns the name that `explain` prints for the plan of this query.
    pub(crate) async fn planned(&self, session: &dyn Session) -> String {
        let collection = match self.collection {
            SortOrder::Readings => "readings",
            SortOrder::Events => "events",
            SortOrder::Tasks => "tasks",
        };
        let request = PageRequest {
            filter: self.filter.to_owned(),
            order_by: self.order_by.to_owned(),
            allow_filter_scan: self.filter_scan,
            ..PageRequest::default()
        };
        let explained = session.explain(collection, &request, false).await.unwrap();
        explained.shape.to_string()
    }
}

/// Reader of one page. It decodes the rows, and encrypts the cursor at the end of the page in the
/// direction of reading. A program that shows the page does the same work.
pub(crate) trait ReadPage {
    fn read(&self) -> Outcome;
}

struct Reader<T> {
    query: PageQuery<T>,
    place: Place,
    cursor: String,
    from: &'static str,
}

impl<T: Send + 'static> ReadPage for Reader<T> {
    fn read(&self) -> Outcome {
        let query = self.query.clone();
        let query = match self.place {
            Place::First => query.first(PAGE_ROWS),
            Place::After => query.first(PAGE_ROWS).after(self.cursor.as_str()),
            Place::Before => query.last(PAGE_ROWS).before(self.cursor.as_str()),
            Place::Last => query.last(PAGE_ROWS),
            Place::Around => query.first(PAGE_ROWS).around(self.cursor.as_str()),
            Place::From => query.first(PAGE_ROWS).from_json(self.from),
        };
        let page: Page<T> = run(query.into_future()).unwrap();
        let cursor = match self.place {
            Place::Before | Place::Last => page.previous_cursor(),
            _ => page.next_cursor(),
        };
        assert!(cursor.is_some(), "there is more on the way");
        Outcome {
            rows: page.len(),
            cost: page.cost(),
        }
    }
}

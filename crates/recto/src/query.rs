//! Queries that return pages of a collection, in a sort order.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use recto_model::key::MAX_KEY_PART_BYTES;
use recto_model::record::Record;
use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Cells, RowRef, cell, json};
use recto_plan::choices::{Choices, choices};
use recto_plan::cursor::OpenedCursor;
use recto_plan::planner::{self, Wishes};
use recto_plan::query::Condition;
use recto_plan::{Plan, Position, Query, Side, SortOrder, Travel, bind};
use serde_json::error::Category;
use serde_json::value::RawValue;

use recto_api::pages::{Count, DEFAULT_PAGE_SIZE, MAX_COUNT_UP_TO, MAX_PAGE_SIZE};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::filter::{Filter, Literal};
use crate::handle::Handle;
use crate::page::Page;
use crate::paging::{Budget, PageSpec, Place, Share, fetch};
use crate::planned::{Candidates, PlanKey, Planned};
use crate::record::{decode_each, no_field};
use crate::row_filter;

/// Maximum size in bytes of the values that [`PageQuery::from`] takes. It is the maximum size of a
/// partition key and a clustering key together, so that every position fits in a cursor.
const MAX_FROM_BYTES: usize = 2 * MAX_KEY_PART_BYTES;

/// Function that decodes a row of a collection as a `T`.
pub(crate) type Decode<T> = fn(&CollectionCore, &SortOrder, RowRef<'_>) -> Result<T>;

/// A query under construction. Awaiting it returns one page.
///
/// The filter and the sort order are planned once, with the first page. Clones share the plan, so a query
/// that is kept and cloned for each page is not planned again. After a change of the schema, the query is
/// planned again.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// let monday = events.query().filter(r#"day = "mon""#);
/// let page = monday.clone().order_by("id desc").first(3).await?;
/// assert_eq!(page.items()[0].id, 59);
/// // Or from a value on, or the last rows, or those around a row.
/// let page = monday.clone().from([20]).first(3).await?;
/// assert_eq!(page.items()[0].id, 20);
/// let around = monday.around(page.cursor(0)).page_size(5).await?;
/// assert_eq!(around.items()[0].id, 18);
/// # Ok(())
/// # }
/// ```
pub struct PageQuery<T> {
    handle: Arc<Handle>,
    decode: Decode<T>,
    question: Arc<Question>,
    start: Start,
    size: u32,
    budget: Budget,
    both_edges: bool,
    count: Option<Count>,
}

/// Conditions, options and cached plans of a query. The start and the size of a page are not included.
#[derive(Debug, Clone, Default)]
struct Question {
    /// Filter texts, none of them empty.
    filter_texts: Vec<String>,
    filters: Vec<Filter>,
    /// Row filters of a restricted session: filter texts that no call removes.
    row_filters: Vec<String>,
    /// True if the query belongs to a session that is restricted to rows.
    is_restricted: bool,
    sort_text: String,
    sort: Vec<(String, Direction)>,
    allow_filter_scan: bool,
    /// Name of the view to read. Empty: the planner chooses.
    view: String,
    /// Fields that the caller uses. Empty: all fields.
    fields: Vec<String>,
    kept: KeptPlans,
}

/// Prepared query: the current state of its collection, and its plans in this state.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) core: Arc<CollectionCore>,
    pub(crate) candidates: Candidates,
}

/// Cached plans of a query. They are valid until the state of the collection changes.
#[derive(Debug, Default)]
struct KeptPlans(Mutex<Option<Prepared>>);

/// Returns an empty cache. A query is cloned only to change its conditions, and the plans would no longer
/// fit.
impl Clone for KeptPlans {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KeptPlans {
    /// Returns the plans of the query for a state of its collection. Calls `plan` if the cache does not
    /// contain the plans.
    fn of(
        &self,
        core: Arc<CollectionCore>,
        plan: impl FnOnce(&CollectionCore) -> Result<Candidates>,
    ) -> Result<Prepared> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*kept()
            && Arc::ptr_eq(&prepared.core, &core)
        {
            return Ok(prepared.clone());
        }
        let candidates = plan(&core)?;
        let prepared = Prepared { core, candidates };
        *kept() = Some(prepared.clone());
        Ok(prepared)
    }
}

/// Start of the page, as the caller requested it.
#[derive(Debug, Clone)]
enum Start {
    First,
    Last,
    Token(String),
    /// Position at which a stream continues, with the plan with which the stream began.
    At(Arc<Planned>, Position),
    After(String),
    Before(String),
    Around(String),
    AroundShare(Share),
    Skip(u64),
    From(Vec<Literal>),
    FromJson(String),
    Conflict(&'static str, &'static str),
}

impl Start {
    fn name(&self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Token(_) | Self::At(..) => "page_token",
            Self::After(_) => "after",
            Self::Before(_) => "before",
            Self::Around(_) | Self::AroundShare(_) => "around",
            Self::Skip(_) => "skip",
            Self::From(_) | Self::FromJson(_) => "from",
            Self::Conflict(..) => "conflict",
        }
    }
}

impl<T> Clone for PageQuery<T> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            decode: self.decode,
            question: Arc::clone(&self.question),
            start: self.start.clone(),
            size: self.size,
            budget: self.budget,
            both_edges: self.both_edges,
            count: self.count,
        }
    }
}

impl<T> std::fmt::Debug for PageQuery<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageQuery")
            .field("collection", &self.handle.name())
            .field("filter", &self.question.filter_texts)
            .field("order_by", &self.question.sort_text)
            .finish_non_exhaustive()
    }
}

impl<T> PageQuery<T> {
    pub(crate) fn new(handle: Arc<Handle>, decode: Decode<T>) -> Self {
        let budget = Budget {
            time: handle.shared().read_options().timeout,
            ..Budget::default()
        };
        Self {
            handle,
            decode,
            question: Arc::default(),
            start: Start::First,
            size: DEFAULT_PAGE_SIZE,
            budget,
            both_edges: false,
            count: None,
        }
    }

    /// Changes the conditions or options of the query with `change`, and discards the cached plans.
    fn ask(mut self, change: impl FnOnce(&mut Question)) -> Self {
        let question = Arc::make_mut(&mut self.question);
        question.kept = KeptPlans::default();
        change(question);
        self
    }

    fn starting(mut self, start: Start) -> Self {
        self.start = match (&self.start, &start) {
            (Start::First, _) => start,
            (Start::Conflict(..), _) => self.start,
            (old, new) if old.name() == new.name() => start,
            (old, new) => Start::Conflict(old.name(), new.name()),
        };
        self
    }

    /// Restricts the query to rows that match a filter text, in a subset of AIP-160: `carrier = "UA" AND
    /// time_hour >= "2013-07-01T00:00:00Z"`. After several calls, all filters must match. An empty text has
    /// no effect.
    #[must_use]
    pub fn filter(self, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            return self;
        }
        self.ask(|question| question.filter_texts.push(text))
    }

    /// Restricts the query to rows that match `filter`, in addition to all other filters.
    #[must_use]
    pub fn matching(self, filter: Filter) -> Self {
        self.ask(|question| question.filters.push(filter))
    }

    /// Returns the same query with another decoder of rows.
    pub(crate) fn decoded_by<U>(self, decode: Decode<U>) -> PageQuery<U> {
        PageQuery {
            handle: self.handle,
            decode,
            question: self.question,
            start: self.start,
            size: self.size,
            budget: self.budget,
            both_edges: self.both_edges,
            count: self.count,
        }
    }

    /// Restricts the query to rows that match the row filters `texts`, in addition to its other conditions.
    /// The query then belongs to a restricted session, and its errors name no other collection.
    pub(crate) fn restricted(self, texts: &[String]) -> Self {
        self.ask(|question| {
            question.is_restricted = true;
            question.row_filters.extend_from_slice(texts);
        })
    }

    /// Sets the sort order in the syntax of AIP-132: `time_hour desc, flight`, or `-time_hour, flight`.
    /// Without it, the page has the view's own order. A later call replaces the order of an earlier call.
    #[must_use]
    pub fn order_by(self, text: impl Into<String>) -> Self {
        self.ask(|question| question.sort_text = text.into())
    }

    /// Sorts by a field, after the fields of earlier calls.
    #[must_use]
    pub fn then_by(self, field: impl Into<String>, direction: Direction) -> Self {
        self.ask(|question| question.sort.push((field.into(), direction)))
    }

    /// Allows conditions that no view serves. Recto then checks such conditions on each row that it reads,
    /// within the scan budget.
    #[must_use]
    pub fn allow_filter_scan(self) -> Self {
        self.ask(|question| question.allow_filter_scan = true)
    }

    /// Selects the view to read, or the base table's sort order (`primary`). Without it, the planner chooses.
    ///
    /// The page lacks records that the view leaves out because they lack a field of the view's key.
    #[must_use]
    pub fn view(self, name: impl Into<String>) -> Self {
        self.ask(|question| question.view = name.into())
    }

    /// Declares that the caller uses only the given fields. A view that lacks other fields can then serve the
    /// query.
    #[doc(hidden)]
    #[must_use]
    pub fn looking_at(self, fields: &[String]) -> Self {
        self.ask(|question| question.fields = fields.to_vec())
    }

    /// Sets the number of rows of the page: 0 means [`DEFAULT_PAGE_SIZE`]; larger numbers than
    /// [`MAX_PAGE_SIZE`] mean [`MAX_PAGE_SIZE`].
    #[must_use]
    pub fn page_size(mut self, rows: u32) -> Self {
        self.size = if rows == 0 {
            DEFAULT_PAGE_SIZE
        } else {
            rows.min(MAX_PAGE_SIZE)
        };
        self
    }

    /// Requests the first `rows` rows, like [`page_size`](Self::page_size).
    #[must_use]
    pub fn first(self, rows: u32) -> Self {
        self.page_size(rows)
    }

    /// Requests the last `rows` rows, or with [`before`](Self::before), the last rows before its cursor.
    #[must_use]
    pub fn last(self, rows: u32) -> Self {
        let sized = self.page_size(rows);
        if matches!(sized.start, Start::Before(_)) {
            sized
        } else {
            sized.starting(Start::Last)
        }
    }

    /// Requests the page of rows that follow a cursor.
    #[must_use]
    pub fn after(self, cursor: impl Into<String>) -> Self {
        self.starting(Start::After(cursor.into()))
    }

    /// Requests the page before a cursor: the nearest rows before it, in the query's order.
    #[must_use]
    pub fn before(mut self, cursor: impl Into<String>) -> Self {
        if matches!(self.start, Start::Last) {
            self.start = Start::First;
        }
        self.starting(Start::Before(cursor.into()))
    }

    /// Requests the page of a next or previous cursor (page token). An empty token means the first
    /// page.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        if token.is_empty() {
            self
        } else {
            self.starting(Start::Token(token))
        }
    }

    /// Requests the page around the row of a cursor. Half of the page's rows come before the row,
    /// and the rest starts with the row.
    #[must_use]
    pub fn around(self, cursor: impl Into<String>) -> Self {
        self.starting(Start::Around(cursor.into()))
    }

    /// Requests the page around the row at a percentage of all rows of the query, from 0 to 100.
    /// The row is exact if the store counts rows exactly, and approximate otherwise. Requires
    /// partitions that are kept in buckets, and no filter scan.
    ///
    /// An invalid percentage is rejected with [`ErrorKind::InvalidQuery`] when the page is awaited.
    #[must_use]
    pub fn around_percent(self, percent: f64) -> Self {
        let share = percent * f64::from(Share::WHOLE.0) / 100.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what is not a share is one that is refused"
        )]
        let share = if (0.0..=f64::from(Share::WHOLE.0)).contains(&share) {
            share.round() as u32
        } else {
            u32::MAX
        };
        self.starting(Start::AroundShare(Share(share)))
    }

    /// Starts the page after the first `rows` rows of the query. Requires a store that counts the rows of the
    /// query exactly. An embedded store counts exactly for a query that one view serves.
    #[must_use]
    pub fn skip(self, rows: u64) -> Self {
        self.starting(Start::Skip(rows))
    }

    /// Adds to the page the [number of rows](Page::row_count) of the query.
    ///
    /// [`Count::Exact`] requires an embedded store, and [`Count::Estimate`] a sort order that is
    /// kept in buckets. Both require a query that one view serves, and also return the number of
    /// rows before the page. [`Count::UpTo`] works for every query. It reads at most one row more
    /// than its limit, or as many rows as a filter scan may read.
    ///
    /// ```
    /// # use recto::{OpenOptions, Record, Recto};
    /// # #[derive(Debug, Clone, PartialEq, Record)]
    /// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
    /// # struct Event { day: String, id: i64, kind: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// # store.apply(&recto::schema_of([Event::collection()])).await?;
    /// # let events = store.collection::<Event>()?;
    /// # let event = |id| Event { day: "mon".into(), id, kind: "tick".into() };
    /// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
    /// use recto::Count;
    ///
    /// let monday = events.query().filter(r#"day = "mon""#).first(25);
    /// let page = monday.clone().count(Count::UpTo(1_000)).await?;
    /// assert_eq!(page.row_count().unwrap().total_size, 60);
    ///
    /// let page = monday.count(Count::UpTo(50)).await?;
    /// assert_eq!(page.row_count().unwrap().in_words(page.len()), "50 rows or more");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = Some(count);
        self
    }

    /// Starts the page at the first row whose order values are equal to `values` or follow them. `values`
    /// belong to the first columns of the query's order that the filter does not fix with `=`.
    #[must_use]
    pub fn from<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Self {
        self.starting(Start::From(values.into_iter().map(Into::into).collect()))
    }

    /// Starts the page at `position`, in the order of the plan `planned`.
    pub(crate) fn at(mut self, planned: Arc<Planned>, position: Position) -> Self {
        self.start = Start::At(planned, position);
        self
    }

    /// Starts the page at order values, like [`from`](Self::from). `values` is a JSON array.
    #[must_use]
    pub fn from_json(self, values: impl Into<String>) -> Self {
        self.starting(Start::FromJson(values.into()))
    }

    /// Requests that the page reports for both of its ends whether more rows follow. This needs one
    /// additional short read.
    #[must_use]
    pub fn both_edges(mut self) -> Self {
        self.both_edges = true;
        self
    }

    /// Sets the maximum number of rows to examine in a filter scan. The default is 10,000.
    #[must_use]
    pub fn scan_budget(mut self, rows: u64) -> Self {
        self.budget.scanned = rows.max(1);
        self
    }

    /// Sets the maximum size of the page's rows in bytes. The default is 4 MiB. A page can contain one row of
    /// any size.
    #[must_use]
    pub fn byte_budget(mut self, bytes: u64) -> Self {
        self.budget.bytes = bytes.max(1);
        self
    }

    /// Sets the maximum time for the page. The default is the request timeout of the store, or 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.budget.time = time;
        self
    }

    /// Returns the current state of the collection, and the plans of the query. Plans the query if its plans
    /// are not cached.
    pub(crate) fn prepared(&self) -> Result<Prepared> {
        let core = self.handle.now()?;
        let plan = |core: &_| self.question.planned_once(core);
        self.question.kept.of(core, plan)
    }

    /// Returns the filters and sort orders to which user interfaces can change this query; see
    /// [`Pages::choices`](crate::session::Pages::choices).
    pub(crate) fn choices(&self) -> Result<Choices> {
        let core = self.handle.now()?;
        self.question.choices(&core)
    }

    /// Returns the plan and the specification of the requested page.
    pub(crate) async fn spec(&self, prepared: &Prepared) -> Result<(Arc<Planned>, PageSpec)> {
        if let Start::Token(text) | Start::After(text) | Start::Before(text) | Start::Around(text) =
            &self.start
        {
            prepared.core.shared.keys.learn(text, self.budget.time).await?;
        }
        let (planned, place) = self.place(prepared)?;
        let spec = PageSpec {
            place,
            size: self.size,
            budget: self.budget,
            both_edges: self.both_edges,
            count: self.count,
        };
        Ok((planned, spec))
    }

    fn place(&self, prepared: &Prepared) -> Result<(Arc<Planned>, Place)> {
        let Prepared { core, candidates } = prepared;
        let open = |text: &String, place: fn(OpenedCursor) -> Place| {
            let plans = candidates.iter().map(|one| &*one.plan);
            let (index, opened) = core.shared.keys.open(&core.definition, plans, text)?;
            Ok((Arc::clone(&candidates[index]), place(opened)))
        };
        let best = &candidates[0];
        let place = match &self.start {
            Start::First => Place::First,
            Start::Last => Place::Last,
            Start::Token(text) => return open(text, |opened| Place::Beyond(opened.position, opened.travel)),
            Start::At(planned, position) => {
                let place = Place::Beyond(position.clone(), Travel::Forward);
                return Ok((going_on(candidates, planned)?, place));
            }
            // The cursor of a row is the position after the row, so the page begins
            // at the cursor itself.
            Start::After(text) => {
                return open(text, |opened| Place::Beyond(opened.position, Travel::Forward));
            }
            Start::Before(text) => {
                return open(text, |opened| Place::Beyond(before(opened), Travel::Backward));
            }
            Start::Around(text) => return open(text, |opened| Place::Around(opened.position)),
            Start::AroundShare(share) if share.0 > Share::WHOLE.0 => return Err(no_share()),
            Start::AroundShare(share) => Place::AroundShare(*share),
            Start::Skip(rows) => Place::AtRank(*rows),
            Start::From(values) => Place::Beyond(from_values(&best.plan, values)?, Travel::Forward),
            Start::FromJson(text) => Place::Beyond(from_json(&best.plan, text)?, Travel::Forward),
            Start::Conflict(one, other) => {
                return Err(Error::new(
                    ErrorKind::InvalidQuery,
                    format!("{one} and {other} exclude one another"),
                )
                .with_hint("a page starts at one place: give one of them"));
            }
        };
        Ok((Arc::clone(best), place))
    }

    pub(crate) async fn fetch(self) -> Result<Page<T>> {
        // Yield to other tasks from time to time. The embedded store answers without waiting, so a task that
        // reads a whole list would starve the other tasks of its thread.
        tokio::task::coop::consume_budget().await;
        let shared = self.handle.shared();
        if shared.is_old() {
            // Box the future of this rare read. Otherwise the future of every page would contain it.
            Box::pin(shared.look_for_all()).await?;
        }
        let prepared = self.prepared()?;
        check_count(self.count)?;
        let (planned, mut spec) = self.spec(&prepared).await?;
        let (core, plan) = (prepared.core, &planned.plan);
        let shared = &core.shared;
        let needs_ranks = matches!(spec.place, Place::AroundShare(_) | Place::AtRank(_));
        if planned.hides && (spec.count.is_some() || needs_ranks) {
            return Err(hidden_rows_count());
        }
        if planned.hides {
            spec.budget = spec.budget.blurred(&shared.environment);
        }
        let joining = plan.reads_base().then(|| core.joining(&plan.sort_order));
        let store = &shared.store;
        let fetched = fetch(store, &shared.environment, plan, joining.as_ref(), &spec);
        let (raw, removals) = fetched.await?;
        shared.writer.remove_stale(removals);
        Page::new(raw, planned, core, self.decode)
    }
}

/// Rejects a count whose limit is out of range.
fn check_count(count: Option<Count>) -> Result<()> {
    match count {
        Some(Count::UpTo(limit)) if !(1..=MAX_COUNT_UP_TO).contains(&limit) => Err(Error::new(
            ErrorKind::InvalidQuery,
            format!("a count up to {limit} rows is not possible"),
        )
        .with_hint(format!("count up to a number from 1 to {MAX_COUNT_UP_TO}"))),
        _ => Ok(()),
    }
}

/// Returns the error for a count in a session with row filters. A count would reveal the number of hidden
/// rows.
#[cold]
fn hidden_rows_count() -> Error {
    Error::new(
        ErrorKind::InvalidQuery,
        "Recto does not count rows for a token that may not see all of them",
    )
    .with_hint("leave out count, skip and percentages, or use a token that may see all rows")
}

#[cold]
fn no_share() -> Error {
    Error::new(ErrorKind::InvalidQuery, "a page is around 0% to 100% of the rows")
        .with_part(Part::Cursor)
        .with_hint("say around=60%, or give the token of a row")
}

impl<T: Record> PageQuery<T> {
    /// Returns a `Result` for each record. A record that the record type cannot represent becomes an error
    /// with the record's key and field, and the other records can be read. Without this call, such a record
    /// fails the whole page.
    ///
    /// Streams continue after a record that cannot be represented.
    ///
    /// ```
    /// # use recto::{OpenOptions, Record, Recto};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// use recto::{DynamicRecord, ErrorKind, FieldType};
    ///
    /// #[derive(Debug, Clone, Copy, PartialEq, FieldType)]
    /// enum Status {
    ///     Open,
    ///     Closed,
    /// }
    ///
    /// #[derive(Debug, Record)]
    /// #[record(collection = "tickets", key = ["desk", "id"], partition = ["desk"], order = ["id"])]
    /// struct Ticket {
    ///     desk: String,
    ///     id: i64,
    ///     status: Status,
    /// }
    /// # store.apply(&recto::schema_of([Ticket::collection()])).await?;
    /// # let tickets = store.collection::<Ticket>()?;
    /// # tickets.put(&Ticket { desk: "a".into(), id: 1, status: Status::Open }).await?;
    /// # let dynamic = store.dynamic("tickets")?;
    /// # let text = r#"{"desk": "a", "id": 2, "status": "Waiting"}"#;
    /// # dynamic.put(&DynamicRecord::from_json_text(dynamic.definition(), text)?).await?;
    ///
    /// // A newer program stored a ticket with a status that this program does not know.
    /// let query = tickets.query().filter(r#"desk = "a""#);
    /// let error = query.clone().await.unwrap_err();
    /// assert_eq!((error.kind(), error.key()), (ErrorKind::Unreadable, &["a".to_owned(), "2".to_owned()][..]));
    ///
    /// let page = query.each_result().await?;
    /// for ticket in page.items() {
    ///     match ticket {
    ///         Ok(ticket) => println!("{ticket:?}"),
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// # assert_eq!(page.items().iter().filter(|one| one.is_ok()).count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn each_result(self) -> PageQuery<Result<T>> {
        self.decoded_by(decode_each::<T>)
    }
}

impl<T: Send + 'static> PageQuery<T> {
    /// Returns a stream of all rows of the query from its start, which reads page after page. Nothing is read
    /// until the stream is polled, and no page is read before its rows are needed. An error ends the stream.
    ///
    /// The page size is the number of rows that are read at a time. A large page size suits long reads.
    pub fn stream(self) -> impl Stream<Item = Result<T>> + Send + use<T> {
        self.pages()
            .map_ok(|page| stream::iter(page.into_items()).map(Ok))
            .try_flatten()
    }

    /// Returns a stream of all pages of the query from its start. Nothing is read until the stream is polled,
    /// and no page is read before the caller polls for it. An error ends the stream.
    pub fn pages(self) -> impl Stream<Item = Result<Page<T>>> + Send + use<T> {
        stream::try_unfold(Some(self), |query| async move {
            let Some(query) = query else {
                return Ok::<_, Error>(None);
            };
            let page = query.clone().fetch().await?;
            let planned = Arc::clone(page.planned());
            let next = page.next_position().map(|position| query.at(planned, position));
            Ok(Some((page, next)))
        })
    }
}

impl<T: Send + 'static> IntoFuture for PageQuery<T> {
    type Output = Result<Page<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Page<T>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

impl Question {
    /// Returns the plans of the query for a collection. Takes them from the collection's plan cache if
    /// possible.
    fn planned_once(&self, core: &CollectionCore) -> Result<Candidates> {
        let needed = core.fields_needed(&self.fields);
        let key = self.key(needed.is_some());
        if let Some(planned) = key.as_ref().and_then(|key| core.plans.get(key)) {
            return Ok(planned);
        }
        let planned = Arc::new(self.plan(core, needed.as_deref())?);
        if let Some(key) = key {
            core.plans.insert(key, &planned);
        }
        Ok(planned)
    }

    /// Returns the key of the query in the plan cache, or `None` if a part of the query is not text.
    fn key(&self, depends_on_fields: bool) -> Option<PlanKey> {
        let filter_text = match self.filter_texts.as_slice() {
            [] => "",
            [one] => one.as_str(),
            _ => return None,
        };
        if !self.filters.is_empty() || !self.sort.is_empty() {
            return None;
        }
        let row_filters = self.row_filters.iter().map(String::as_str);
        let fields = if depends_on_fields {
            self.fields.join(",")
        } else {
            String::new()
        };
        let texts = [filter_text, &self.sort_text, &self.view, &fields];
        let texts = texts.into_iter().chain(row_filters);
        PlanKey::new(texts, self.allow_filter_scan)
    }

    fn plan(&self, core: &CollectionCore, fields: Option<&[usize]>) -> Result<Vec<Arc<Planned>>> {
        let is_known = |one: &Arc<SortOrder>| one.name == self.view;
        if !self.view.is_empty() && !core.sort_orders.iter().any(is_known) {
            return Err(core.unserved(no_view(core, &self.view), &self.view));
        }
        let wishes = Wishes {
            allow_filter_scan: self.allow_filter_scan,
            view: Some(self.view.as_str()).filter(|view| !view.is_empty()),
            fields,
        };
        let error = match self.plan_on(&core.definition, &core.sort_orders, wishes) {
            Err(error) if error.kind() == ErrorKind::NoPlan => error,
            planned => return planned,
        };
        let error = core.unserved(error, &self.view);
        // A restricted session must not learn of other collections, so suggest no other collection to it.
        let others = core
            .recorded
            .schema
            .collections
            .iter()
            .filter(|_| !self.is_restricted);
        let wishes = Wishes {
            allow_filter_scan: self.allow_filter_scan,
            ..Wishes::default()
        };
        let serves = |other: &&Arc<Collection>| {
            let base = || [Arc::new(SortOrder::base(other))];
            holds_same_records(other, &core.definition) && self.plan_on(other, &base(), wishes).is_ok()
        };
        Err(match others.into_iter().find(serves) {
            Some(other) => error.with_hint(format!("collection {} serves it: ask that", other.name)),
            None => error,
        })
    }

    fn plan_on(
        &self,
        collection: &Collection,
        sort_orders: &[Arc<SortOrder>],
        wishes: Wishes<'_>,
    ) -> Result<Vec<Arc<Planned>>> {
        let (query, of_rows) = self.bind(collection)?;
        let query = Arc::new(query);
        let planned = planner::plan(collection, sort_orders, &query, &wishes);
        let plans = planned.map_err(|refusal| {
            let error = Error::from(recto_plan::QueryError::from(refusal));
            let filtered = Wishes {
                allow_filter_scan: true,
                ..wishes
            };
            let would_do = || planner::plan(collection, sort_orders, &query, &filtered).is_ok();
            if self.allow_filter_scan
                || row_filter::is_served(collection, sort_orders, &of_rows)
                || !would_do()
            {
                return error;
            }
            row_filter::unserved(collection, &of_rows, &error)
        })?;
        let planned = |(index, plan): (usize, &Arc<Plan>)| {
            Arc::new(Planned {
                hides: row_filter::hides(plan, &of_rows),
                plan: Arc::clone(plan),
                rejected: plans.rejected(collection, index),
            })
        };
        Ok(plans.plans.iter().enumerate().map(planned).collect())
    }

    /// Resolves the names of the query in a collection. Also returns the conditions of the row filters, which
    /// the query already contains.
    fn bind(&self, collection: &Collection) -> Result<(Query, Vec<Condition>)> {
        let mut conditions = Vec::new();
        for text in &self.filter_texts {
            conditions.extend(bind::conditions(collection, text)?);
        }
        for filter in &self.filters {
            conditions.extend(filter.bind(collection)?);
        }
        let of_rows = row_filter::conditions(collection, &self.row_filters)?;
        conditions.extend(of_rows.iter().cloned());
        let mut sort = bind::sort_terms(collection, &self.sort_text)?;
        for (name, direction) in &self.sort {
            let (index, _) = collection
                .field(name)
                .ok_or_else(|| no_field(ErrorKind::InvalidQuery, collection, name).with_part(Part::Sort))?;
            sort.push((index, *direction));
        }
        Ok((Query::new(collection, &conditions, &sort)?, of_rows))
    }

    /// Returns the filters and sort orders to which user interfaces can change the query.
    fn choices(&self, core: &CollectionCore) -> Result<Choices> {
        let definition = &core.definition;
        let (query, of_rows) = self.bind(definition)?;
        let rows = Query::new(definition, &of_rows, &[])?;
        let fields = core.fields_needed(&self.fields);
        let wishes = Wishes {
            allow_filter_scan: self.allow_filter_scan,
            view: Some(self.view.as_str()).filter(|view| !view.is_empty()),
            fields: fields.as_deref(),
        };
        Ok(choices(definition, &core.sort_orders, &query, &rows, &wishes))
    }
}

/// Returns the plan that continues a stream that began with the plan `begun`. This is `begun` or, if the
/// query was planned again, a plan with the same order.
fn going_on(candidates: &Candidates, begun: &Arc<Planned>) -> Result<Arc<Planned>> {
    let is_begun = |one: &&Arc<Planned>| Arc::ptr_eq(one, begun);
    let goes_on = |one: &&Arc<Planned>| one.plan.identity == begun.plan.identity;
    let found = candidates.iter().find(is_begun);
    let found = found.or_else(|| candidates.iter().find(goes_on));
    found.cloned().ok_or_else(order_changed)
}

#[cold]
fn order_changed() -> Error {
    Error::new(
        ErrorKind::InvalidCursor,
        "the schema was changed meanwhile, and nothing serves the query in the order it began in",
    )
    .with_hint("begin again at the first page")
}

/// Returns the error for a view that the collection does not have.
#[cold]
fn no_view(core: &CollectionCore, asked: &str) -> Error {
    let names: Vec<&str> = core.sort_orders.iter().map(|one| one.name.as_str()).collect();
    Error::new(
        ErrorKind::InvalidQuery,
        format!("collection {} has no view {asked:?}", core.definition.name),
    )
    .with_part(Part::View)
    .with_hint(format!("its views are {}", names.join(", ")))
}

/// Returns whether two collections have the same fields. If so, records of one are probably also
/// written to the other.
fn holds_same_records(other: &Collection, one: &Collection) -> bool {
    other.name != one.name
        && other.fields.len() == one.fields.len()
        && one.fields.iter().all(|field| {
            other
                .field(&field.name)
                .is_some_and(|(_, other)| other.ty == field.ty)
        })
}

/// Returns the position at which the rows before a cursor end. The cursor of a previous page contains this
/// position. Any other cursor contains the position after a row. The rows before the cursor then end before
/// that row.
fn before(opened: OpenedCursor) -> Position {
    match opened.travel {
        Travel::Backward => opened.position,
        Travel::Forward => Position {
            side: Side::Before,
            ..opened.position
        },
    }
}

fn from_error(message: impl Into<String>) -> Error {
    let error = Error::new(ErrorKind::InvalidQuery, message).with_part(Part::From);
    error.with_hint(
        "from is a JSON array: values of the first fields of the order that the filter does not fix with =",
    )
}

fn from_json(plan: &Plan, text: &str) -> Result<Position> {
    let values: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        from_error(match error.classify() {
            Category::Data => "from is not a JSON array".to_owned(),
            _ => format!(
                "from is not JSON: column {}: {}",
                error.column(),
                json::syntax_error(&error)
            ),
        })
    })?;
    position_of(plan, values.len(), |index, ty| {
        let value = json::from_json_text(ty, values[index].get()).map_err(|error| error.to_string())?;
        value.ok_or_else(|| "a key value is never null".to_owned())
    })
}

fn from_values(plan: &Plan, values: &[Literal]) -> Result<Position> {
    position_of(plan, values.len(), |index, ty| {
        values[index].value(ty).map(Cow::into_owned)
    })
}

/// Returns the position before all rows whose order begins with `count` values. `value` returns the value at
/// an index, of a given type.
fn position_of(
    plan: &Plan,
    count: usize,
    value: impl Fn(usize, &recto_model::Type) -> Result<recto_model::Value, String>,
) -> Result<Position> {
    let sort_order = &plan.sort_order;
    // The caller gives values of fields only. Compute the values of derived columns from them.
    let fields = &sort_order.column_of_field;
    let names = || {
        let sorted_by = plan
            .order
            .iter()
            .filter_map(|term| sort_order.sorted_by(term.column));
        sorted_by.filter_map(|field| Some(sort_order.name_of(fields[field]?)))
    };
    let order = || names().collect::<Vec<_>>().join(", ");
    if count > names().count() {
        return Err(from_error(format!(
            "from has {count} values; the query's order is {}",
            order()
        )));
    }
    let mut values = Cells::new();
    let mut given = 0;
    for term in &plan.order {
        if given == count {
            break;
        }
        let sort_keys_of = sort_order.sort_keys_of(term.column);
        let sorted_by = sort_keys_of.or_else(|| sort_order.sorted_by(term.column));
        let Some(column) = sorted_by.and_then(|field| fields[field]) else {
            let Some(derived) = sort_order.derived(term.column, Some(&[])) else {
                break;
            };
            values.push(Some(&derived));
            continue;
        };
        let (ty, name) = (sort_order.type_of(column), sort_order.name_of(column));
        let wrong = |reason: String| {
            let message = format!("from, value {} ({name}): {reason}", given + 1);
            Error::new(ErrorKind::InvalidQuery, message)
                .with_part(Part::From)
                .with_field(name)
                .with_hint(format!("the values are those of the query's order: {}", order()))
                .with_source(reason)
        };
        let value = value(given, ty).map_err(wrong)?;
        let mut bytes = Vec::new();
        cell::encode(ty, &value, &mut bytes).map_err(|error| wrong(error.to_string()))?;
        match sort_order.derived(term.column, Some(&bytes)) {
            // `derived` is either the value's sort key, whose column precedes the value's column,
            // or the prefix within which the view does not distinguish values.
            Some(derived) => values.push(Some(&derived)),
            None => values
                .try_push_with(|out| cell::canonical_key(ty, &bytes, out))
                .map_err(|error| wrong(error.to_string()))?,
        }
        let longest = values.get(values.len() - 1).map_or(0, <[u8]>::len);
        if longest > MAX_KEY_PART_BYTES || values.byte_len() > MAX_FROM_BYTES {
            return Err(wrong("no key has values of so many bytes".to_owned()));
        }
        given += usize::from(sort_keys_of.is_none());
    }
    Ok(Position {
        values,
        side: Side::Before,
    })
}

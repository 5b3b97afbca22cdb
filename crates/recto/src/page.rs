//! Pages of a query, which callers receive.

use std::sync::Arc;

use recto_api::pages::{PageCost, RowCount, Stop};
use recto_model::{RowRef, RowSet};
use recto_plan::cursor::Cursor;
use recto_plan::{PlanShape, Position, Side, SortOrder, Travel};

use crate::core::CollectionCore;
use crate::error::Result;
use crate::paging::{AskedBucket, RawPage};
use crate::planned::Planned;
use crate::present::version_of;

/// Page of a query: rows in the query's order, and cursors to continue at both ends.
///
/// A cursor is encrypted when a method returns it.
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
/// let query = events.query().filter(r#"day = "mon""#).first(25);
/// let first = query.clone().await?;
/// let second = query.clone().after(first.next_cursor().expect("60 events are more than a page")).await?;
/// assert_eq!((second.items()[0].id, second.len()), (25, 25));
/// let back = query.last(25).before(second.previous_cursor().expect("a page comes before it")).await?;
/// assert_eq!(back.items(), first.items());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Page<T> {
    items: Vec<T>,
    raw: RawPage,
    planned: Arc<Planned>,
    core: Arc<CollectionCore>,
}

impl<T> Page<T> {
    /// Returns the page of the rows in `raw`, each decoded by `decode`.
    pub(crate) fn new(
        raw: RawPage,
        planned: Arc<Planned>,
        core: Arc<CollectionCore>,
        decode: impl Fn(&CollectionCore, &SortOrder, RowRef<'_>) -> Result<T>,
    ) -> Result<Self> {
        let mut items = Vec::with_capacity(raw.rows.len());
        let mut page = Self {
            items: Vec::new(),
            raw,
            planned,
            core,
        };
        for row in page.rows().iter() {
            items.push(decode(&page.core, page.sort_order(), row)?);
        }
        page.items = items;
        Ok(page)
    }

    /// Returns whether the plan reads rows that a row filter hides from the caller. If so, the caller must
    /// not learn the cost of the page.
    pub(crate) fn hides(&self) -> bool {
        self.planned.hides
    }

    pub(crate) fn core(&self) -> &CollectionCore {
        &self.core
    }

    pub(crate) fn planned(&self) -> &Arc<Planned> {
        &self.planned
    }

    /// Returns the sort order whose table has the columns of [`rows`](Self::rows). If the page read base
    /// rows, this is the base table's sort order, and otherwise the view's.
    pub(crate) fn sort_order(&self) -> &SortOrder {
        match self.raw.rows.bases {
            Some(_) => self.core.base(),
            None => &self.planned.plan.sort_order,
        }
    }

    /// Returns the rows of the page as cells (encoded values).
    pub(crate) fn rows(&self) -> &RowSet {
        self.raw.rows.bases.as_deref().unwrap_or(&self.raw.rows.rows)
    }

    /// Converts the page to its rows as cells (encoded values).
    pub(crate) fn into_rows(self) -> RowSet {
        let found = self.raw.rows;
        found.bases.map_or(found.rows, |bases| *bases)
    }

    /// Returns the rows, in the query's order.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns an iterator over the rows.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Converts the page to its rows.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of rows of the query, and the number of rows before the page if Recto knows it.
    /// Returns `None` if the query does not [request a count](crate::PageQuery::count).
    pub fn row_count(&self) -> Option<RowCount> {
        self.raw.row_count.as_deref().copied()
    }

    /// Returns the number of records that pages of the query lack, because the view that is read
    /// cannot store them. The actual number may be smaller. It can be greater than 0 only if
    /// [`allow_misfits`](crate::ApplyOptions::allow_misfits) was set when the view was added.
    pub fn lacks(&self) -> u64 {
        let plan = &self.planned.plan;
        let others = plan.views.iter().map(|view| view.sort_order.lacks.too_large);
        others.fold(plan.sort_order.lacks.too_large, u64::max)
    }

    /// Returns whether the page has no rows. An empty page is not always the last one: check
    /// [`has_next`](Self::has_next).
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether there are rows after the page, or `None` if that is unknown. A page that
    /// continues from a cursor only looks for rows in the direction of the cursor, unless [both
    /// edges](crate::PageQuery::both_edges) are requested. The search can end early because of a
    /// budget.
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
    /// let query = events.query().filter(r#"day = "mon""#).from([59]).first(10);
    /// let page = query.clone().await?;
    /// assert_eq!((page.has_previous(), page.has_next()), (None, Some(false)));
    /// assert_eq!(query.both_edges().await?.has_previous(), Some(true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn has_next(&self) -> Option<bool> {
        self.raw.after
    }

    /// Returns whether there are rows before the page, or `None` if that is unknown. The answer has the same
    /// limits as that of [`has_next`](Self::has_next).
    pub fn has_previous(&self) -> Option<bool> {
        self.raw.before
    }

    /// Returns the cursor that continues after the page, or `None` if it is known that no rows follow.
    pub fn next_cursor(&self) -> Option<Cursor> {
        let position = self.next_position()?;
        Some(
            self.core
                .shared
                .keys
                .seal(&self.planned.plan, &position, Travel::Forward),
        )
    }

    /// Returns the position where the next page begins, or `None` if it is known that no rows follow.
    pub(crate) fn next_position(&self) -> Option<Position> {
        if self.raw.after == Some(false) {
            return None;
        }
        match (&self.raw.end, self.raw.rows.rows.iter().next_back()) {
            (Some(end), _) => Some(end.clone()),
            (None, Some(last)) => Some(self.planned.plan.position(last, Side::After)),
            (None, None) => None,
        }
    }

    /// Returns the cursor that continues before the page, or `None` if it is known that no rows precede the
    /// page.
    pub fn previous_cursor(&self) -> Option<Cursor> {
        if self.raw.before == Some(false) {
            return None;
        }
        let position = match (&self.raw.start, self.raw.rows.rows.iter().next()) {
            (Some(start), _) => start.clone(),
            (None, Some(first)) => self.planned.plan.position(first, Side::Before),
            (None, None) => return None,
        };
        Some(
            self.core
                .shared
                .keys
                .seal(&self.planned.plan, &position, Travel::Backward),
        )
    }

    /// Returns the cursor of the row at `index`. A query can continue after, before or around the cursor of a
    /// row.
    ///
    /// # Panics
    /// The page has no row at `index`.
    pub fn cursor(&self, index: usize) -> Cursor {
        let position: Position = self
            .planned
            .plan
            .position(self.raw.rows.rows.row(index), Side::After);
        self.core
            .shared
            .keys
            .seal(&self.planned.plan, &position, Travel::Forward)
    }

    /// Returns the version of the record at `index`, or `None` in collections whose records do not change.
    ///
    /// # Panics
    /// The page has no record at `index`.
    pub fn version(&self, index: usize) -> Option<i64> {
        version_of(self.sort_order(), self.rows().row(index))
    }

    /// Returns the budget (of bytes, rows or time) that ended the page early, or `None` if no budget ended
    /// it.
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
    /// use recto::Stop;
    ///
    /// // No view serves `kind`: rows are looked at one by one, 20 of them at most.
    /// let alarms = events.query().filter(r#"day = "mon" AND kind = "alarm""#).allow_filter_scan().scan_budget(20);
    /// let page = alarms.clone().await?;
    /// assert_eq!(page.stop(), Some(Stop::Scanned));
    /// // Nothing is lost: the next page goes on.
    /// let next = alarms.after(page.next_cursor().expect("a page that was cut short has one")).await?;
    /// assert_eq!(next.items()[0].id, page.items().last().unwrap().id + 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) -> Option<Stop> {
        self.raw.stop
    }

    /// Returns the shape of the plan that found the page, such as a scan of one range or a merge.
    pub(crate) fn shape(&self) -> PlanShape {
        self.planned.plan.shape()
    }

    pub(crate) fn buckets(&self) -> &[AskedBucket] {
        &self.raw.buckets
    }

    /// Returns the cost of the page, such as the number of rows that were read.
    pub fn cost(&self) -> PageCost {
        self.raw.cost
    }
}

impl<T> IntoIterator for Page<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Page<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

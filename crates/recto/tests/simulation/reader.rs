//! Readers go through lists, page after page, while others change what is in them.

use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

use recto::{DynamicRecord, Page, PageQuery, Recto};
use recto_views::Version;
use serde_json::{Value as Json, json};

use crate::clock::Random;
use crate::history::History;
use crate::records::{COLLECTION, Place, RECORDS, STAYING};

/// How often a page is asked for until the reader gives up.
const TRIES: u32 = 5;
/// How long a reader waits before it asks again, or for the next page.
const PAUSE: Duration = Duration::from_millis(300);
/// More rows than there are.
const MAX_PAGE_ROWS: u64 = 4;
/// More pages than a list has, whatever moves.
const MAX_PAGES: usize = 100;

/// What is read.
struct List {
    /// In order; of two, rows are merged.
    statuses: Vec<u8>,
    note: Option<u8>,
}

impl List {
    fn drawn(random: &Random) -> Self {
        let statuses = match random.below(5) {
            0 => vec![0],
            1 => vec![1],
            2 => vec![0, 1],
            _ => Vec::new(),
        };
        let note = statuses.is_empty().then(|| random.below(2) as u8);
        Self { statuses, note }
    }

    fn has(&self, place: &Place) -> bool {
        match self.note {
            Some(note) => place.note == Some(note) && place.at.is_some(),
            None => place.status.is_some_and(|status| self.statuses.contains(&status)),
        }
    }

    /// Where a record stands in it.
    fn order(&self, id: i32, place: &Place) -> (bool, Reverse<i32>, i32) {
        let at = place.at.unwrap_or_default();
        let at = if self.note.is_some() { -at } else { at };
        (place.at.is_none(), Reverse(at), id)
    }

    /// Those that nothing happens to, as they stand in it.
    fn staying(&self) -> Vec<i32> {
        let mut ids: Vec<i32> = (RECORDS..RECORDS + STAYING)
            .filter(|id| self.has(&Place::of_staying(*id)))
            .collect();
        ids.sort_by_key(|id| self.order(*id, &Place::of_staying(*id)));
        ids
    }

    fn query(&self, recto: &Recto) -> PageQuery<DynamicRecord> {
        let query = recto.dynamic(COLLECTION).unwrap().query();
        let is = |field: &str, which: u8| format!(r#"{field} = "{}""#, char::from(b'a' + which));
        if let Some(note) = self.note {
            return query
                .view("by_note")
                .looking_at(&["id", "status", "at", "note"].map(str::to_owned))
                .filter(is("note", note))
                .order_by("at, id");
        }
        let statuses: Vec<String> = self.statuses.iter().map(|one| is("status", *one)).collect();
        query.filter(statuses.join(" OR ")).order_by("at desc, id")
    }
}

/// One who reads lists, by pages.
pub(crate) struct Reader {
    recto: Recto,
    history: Rc<History>,
    random: Random,
}

impl Reader {
    pub(crate) fn new(recto: Recto, history: Rc<History>, seed: u64) -> Self {
        let random = Random::new(seed ^ 0x4EAD);
        Self {
            recto,
            history,
            random,
        }
    }

    /// From one end of a list to the other, or until too much fails.
    pub(crate) async fn traverse(&self) {
        let (list, is_back) = (List::drawn(&self.random), self.random.one_in(2));
        let query = list.query(&self.recto);
        let (mut found, mut token): (Vec<i32>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let Some((page, ids)) = self.page(&list, &query, token.take(), is_back).await else {
                return;
            };
            let place = if is_back { 0 } else { found.len() };
            found.splice(place..place, ids);
            let next = if is_back {
                page.previous_cursor()
            } else {
                page.next_cursor()
            };
            let Some(next) = next else {
                found.retain(|id| *id >= RECORDS);
                if found != list.staying() {
                    let stay = list.staying();
                    let wrong = format!("{found:?} were read of {stay:?}, backwards: {is_back}");
                    self.history.is_wrong(wrong);
                }
                return;
            };
            token = Some(next.to_string());
        }
        self.history.is_wrong("a list does not end".to_owned());
    }

    /// A page and the records on it; none if it cannot be had.
    async fn page(
        &self,
        list: &List,
        query: &PageQuery<DynamicRecord>,
        token: Option<String>,
        is_back: bool,
    ) -> Option<(Page<DynamicRecord>, Vec<i32>)> {
        let rows = 1 + self.random.below(MAX_PAGE_ROWS) as u32;
        for _ in 0..TRIES {
            tokio::time::sleep(PAUSE).await;
            // Whoever asks for notes does not want them verified.
            let known = self.history.known(list.note.is_none());
            let query = query.clone().page_size(rows);
            let page = match &token {
                None if is_back => query.last(rows).await,
                None => query.await,
                Some(token) => query.page_token(token).await,
            };
            let Ok(page) = page else { continue };
            let shown: Vec<_> = page.iter().map(shown).collect();
            for (index, (id, place)) in shown.iter().enumerate() {
                let version = Version(page.version(index).unwrap());
                self.history.shows(*id, version, *place, &known);
            }
            let order: Vec<_> = shown.iter().map(|(id, place)| list.order(*id, place)).collect();
            let mut ids: Vec<i32> = shown.iter().map(|(id, _)| *id).collect();
            if !order.is_sorted() || !shown.iter().all(|(_, place)| list.has(place)) {
                self.history.is_wrong(format!("a page in no order: {shown:?}"));
            }
            let in_order = ids.clone();
            ids.sort_unstable();
            ids.dedup();
            if ids.len() < in_order.len() {
                self.history.is_wrong(format!("a record twice: {shown:?}"));
            }
            return Some((page, in_order));
        }
        None
    }
}

/// A record and where it stands.
fn shown(record: &DynamicRecord) -> (i32, Place) {
    let json = Json::from(record.to_json());
    let number = |field: &str| json.get(field)?.as_i64().map(|number| number as i32);
    let letter = |field: &str| Some(json.get(field)?.as_str()?.as_bytes()[0] - b'a');
    let place = Place {
        status: letter("status"),
        at: number("at"),
        note: letter("note"),
    };
    (number("id").unwrap(), place)
}

/// Puts a record that nothing happens to.
pub(crate) async fn put_staying(recto: &Recto, history: &History, id: i32) {
    let place = Place::of_staying(id);
    let text = |which: Option<u8>| which.map(|which| char::from(b'a' + which).to_string());
    let json = json!({
        "id": id, "status": text(place.status), "at": place.at, "log": "", "note": text(place.note),
    });
    let records = recto.dynamic(COLLECTION).unwrap();
    let record = DynamicRecord::from_json(records.definition(), json.as_object().unwrap()).unwrap();
    history.asks(id, Some(place));
    let version = Version(records.put(&record).await.unwrap().version);
    history.was(id, version, Some(place), true);
}

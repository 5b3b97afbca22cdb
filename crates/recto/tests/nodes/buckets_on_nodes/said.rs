//! Checks the lines that child processes printed about their writes and pages: no page may have a
//! state that the writes do not allow.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::lists::{List, WrittenCollection, lists_of};

/// Time by the clock of the machine, in microseconds since 1970.
type Micros = i64;

#[derive(Debug, Default)]
pub(crate) struct ListReports {
    writes: HashMap<u64, Write>,
    /// Ids of the writes of each row, by list and by the key of the row.
    rows: BTreeMap<List, BTreeMap<i64, Vec<u64>>>,
    pages: Vec<Page>,
    wrong: Vec<String>,
}

/// Write of a child process that puts or deletes one row.
#[derive(Debug)]
struct Write {
    is_put: bool,
    begun: Micros,
    /// Time at which the process learned the outcome, or gave up. The timestamp of the write is not
    /// later.
    ended: Micros,
    is_done: bool,
}

#[derive(Debug)]
struct Page {
    list: List,
    is_falling: bool,
    begun: Micros,
    ended: Micros,
    after: Option<i64>,
    to: Option<i64>,
    rows: Vec<(i64, u64)>,
}

impl ListReports {
    /// Adds the event of one printed line. Ignores lines about other things.
    pub(crate) fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["wrong", ..] => self.wrong.push(line.to_owned()),
            [what @ ("tries" | "done" | "failed"), of, at, ref changes @ ..] => {
                let of = if of == "Log" {
                    WrittenCollection::Log
                } else {
                    WrittenCollection::Events
                };
                // A process that was killed may have printed only a part of a line, so ignore the
                // line.
                let Ok(at) = at.parse() else { return };
                for change in changes {
                    self.hear_change(what, of, at, change);
                }
            }
            ["page", list, is_falling, begun, ended, after, to, ref rows @ ..] => {
                let rows: Option<Vec<_>> = rows.iter().map(|row| pair(row)).collect();
                let (Ok(begun), Ok(ended), Some(rows)) = (begun.parse(), ended.parse(), rows) else {
                    return;
                };
                self.pages.push(Page {
                    list: List::of_name(list),
                    is_falling: is_falling == "true",
                    begun,
                    ended,
                    after: after.parse().ok(),
                    to: to.parse().ok(),
                    rows,
                });
            }
            _ => {}
        }
    }

    fn hear_change(&mut self, what: &str, of: WrittenCollection, moment: Micros, change: &str) {
        let (is_put, rest) = (change.starts_with('+'), &change[1..]);
        let Some((at, number)) = pair(rest) else { return };
        if what == "tries" {
            for list in lists_of(of, at) {
                let rows = self.rows.entry(list).or_default();
                rows.entry(at).or_default().push(number);
            }
            let write = Write {
                is_put,
                begun: moment,
                ended: Micros::MAX,
                is_done: false,
            };
            self.writes.insert(number, write);
        } else if let Some(write) = self.writes.get_mut(&number) {
            (write.ended, write.is_done) = (moment, what == "done");
        }
    }

    /// Returns the number of writes, the number of writes that are known to have succeeded, and the
    /// number of pages.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let done = self.writes.values().filter(|write| write.is_done).count();
        [self.writes.len(), done, self.pages.len()]
    }

    /// Checks that the content of every page is possible.
    ///
    /// # Errors
    /// Returns the first error that a process printed, or else the first page with impossible
    /// content.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(wrong) = self.wrong.first() {
            return Err(wrong.clone());
        }
        self.pages.iter().try_for_each(|page| {
            let found = self.check_page(page);
            found.map_err(|wrong| {
                let Page { begun, ended, .. } = page;
                format!("{} read from {begun} to {ended}: {wrong}", page.list.name())
            })
        })
    }

    fn check_page(&self, page: &Page) -> Result<(), String> {
        let mut before = page.after;
        for (at, _) in &page.rows {
            let follows = |before: i64| {
                if page.is_falling {
                    *at < before
                } else {
                    *at > before
                }
            };
            if !before.is_none_or(follows) {
                return Err(format!("{at} was read behind {before:?}"));
            }
            before = Some(*at);
        }
        let read: BTreeMap<i64, u64> = page.rows.iter().copied().collect();
        let empty = BTreeMap::new();
        let known = self.rows.get(&page.list).unwrap_or(&empty);
        if let Some(at) = read.keys().find(|at| !known.contains_key(at)) {
            return Err(format!("{at} was read, and nobody wrote it"));
        }
        let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let to = page.to.map_or(Bound::Unbounded, Bound::Included);
        let within = if page.is_falling { (to, after) } else { (after, to) };
        for (at, numbers) in known.range(within) {
            let found = self.check_row(page, numbers, read.get(at).copied());
            found.map_err(|wrong| format!("{at} {wrong}"))?;
        }
        Ok(())
    }

    /// Checks that the writes of a row allow its state on a page. A write is certainly newer than
    /// another write if it began after the other write had ended. `numbers` has the ids of the
    /// writes, and `read` has the id of the write that the page shows. `None`: the page does not
    /// show the row.
    fn check_row(&self, page: &Page, numbers: &[u64], read: Option<u64>) -> Result<(), String> {
        let writes = || {
            numbers
                .iter()
                .map(|number| (*number, &self.writes[number]))
                .filter(|(_, write)| write.begun < page.ended)
        };
        let known = || writes().filter(|(_, write)| write.is_done && write.ended < page.begun);
        let Some(read) = read else {
            let is_lost = |put: &Write| {
                let mut deletions = writes().filter(|(_, write)| !write.is_put);
                put.is_put && deletions.all(|(_, deletion)| deletion.ended < put.begun)
            };
            let lost = known().find(|(_, write)| is_lost(write));
            return lost.map_or(Ok(()), |(number, write)| {
                Err(format!("is not there, though {number} was put: {write:?}"))
            });
        };
        let Some((_, found)) = writes().find(|(number, write)| *number == read && write.is_put) else {
            return Err(format!("was read as {read}, which nobody had put there"));
        };
        let newer = known().find(|(_, write)| write.begun > found.ended);
        newer.map_or(Ok(()), |(number, write)| {
            Err(format!(
                "was read as {read}, {found:?}, though {number} is newer: {write:?}"
            ))
        })
    }
}

/// Parses a pair of a key and the id of a write: `KEY:ID`.
fn pair(text: &str) -> Option<(i64, u64)> {
    let (at, number) = text.split_once(':')?;
    Some((at.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Result<(), String> {
        let mut said = ListReports::default();
        for line in lines {
            said.hear(line);
        }
        said.check()
    }

    const PUT: [&str; 2] = ["tries Events 10 +7:1", "done Events 20 +7:1"];

    #[test]
    fn a_row_that_was_put_is_there_once_and_in_its_order() {
        let page = |page: &str| found(&[&PUT[..], &[page]].concat());
        page("page events true 30 40 end end 7:1").unwrap();
        page("page events true 15 40 end end").unwrap();
        page("page events true 30 40 5 end").unwrap();
        assert!(
            page("page events true 30 40 end end")
                .unwrap_err()
                .contains("is not there")
        );
        assert!(
            page("page events true 30 40 end end 7:1 7:1")
                .unwrap_err()
                .contains("behind")
        );
        assert!(
            page("page events true 30 40 end end 7:1 8:1")
                .unwrap_err()
                .contains("behind")
        );
        assert!(
            page("page events true 30 40 end end 9:1 7:1")
                .unwrap_err()
                .contains("nobody wrote")
        );
        assert!(
            page("page events true 30 40 end end 7:2")
                .unwrap_err()
                .contains("nobody had put")
        );
    }

    #[test]
    fn a_row_that_was_deleted_does_not_come_back() {
        let gone = [&PUT[..], &["tries Events 25 -7:2", "done Events 28 -7:2"]].concat();
        let page = |page: &str| found(&[&gone[..], &[page]].concat());
        page("page events true 30 40 end end").unwrap();
        page("page events true 27 40 end end 7:1").unwrap();
        assert!(
            page("page events true 30 40 end end 7:1")
                .unwrap_err()
                .contains("is newer")
        );
    }

    #[test]
    fn allows_rows_of_unknown_outcome_to_exist_or_not() {
        let lines = ["tries Log 10 +7:1", "failed Log 20 +7:1"];
        for list in ["log false", "odd true"] {
            for rows in ["", " 7:1"] {
                let page = format!("page {list} 30 40 end end{rows}");
                found(&[&lines[..], &[&page]].concat()).unwrap();
            }
        }
        assert!(found(&["wrong it"]).is_err());
    }
}

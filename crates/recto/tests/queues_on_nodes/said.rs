//! What processes said of messages, and whether it can be so.

use std::collections::BTreeMap;

/// What was said of each message, by its number.
#[derive(Debug, Default)]
pub(crate) struct Said(BTreeMap<u64, OfOne>);

#[derive(Debug, Default)]
struct OfOne {
    is_sent: bool,
    /// When it was handed out last, by the clock that all processes have.
    begun_at: Option<i64>,
    /// When it was first known that it is done with.
    done_at: Option<i64>,
}

impl Said {
    /// Takes down `sent NUMBER TIME`, `begun NUMBER TIME` and `done NUMBER TIME`; other lines say nothing.
    pub(crate) fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, number, at] = words[..] else { return };
        let (Ok(number), Ok(at)) = (number.parse(), at.parse()) else {
            return;
        };
        match what {
            "sent" => self.0.entry(number).or_default().is_sent = true,
            "begun" => self.begun(number, at),
            "done" => {
                let done_at = &mut self.0.entry(number).or_default().done_at;
                *done_at = Some(done_at.map_or(at, |earlier: i64| earlier.min(at)));
            }
            _ => {}
        }
    }

    pub(crate) fn begun(&mut self, number: u64, at: i64) {
        let begun_at = &mut self.0.entry(number).or_default().begun_at;
        *begun_at = (*begun_at).max(Some(at));
    }

    /// Each confirmed message was begun, and none after it was done with.
    pub(crate) fn check(&self) {
        let is_lost = |said: &OfOne| said.is_sent && said.begun_at.is_none();
        let lost = self.0.iter().filter(|(_, said)| is_lost(said));
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        assert!(lost.is_empty(), "messages are lost: {lost:?}");
        for (number, said) in &self.0 {
            if let (Some(begun_at), Some(done_at)) = (said.begun_at, said.done_at) {
                assert!(
                    begun_at <= done_at,
                    "message {number} was begun after it was done with: {said:?}"
                );
            }
        }
    }

    /// How many were confirmed, begun, and known to be done with.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let count = |is: fn(&OfOne) -> bool| self.0.values().filter(|said| is(said)).count();
        [
            count(|said| said.is_sent),
            count(|said| said.begun_at.is_some()),
            count(|said| said.done_at.is_some()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Said {
        let mut said = Said::default();
        for line in lines {
            said.hear(line);
        }
        said
    }

    #[test]
    fn what_is_begun_again_before_it_is_done_with_is_right() {
        let right = said(&["sent 1 0", "begun 1 10", "begun 1 20", "done 1 20", "done 1 30"]);
        right.check();
        assert_eq!(right.counts(), [1, 1, 1]);
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn what_is_never_begun_is_lost() {
        said(&["sent 1 0", "begun 2 10"]).check();
    }

    #[test]
    #[should_panic(expected = "after it was done with")]
    fn what_is_begun_after_it_is_done_with_is_wrong() {
        said(&["done 1 20", "begun 1 21"]).check();
    }
}

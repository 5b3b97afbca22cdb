//! Events of the messages of a queue, which child processes printed, with a check that these events
//! are possible.

use std::collections::{BTreeMap, BTreeSet};

use super::children::{VISIBILITY, group};

/// Time by the clock of the machine, in microseconds since 1970.
type Micros = i64;

/// Size of the differences between the clocks of the processes that use a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// The differences are smaller than the error that leases tolerate.
    Near,
    /// The differences are larger than the error that leases tolerate. A message may therefore be
    /// delivered again while another process handles it. But a receive that begins after the
    /// acknowledgment of a message must not deliver this message.
    Apart,
}

/// Events of each message of a queue, by the id of the message.
#[derive(Debug, Default)]
pub(crate) struct MessageReports(BTreeMap<u64, OfOne>);

#[derive(Debug, Default)]
struct OfOne {
    is_sent: bool,
    begun: Vec<Begun>,
    /// Time at which a process first began to acknowledge the message. `None`: no process did.
    acking_at: Option<Micros>,
    /// Time at which a process first learned that its acknowledgment had succeeded. `None`: no
    /// process did.
    done_at: Option<Micros>,
    nacking_at: Vec<Micros>,
    /// True if a process saw the message among the dead letters. Because dead letters are moved
    /// back, such a message may be delivered again at any time.
    is_dead: bool,
}

/// Delivery of a message to a process.
#[derive(Debug, Clone)]
struct Begun {
    asked_at: Micros,
    at: Micros,
    id: String,
    /// Number of deliveries of the message so far, including this one, as the queue reported it.
    attempts: u16,
}

impl MessageReports {
    /// Adds the event of one printed line. `words` are the event, the id of the message, and
    /// further values. Ignores other lines.
    pub(crate) fn hear(&mut self, words: &[&str]) {
        let [what, number, rest @ ..] = words else { return };
        let Ok(number) = number.parse() else { return };
        let at = |index: usize| rest.get(index).and_then(|text: &&str| text.parse().ok());
        let said = self.0.entry(number).or_default();
        match (*what, at(0), at(1)) {
            ("sent", ..) => said.is_sent = true,
            ("dead", ..) => said.is_dead = true,
            ("begun", Some(asked_at), Some(at)) => said.begun.push(Begun {
                asked_at,
                at,
                id: rest.get(2).copied().unwrap_or_default().to_owned(),
                attempts: rest.get(3).and_then(|text| text.parse().ok()).unwrap_or(1),
            }),
            ("acking", Some(at), _) => first(&mut said.acking_at, at),
            ("done", Some(at), _) => first(&mut said.done_at, at),
            ("nacking", Some(at), _) => said.nacking_at.push(at),
            _ => {}
        }
    }

    /// Checks that all events are possible, after all messages were handled. Only an unordered
    /// queue may have had dead letters.
    ///
    /// # Errors
    /// Returns the first impossible event or the lost messages, as text.
    pub(crate) fn check(&self, is_ordered: bool, clocks: Clocks) -> Result<(), String> {
        let is_lost = |said: &OfOne| said.is_sent && (said.begun.is_empty() || said.acking_at.is_none());
        let lost = self.0.iter().filter(|(_, said)| is_lost(said));
        let lost: Vec<_> = lost.collect();
        if !lost.is_empty() {
            return Err(format!("messages are lost: {lost:?}"));
        }
        for (number, said) in &self.0 {
            let found = said.check(clocks, !is_ordered);
            found.map_err(|wrong| format!("message {number} {wrong}: {said:?}"))?;
        }
        if is_ordered { self.check_order() } else { Ok(()) }
    }

    /// Checks the order of the messages of each group. A message may be delivered only after a
    /// process has begun to acknowledge all earlier messages that are certainly stored.
    fn check_order(&self) -> Result<(), String> {
        let mut before: Option<(u64, Micros)> = None;
        for (number, said) in &self.0 {
            let begun_at = said.begun.iter().map(|begun| begun.at).min();
            let others = before.filter(|(other, _)| group(*other) == group(*number));
            if let (Some((other, acking_at)), Some(begun_at)) = (others, begun_at)
                && begun_at < acking_at
            {
                return Err(format!(
                    "message {number} was begun before {other}: {:?}",
                    self.0.get(&other)
                ));
            }
            if let Some(acking_at) = said.acking_at.filter(|_| said.is_sent) {
                let latest = others.map_or(acking_at, |(_, at)| at.max(acking_at));
                before = Some((*number, latest));
            }
        }
        Ok(())
    }

    /// Returns the number of messages that no process saw among the dead letters, although their
    /// deliveries show that they were dead letters.
    pub(crate) fn unseen(&self) -> usize {
        let unseen = self.0.values().filter(|said| said.is_as_new() && !said.is_dead);
        unseen.count()
    }

    /// Returns four numbers of messages: certainly stored, delivered, certainly acknowledged, and
    /// dead letters.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let count = |is: fn(&OfOne) -> bool| self.0.values().filter(|said| is(said)).count();
        [
            count(|said| said.is_sent),
            count(|said| !said.begun.is_empty()),
            count(|said| said.done_at.is_some()),
            count(|said| said.is_dead || said.is_as_new()),
        ]
    }
}

impl OfOne {
    fn check(&self, clocks: Clocks, has_dead_letters: bool) -> Result<(), &'static str> {
        let ids: BTreeSet<&str> = self.begun.iter().map(|begun| &*begun.id).collect();
        if ids.len() > 1 {
            return Err("stands there twice");
        }
        if self.is_as_new() && !has_dead_letters {
            return Err("came as if it had not been received before");
        }
        if self.is_dead || self.is_as_new() {
            return Ok(());
        }
        for begun in &self.begun {
            let known_at = match clocks {
                Clocks::Near => begun.at,
                Clocks::Apart => begun.asked_at,
            };
            if self.done_at.is_some_and(|done_at| done_at < known_at) {
                return Err("was begun after it was done with");
            }
        }
        if clocks == Clocks::Near && self.is_shared() {
            return Err("was given to two at a time");
        }
        Ok(())
    }

    /// Returns whether the message must have been a dead letter that was moved back between two
    /// deliveries. This is the case if a later receive did not report more attempts than an earlier
    /// delivery. The process that moves dead letters back does not print all of them, because
    /// messages that arrive in between may be moved first.
    fn is_as_new(&self) -> bool {
        let again =
            |before: &Begun, begun: &Begun| begun.asked_at > before.at && begun.attempts <= before.attempts;
        let mut begun = self.begun.iter();
        begun.any(|begun| self.begun.iter().any(|before| again(before, begun)))
    }

    /// Returns whether the message was delivered while it should have been hidden for another
    /// process. A process that returned the message does not count.
    fn is_shared(&self) -> bool {
        let mut begun = self.begun.clone();
        begun.sort_by_key(|begun| begun.at);
        let kept = i64::try_from(VISIBILITY.as_micros()).unwrap();
        begun.windows(2).any(|pair| {
            let [first, second] = pair else { return false };
            let is_given_back = self
                .nacking_at
                .iter()
                .any(|at| (first.at..=second.at).contains(at));
            second.at < first.asked_at + kept && !is_given_back
        })
    }
}

fn first(known: &mut Option<Micros>, at: Micros) {
    *known = Some(known.map_or(at, |earlier| earlier.min(at)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> MessageReports {
        let mut said = MessageReports::default();
        for line in lines {
            said.hear(&line.split(' ').collect::<Vec<_>>());
        }
        said
    }

    fn wrong(lines: &[&str], clocks: Clocks) -> String {
        said(lines).check(true, clocks).unwrap_err()
    }

    #[test]
    fn accepts_redelivery_before_completion() {
        let right = said(&[
            "sent 1",
            "begun 1 9 10 id",
            "nacking 1 15",
            "begun 1 19 20 id 2",
            "acking 1 20",
            "done 1 20",
            "done 1 30",
        ]);
        right.check(true, Clocks::Near).unwrap();
        assert_eq!(right.counts(), [1, 1, 1, 0]);
    }

    #[test]
    fn reports_unfinished_messages_as_lost() {
        assert!(wrong(&["sent 1", "begun 1 9 10 id"], Clocks::Apart).contains("lost"));
        assert!(wrong(&["sent 1"], Clocks::Apart).contains("lost"));
    }

    #[test]
    fn rejects_delivery_after_completion() {
        let lines = ["acking 1 20", "done 1 20", "begun 1 19 21 id"];
        assert!(wrong(&lines, Clocks::Near).contains("after it was done with"));
        said(&lines).check(true, Clocks::Apart).unwrap();
        let lines = ["acking 1 20", "done 1 20", "begun 1 21 22 id"];
        assert!(wrong(&lines, Clocks::Apart).contains("after it was done with"));
        said(&[&lines[..], &["dead 1"]].concat())
            .check(true, Clocks::Apart)
            .unwrap();
    }

    #[test]
    fn rejects_concurrent_delivery_with_near_clocks() {
        let lines = ["begun 1 9 10 id", "begun 1 19 20 id 2"];
        assert!(wrong(&lines, Clocks::Near).contains("two at a time"));
        said(&lines).check(true, Clocks::Apart).unwrap();
        let later = ["begun 1 9 10 id", "begun 1 9 5000009 id 2"];
        said(&later).check(true, Clocks::Near).unwrap();
    }

    #[test]
    fn treats_repeated_attempt_counts_as_dead_letters() {
        let lines = [
            "sent 1",
            "begun 1 9 10 id 3",
            "acking 1 20",
            "done 1 40",
            "begun 1 51 52 id 1",
        ];
        said(&lines).check(false, Clocks::Apart).unwrap();
        assert_eq!(said(&lines).counts(), [1, 1, 1, 1]);
        assert!(wrong(&lines, Clocks::Apart).contains("not been received before"));
        let again = [&lines[..4], &["begun 1 51 52 id 4"]].concat();
        let wrong = said(&again).check(false, Clocks::Apart).unwrap_err();
        assert!(wrong.contains("after it was done with"));
    }

    #[test]
    fn rejects_a_message_with_two_ids() {
        let lines = ["begun 1 9 10 id", "begun 1 9 5000009 other"];
        assert!(wrong(&lines, Clocks::Apart).contains("twice"));
    }

    #[test]
    fn rejects_delivery_before_an_earlier_message() {
        let one = ["sent 1", "begun 1 1 2 id", "acking 1 30"];
        let two = ["sent 2", "begun 2 19 20 two", "acking 2 40"];
        let lines = [&one[..], &two[..]].concat();
        assert!(wrong(&lines, Clocks::Apart).contains("before 1"));
        let of_another_group = ["begun 100001 19 20 two"];
        let lines = [&one[..], &of_another_group[..]].concat();
        said(&lines).check(true, Clocks::Apart).unwrap();
    }
}

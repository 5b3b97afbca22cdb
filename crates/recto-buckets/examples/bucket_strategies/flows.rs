//! Flows of arriving rows: the arrival time, partition, key and size of each row.

use std::collections::BTreeMap;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Bytes that each row counts in addition to its text: its key and its overhead.
const ROW_BYTES: u64 = 16 + 64;

/// Row that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coming {
    /// Arrival time, in milliseconds since the start of the flow.
    pub(crate) after_ms: i64,
    pub(crate) partition: u32,
    /// Value by which the row is ordered.
    pub(crate) order: i64,
    /// Length of the text of the row in bytes.
    pub(crate) text: usize,
}

/// Sequence of rows that arrive in a run.
pub(crate) struct Flow {
    pub(crate) name: String,
    /// Target size of a bucket, in bytes.
    pub(crate) target: u64,
    /// Rows in the order of arrival.
    pub(crate) rows: Vec<Coming>,
    /// For each burst, its end in milliseconds since the start of the flow, and its number of rows.
    pub(crate) bursts: Vec<(i64, usize)>,
    /// Names and widths of the buckets by time to compare with; widths in milliseconds.
    pub(crate) widths: &'static [(&'static str, i64)],
}

/// Generator of reproducible random numbers from a seed: `SplitMix64`.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Returns a number from 0 (exclusive) to 1.
    fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64 + f64::MIN_POSITIVE
    }
}

/// Order in which the rows of a burst arrive.
enum Order {
    OfKeys,
    /// The row with the last key arrives first.
    Reversed,
    /// The rows arrive in no order, and their keys are spread among the keys of the other rows.
    None,
}

struct Burst {
    name: &'static str,
    rows: usize,
    a_second: i64,
    order: Order,
}

const fn burst(name: &'static str, rows: usize, a_second: i64, order: Order) -> Burst {
    Burst {
        name,
        rows,
        a_second,
        order,
    }
}

const BURSTS: [Burst; 9] = [
    burst(
        "bursts of 60,000 rows, 500/s, in order",
        60_000,
        500,
        Order::OfKeys,
    ),
    burst(
        "bursts of 60,000 rows, 500/s, in reverse",
        60_000,
        500,
        Order::Reversed,
    ),
    burst(
        "bursts of 60,000 rows, 500/s, in no order",
        60_000,
        500,
        Order::None,
    ),
    burst(
        "bursts of 60,000 rows, 5,000/s, in order",
        60_000,
        5_000,
        Order::OfKeys,
    ),
    burst(
        "bursts of 60,000 rows, 5,000/s, in reverse",
        60_000,
        5_000,
        Order::Reversed,
    ),
    burst(
        "bursts of 5,000 rows at once, in order",
        5_000,
        50_000,
        Order::OfKeys,
    ),
    burst(
        "bursts of 5,000 rows at once, in reverse",
        5_000,
        50_000,
        Order::Reversed,
    ),
    burst("bursts of 500 rows at once, in order", 500, 50_000, Order::OfKeys),
    burst(
        "bursts of 500 rows at once, in reverse",
        500,
        50_000,
        Order::Reversed,
    ),
];

const WIDTHS: &[(&str, i64)] = &[("1 hour", HOUR_MS), ("1 day", DAY_MS), ("30 days", 30 * DAY_MS)];

impl Flow {
    /// Returns all flows, including those of the given files.
    pub(crate) fn all(flights: Option<&String>, commits: Option<&String>) -> Vec<Self> {
        let mut all = vec![
            Self::drawn("Poisson, 5 rows/s", 400_000, |_| 5.0),
            Self::drawn("Poisson, 50 rows/s", 400_000, |_| 50.0),
            Self::drawn("daily, 0.2 to 20 rows/s", 400_000, |ms| {
                let day = (ms % DAY_MS) as f64 / DAY_MS as f64;
                20.0_f64
                    .powf((day * std::f64::consts::TAU).sin() + 0.0)
                    .clamp(0.2, 20.0)
            }),
        ];
        all.extend(BURSTS.iter().map(Self::bursty));
        if let Some(path) = flights {
            all.push(Self::flights(path, "tailnum"));
            all.push(Self::flights(path, "origin,dest"));
        }
        if let Some(path) = commits {
            all.push(Self::commits(path));
        }
        all
    }

    /// Returns a flow with `rate(time)` rows per second. One row in a hundred arrives up to an hour late.
    fn drawn(name: &str, count: usize, rate: impl Fn(i64) -> f64) -> Self {
        let mut random = Random::new(count as u64 + name.len() as u64);
        let (mut rows, mut at) = (Vec::with_capacity(count), 0.0_f64);
        while rows.len() < count {
            at += -random.share().ln() * 1_000.0 / rate(at as i64);
            rows.push(row(at as i64, &mut random));
        }
        Self {
            name: name.to_owned(),
            target: 1_000_000,
            rows,
            bursts: Vec::new(),
            widths: WIDTHS,
        }
    }

    /// Returns a flow of one row per second, with a burst of rows every six hours.
    fn bursty(burst: &Burst) -> Self {
        const EVERY_MS: i64 = 6 * HOUR_MS;
        let mut flow = Self::drawn("a row a second", 172_800, |_| 1.0);
        let last = flow.rows.last().map_or(0, |row| row.after_ms);
        let mut random = Random::new(7);
        for number in 1..=last / EVERY_MS {
            let end = number * EVERY_MS;
            let times = (0..burst.rows).map(|row| end - 1 - row as i64 * 1_000 / burst.a_second);
            let mut times: Vec<i64> = times.collect();
            let mut orders = times.clone();
            times.reverse();
            match burst.order {
                Order::OfKeys => orders.reverse(),
                Order::Reversed => {}
                Order::None => orders.fill_with(|| random.below(last.cast_unsigned()) as i64),
            }
            let rows = times.into_iter().zip(orders).map(|(after_ms, order)| Coming {
                order,
                ..row(after_ms, &mut random)
            });
            flow.rows.extend(rows);
            flow.bursts.push((end, burst.rows));
        }
        // The sort is stable, so rows of the same time stay in the order of the burst.
        flow.rows.sort_by_key(|row| row.after_ms);
        Self {
            name: burst.name.to_owned(),
            ..flow
        }
    }

    /// Returns the flights, each at its scheduled departure, ordered by that time.
    fn flights(path: &str, by: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let of = |name: &str| names.iter().position(|other| *other == name).unwrap();
        let (hour, minute) = (of("time_hour"), of("minute"));
        let keys: Vec<usize> = by.split(',').map(of).collect();
        let mut partitions: BTreeMap<String, u32> = BTreeMap::new();
        let mut rows: Vec<Coming> = Vec::new();
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let key = keys.iter().map(|key| cells[*key]).collect::<Vec<_>>().join("-");
            let next = partitions.len() as u32;
            let time = cells[hour];
            let number = |from: usize, to: usize| time[from..to].parse::<i64>().unwrap();
            let days = days(number(0, 4), number(5, 7), number(8, 10));
            let at =
                (days * 24 + number(11, 13)) * HOUR_MS + cells[minute].parse::<i64>().unwrap() * MINUTE_MS;
            rows.push(Coming {
                after_ms: at,
                partition: *partitions.entry(key).or_insert(next),
                order: at,
                text: line.len(),
            });
        }
        rows.sort_by_key(|row| row.after_ms);
        let begun = rows[0].after_ms;
        for row in &mut rows {
            row.after_ms -= begun;
        }
        Self {
            name: format!("flights by {by}"),
            target: 64 << 10,
            rows,
            bursts: Vec::new(),
            widths: WIDTHS,
        }
    }

    /// Returns a flow of commits. Each arrives at its commit time, and is ordered by its author time.
    fn commits(path: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let times = text.lines().map(|line| {
            let (committed, written) = line.split_once(' ').unwrap();
            (
                committed.parse::<i64>().unwrap() * 1_000,
                written.parse::<i64>().unwrap() * 1_000,
            )
        });
        let mut times: Vec<(i64, i64)> = times.collect();
        times.sort_unstable();
        let begun = times[0].0;
        let row = |(committed, written): &(i64, i64)| Coming {
            after_ms: committed - begun,
            partition: 0,
            order: *written,
            text: 220,
        };
        Self {
            name: "commits by when they were written".to_owned(),
            target: 256 << 10,
            rows: times.iter().map(row).collect(),
            bursts: Vec::new(),
            widths: WIDTHS,
        }
    }

    /// Returns the counted bytes of all rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.iter().map(Coming::counted).sum()
    }
}

impl Coming {
    pub(crate) fn counted(&self) -> u64 {
        ROW_BYTES + self.text as u64
    }
}

fn row(after_ms: i64, random: &mut Random) -> Coming {
    let late_ms = if random.below(100) == 0 {
        random.below(HOUR_MS as u64) as i64
    } else {
        0
    };
    Coming {
        after_ms,
        partition: 0,
        order: after_ms - late_ms,
        // The length of the text has a mean of 20 bytes and varies widely.
        text: (-random.share().ln() * 20.0).min(2_000.0) as usize,
    }
}

/// Returns the number of days from 1970 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 306 + 5) / 10 + day - 1 - 719_468
}

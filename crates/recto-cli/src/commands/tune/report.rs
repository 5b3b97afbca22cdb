//! What is said of buckets.

use recto::buckets::{RowsPerBucket, counted_bytes};
use serde_json::{Value as Json, json};

use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::text::{bytes, grouped};

/// Shares of all buckets of which it is shown how large those are.
const SHARES: [f64; 5] = [0.001, 0.25, 0.5, 0.75, 0.999];

/// What the article says of each 512th row and 40 samples (004), and in how many buckets it is so.
const ARTICLE: (u32, f64) = (40, 1.0 / 512.0);

/// How large rows are: the bytes of their cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// Of how many that is known; none if somebody said it.
    pub(super) measured: Option<u64>,
    pub(super) bytes: u64,
    pub(super) largest_bytes: u64,
}

/// How large buckets are to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) bytes: u64,
    pub(super) epsilon: f64,
    pub(super) bytes_per_sample: f64,
    pub(super) rows: Rows,
}

/// What follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) buckets: RowsPerBucket,
    /// None where rows are counted, and not their bytes.
    pub(super) target: Option<Target>,
}

/// Something that the article says.
struct Claim {
    what: &'static str,
    claimed: &'static str,
    is: f64,
}

impl Report {
    /// What one row counts as; 1 where rows are counted.
    pub(super) fn unit(&self) -> u64 {
        self.target.map_or(1, |target| counted_bytes(target.rows.bytes))
    }

    fn more_than_target(&self, target: &Target) -> f64 {
        self.buckets.more_than(target.bytes / self.unit())
    }

    fn less_than_tenth(&self, target: &Target) -> f64 {
        self.buckets.fewer_than((target.bytes / 10).div_ceil(self.unit()))
    }

    fn claims(&self) -> Vec<Claim> {
        if (self.buckets.samples(), self.buckets.chance()) != ARTICLE || self.target.is_some() {
            return Vec::new();
        }
        let outside = |least, most| self.buckets.fewer_than(least) + self.buckets.more_than(most);
        vec![
            Claim {
                what: "fewer than 4,200 rows, or more than 58,000",
                claimed: "about 1 in 1 quadrillion",
                is: outside(4_200, 58_000),
            },
            Claim {
                what: "fewer than 12,000 rows, or more than 32,000",
                claimed: "around 1 in 1,000",
                is: outside(12_000, 32_000),
            },
            Claim {
                what: "more than 20,000 rows",
                claimed: "53.85 %",
                is: self.buckets.more_than(20_000),
            },
        ]
    }

    /// The report as text.
    pub(super) fn write(&self, console: &mut Console) -> Result<()> {
        if let Some(target) = &self.target {
            console.line(console.paint(Tone::Strong, &title(target)))?;
        } else {
            let text = format!(
                "Buckets of rows, each sampled with the chance {}",
                shown_chance(self.buckets.chance())
            );
            console.line(console.paint(Tone::Strong, &text))?;
        }
        let lines = self.lines();
        let width = lines
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in lines {
            console.line(format_args!("  {name:width$}  {value}"))?;
        }
        let claims = self.claims();
        if !claims.is_empty() {
            console.line("")?;
            console.line(console.paint(Tone::Strong, "What the article says of them, and what is so"))?;
        }
        for Claim { what, claimed, is } in claims {
            console.line(format_args!("  {what:45} {claimed:26} {}", shown_probability(is)))?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<(String, String)> {
        let buckets = &self.buckets;
        let rows = |number: f64| format!("{} rows", grouped(whole(number)));
        let mut lines = vec![("samples a bucket (k)".to_owned(), buckets.samples().to_string())];
        if let Some(target) = &self.target {
            lines.push((
                "bytes a sample (B)".to_owned(),
                bytes(whole(target.bytes_per_sample)),
            ));
        }
        lines.push((
            "samples a million rows".to_owned(),
            grouped(whole(1e6 * buckets.chance())),
        ));
        let mean = buckets.mean() * self.unit() as f64;
        let spread = format!(
            "{} ({:.0} %)",
            self.shown(buckets.deviation()),
            100.0 * buckets.deviation() / buckets.mean()
        );
        if let Some(target) = &self.target {
            let share = 100.0 * mean / target.bytes as f64;
            lines.push((
                "a bucket, in the mean".to_owned(),
                format!(
                    "{}, {share:.0} % of the target: {}",
                    self.shown(buckets.mean()),
                    rows(buckets.mean())
                ),
            ));
            lines.push(("standard deviation".to_owned(), spread));
            let tenth = format!("less than {}", bytes(target.bytes / 10));
            lines.push((tenth, shown_probability(self.less_than_tenth(target))));
            let over = format!("more than {}", bytes(target.bytes));
            lines.push((over, shown_probability(self.more_than_target(target))));
        } else {
            lines.push(("a bucket, in the mean".to_owned(), rows(buckets.mean())));
            lines.push(("standard deviation".to_owned(), spread));
        }
        for share in SHARES {
            let name = match share {
                0.5 => "half of them, at most".to_owned(),
                _ => format!("{} % of them, at most", 100.0 * share),
            };
            lines.push((name, self.shown(buckets.quantile(share) as f64)));
        }
        lines
    }

    fn shown(&self, rows: f64) -> String {
        if self.target.is_some() {
            bytes(whole(rows * self.unit() as f64))
        } else {
            format!("{} rows", grouped(whole(rows)))
        }
    }

    /// The same for programs.
    pub(super) fn to_json(self) -> Json {
        let (buckets, unit) = (self.buckets, self.unit());
        let quantiles = SHARES.map(|share| {
            let rows = buckets.quantile(share);
            match self.target {
                Some(_) => json!({ "share": share, "rows": rows, "bytes": rows * unit }),
                None => json!({ "share": share, "rows": rows }),
            }
        });
        let mut report = json!({
            "samples": buckets.samples(),
            "chance": buckets.chance(),
            "samples_per_million_rows": 1e6 * buckets.chance(),
            "mean_rows": buckets.mean(),
            "deviation_rows": buckets.deviation(),
            "quantiles": quantiles,
        });
        if let Some(target) = &self.target {
            report["target_bytes"] = json!(target.bytes);
            report["epsilon"] = json!(target.epsilon);
            report["row_bytes"] = json!(target.rows.bytes);
            report["largest_row_bytes"] = json!(target.rows.largest_bytes);
            report["rows_measured"] = json!(target.rows.measured);
            report["counted_row_bytes"] = json!(unit);
            report["bytes_per_sample"] = json!(target.bytes_per_sample);
            report["mean_bytes"] = json!(buckets.mean() * unit as f64);
            report["deviation_bytes"] = json!(buckets.deviation() * unit as f64);
            report["more_than_target"] = json!(self.more_than_target(target));
            report["less_than_tenth"] = json!(self.less_than_tenth(target));
        }
        let claims = self.claims();
        if !claims.is_empty() {
            let claims = claims
                .iter()
                .map(|claim| json!({ "what": claim.what, "claimed": claim.claimed, "is": claim.is }));
            report["article"] = claims.collect();
        }
        report
    }
}

fn title(target: &Target) -> String {
    let Rows {
        measured,
        bytes: row,
        largest_bytes,
    } = target.rows;
    let known = match measured {
        Some(rows) => format!(", measured of {} rows", grouped(rows)),
        None => String::new(),
    };
    let largest = if largest_bytes > row {
        format!(", the largest {}", bytes(largest_bytes))
    } else {
        String::new()
    };
    format!(
        "Buckets of {} at most, but for {:e}, of rows of {}{largest}{known}",
        bytes(target.bytes),
        target.epsilon,
        bytes(row)
    )
}

fn shown_chance(chance: f64) -> String {
    let every = 1.0 / chance;
    if (every - every.round()).abs() < 1e-9 {
        format!("1/{}", every.round())
    } else {
        chance.to_string()
    }
}

/// A probability, and how seldom that is.
fn shown_probability(probability: f64) -> String {
    if probability == 0.0 {
        return "never".to_owned();
    }
    if probability >= 0.01 {
        return format!("{:.3} %", 100.0 * probability);
    }
    format!("{probability:.2e}, 1 in {}", grouped(whole(1.0 / probability)))
}

#[expect(
    clippy::cast_sign_loss,
    reason = "what is counted is not negative, and what is too large is shown as the largest"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

//! Report of `recto tune`: the distribution of bucket sizes, and the cost of buckets.

use recto::buckets::{RowsPerBucket, counted_bytes};
use serde_json::{Value as Json, json};

use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::table::Table;
use crate::text::{bytes, counted, grouped, rows};

/// Quantiles of the bucket size that the report shows.
const SHARES: [f64; 5] = [0.001, 0.25, 0.5, 0.75, 0.999];

/// Minimum probability that the report also shows as "1 in N".
const LEAST_COUNTED: f64 = 1e-12;

/// Parameters of buckets in an article (004) whose claims the report checks: 40 samples per bucket,
/// and a sample for one in 512 rows on average.
const ARTICLE: (u32, f64) = (40, 1.0 / 512.0);

/// Size of a row in bytes, on average and at most. Only the bytes of its cells count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) bytes: u64,
    pub(super) largest_bytes: u64,
    /// Result of measuring the rows of a collection. `None`: the user gave the row size.
    pub(super) measured: Option<Measured>,
}

/// Result of measuring the rows of a collection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Number of rows that were measured.
    pub(super) rows: u64,
    pub(super) deviation_bytes: f64,
}

/// Target size of buckets, and the parameters that were computed from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) bytes: u64,
    pub(super) epsilon: f64,
    pub(super) bytes_per_sample: f64,
    pub(super) rows: Rows,
}

/// Bucket parameters that `recto tune` computed, for the report and the plot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) buckets: RowsPerBucket,
    /// Target size of buckets; `None` if sizes are in rows instead of bytes.
    pub(super) target: Option<Target>,
}

/// Claim of an article (004) about the probability that a bucket has more than `more` rows, or
/// fewer than `fewer` rows.
struct Claim {
    fewer: Option<u64>,
    more: u64,
    said: &'static str,
    chance: f64,
}

/// Claims of an article (004). The report compares each with the computed probability.
const CLAIMS: [Claim; 3] = [
    Claim {
        fewer: Some(4_200),
        more: 58_000,
        said: "about 1 in 1 quadrillion",
        chance: 1e-15,
    },
    Claim {
        fewer: Some(12_000),
        more: 32_000,
        said: "around 1 in 1,000",
        chance: 1e-3,
    },
    Claim {
        fewer: None,
        more: 20_000,
        said: "53.85 %",
        chance: 0.5385,
    },
];

impl Claim {
    fn condition(&self) -> String {
        let more = grouped(self.more);
        match self.fewer {
            Some(fewer) => format!("< {} or > {more}", grouped(fewer)),
            None => format!("> {more}"),
        }
    }

    /// Returns the computed probabilities that the claim is about: of fewer rows than `fewer`, and
    /// of more than `more`.
    fn is(&self, buckets: &RowsPerBucket) -> (Option<f64>, f64) {
        (
            self.fewer.map(|fewer| buckets.fewer_than(fewer)),
            buckets.more_than(self.more),
        )
    }
}

impl Report {
    /// Returns the factor from rows to the unit of the report: the bytes of a row, or 1 if the
    /// report shows rows.
    pub(super) fn unit(&self) -> u64 {
        self.target.map_or(1, |target| counted_bytes(target.rows.bytes))
    }

    /// Returns a bucket size as text, in bytes or in rows.
    pub(super) fn shown_size(&self, size: f64) -> String {
        match self.target {
            Some(_) => bytes(whole(size)),
            None => rows(whole(size)),
        }
    }

    /// Returns the number of samples of a bucket as text.
    pub(super) fn shown_samples(&self) -> String {
        counted(self.buckets.samples().into(), "sample", "samples")
    }

    /// Returns the size of a bucket with `rows` rows as text.
    fn shown(&self, rows: f64) -> String {
        self.shown_size(rows * self.unit() as f64)
    }

    fn is_of_the_article(&self) -> bool {
        (self.buckets.samples(), self.buckets.chance()) == ARTICLE && self.target.is_none()
    }

    pub(super) fn write(&self, console: &mut Console) -> Result<()> {
        let title = match &self.target {
            Some(target) => format!(
                "Buckets of at most {}, except with probability {:e}",
                bytes(target.bytes),
                target.epsilon
            ),
            None => format!(
                "Buckets of rows, each sampled with probability {}",
                shown_chance(self.buckets.chance())
            ),
        };
        console.line(console.paint(Tone::Strong, &title))?;
        let lines = self.lines();
        let width = lines
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in lines {
            console.line(format_args!("  {name:width$}  {value}"))?;
        }
        if self.is_of_the_article() {
            self.write_claims(console)?;
        }
        Ok(())
    }

    fn write_claims(&self, console: &mut Console) -> Result<()> {
        console.line("")?;
        console.line(console.paint(Tone::Strong, "Claims of the article, and computed values"))?;
        let tails = CLAIMS.map(|claim| claim.is(&self.buckets));
        let all = tails.map(|(fewer, more)| digits(fewer.unwrap_or(0.0) + more));
        let fewer = tails.map(|(fewer, _)| fewer.map_or(String::new(), digits));
        let columns = vec![
            ("rows", false, CLAIMS.iter().map(Claim::condition).collect()),
            ("claim", true, CLAIMS.map(|claim| claim.said.to_owned()).into()),
            ("computed", true, all.into()),
            ("fewer", true, fewer.into()),
            ("more", true, tails.map(|(_, more)| digits(more)).into()),
        ];
        for line in Table::of_columns(columns, console.width()).lines(console) {
            console.line(format_args!("  {line}"))?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<(String, String)> {
        let buckets = &self.buckets;
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
        if let Some(target) = &self.target {
            line("row", shown_row(&target.rows));
        }
        line("samples per bucket (k)", grouped(buckets.samples().into()));
        if let Some(target) = &self.target {
            line("bytes per sample (B)", bytes(whole(target.bytes_per_sample)));
        }
        line("samples per million rows", shown_rate(1e6 * buckets.chance()));
        line("mean size of a bucket", self.shown_mean());
        let share = 100.0 * buckets.deviation() / buckets.mean();
        let deviation = format!("{} ({share:.0} %)", self.shown(buckets.deviation()));
        line("standard deviation", deviation);
        for (name, chance) in self.tails() {
            line(&name, chance);
        }
        for share in SHARES {
            let name = match share {
                0.5 => "half of them at most".to_owned(),
                _ => format!("{} % of them at most", 100.0 * share),
            };
            line(&name, self.shown(buckets.quantile(share) as f64));
        }
        lines
    }

    fn shown_mean(&self) -> String {
        let (mean, shown) = (self.buckets.mean(), self.shown(self.buckets.mean()));
        let Some(target) = &self.target else {
            return shown;
        };
        let share = 100.0 * mean * self.unit() as f64 / target.bytes as f64;
        format!("{shown}, {share:.0} % of the target: {}", rows(whole(mean)))
    }

    /// Returns the probabilities that a bucket is much too small and that it is too large, as pairs
    /// of a label and a text.
    fn tails(&self) -> [(String, String); 2] {
        let buckets = &self.buckets;
        let (fewer, more) = self.tail_rows();
        let (small, large) = match &self.target {
            Some(target) => (
                format!("less than {}", bytes(target.bytes / 10)),
                format!("more than {}", bytes(target.bytes)),
            ),
            None => (
                format!("fewer than {}", grouped(fewer)),
                format!("more than {}", grouped(more)),
            ),
        };
        let may_be_small = fewer > buckets.samples().into();
        let may_be_large = buckets.chance() < 1.0 || more < buckets.samples().into();
        [
            (small, shown_probability(buckets.fewer_than(fewer), may_be_small)),
            (large, shown_probability(buckets.more_than(more), may_be_large)),
        ]
    }

    /// Returns the number of rows below which a bucket counts as small, and the number above which it counts
    /// as large.
    ///
    /// - With a target, these are a tenth of the target, and the target.
    /// - Without a target, these are half of the mean, and twice the mean.
    fn tail_rows(&self) -> (u64, u64) {
        match &self.target {
            Some(target) => (
                (target.bytes / 10).div_ceil(self.unit()),
                target.bytes / self.unit(),
            ),
            None => (whole(self.buckets.mean() / 2.0), whole(self.buckets.mean() * 2.0)),
        }
    }

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
        let (fewer, more) = self.tail_rows();
        let (small, large) = match &self.target {
            Some(_) => ("less_than_tenth", "more_than_target"),
            None => ("less_than_half_mean", "more_than_double_mean"),
        };
        report[small] = json!(buckets.fewer_than(fewer));
        report[large] = json!(buckets.more_than(more));
        if let Some(target) = &self.target {
            report["target_bytes"] = json!(target.bytes);
            report["epsilon"] = json!(target.epsilon);
            report["row_bytes"] = json!(target.rows.bytes);
            report["row_deviation_bytes"] = json!(target.rows.measured.map(|known| known.deviation_bytes));
            report["largest_row_bytes"] = json!(target.rows.largest_bytes);
            report["rows_measured"] = json!(target.rows.measured.map(|known| known.rows));
            report["counted_row_bytes"] = json!(unit);
            report["bytes_per_sample"] = json!(target.bytes_per_sample);
            report["mean_bytes"] = json!(buckets.mean() * unit as f64);
            report["deviation_bytes"] = json!(buckets.deviation() * unit as f64);
        }
        if self.is_of_the_article() {
            let claim = |claim: Claim| {
                let (fewer, more) = claim.is(&buckets);
                json!({
                    "fewer_than_rows": claim.fewer, "more_than_rows": claim.more,
                    "said": claim.said, "said_chance": claim.chance,
                    "is": fewer.unwrap_or(0.0) + more, "is_fewer": fewer, "is_more": more,
                })
            };
            report["article"] = json!(CLAIMS.map(claim));
        }
        report
    }
}

/// Returns the size of a row as text, with the standard deviation if it was measured.
fn shown_row(rows: &Rows) -> String {
    let mut shown = bytes(rows.bytes);
    if let Some(known) = rows.measured {
        shown.push_str(&format!(" ± {}", bytes(whole(known.deviation_bytes))));
    }
    if rows.largest_bytes > rows.bytes {
        shown.push_str(&format!(", the largest {}", bytes(rows.largest_bytes)));
    }
    if let Some(known) = rows.measured {
        shown.push_str(&format!("; {} measured", grouped(known.rows)));
    }
    shown
}

/// Formats a rate per million rows. Rates below ten have decimals.
fn shown_rate(rate: f64) -> String {
    if rate < 10.0 {
        format!("{rate:.3}")
    } else {
        grouped(whole(rate))
    }
}

fn shown_chance(chance: f64) -> String {
    let every = 1.0 / chance;
    if (every - every.round()).abs() < 1e-9 * every {
        format!("1/{}", grouped(whole(every)))
    } else {
        chance.to_string()
    }
}

/// Formats a probability. Adds "1 in N" to a small one. `can_be` is false for an impossible event.
/// A possible event has probability 0 if it is too rare for a floating-point number.
fn shown_probability(probability: f64, can_be: bool) -> String {
    match probability {
        _ if !can_be => "never".to_owned(),
        0.0 => format!("less than {:.0e}", f64::MIN_POSITIVE),
        LEAST_COUNTED..0.01 => format!(
            "{}, 1 in {}",
            digits(probability),
            grouped(whole(1.0 / probability))
        ),
        _ => digits(probability),
    }
}

/// Formats a probability as a percentage, or as a power of ten if it is small.
fn digits(probability: f64) -> String {
    if probability >= 0.01 {
        format!("{:.3} %", 100.0 * probability)
    } else {
        format!("{probability:.2e}")
    }
}

#[expect(
    clippy::cast_sign_loss,
    reason = "counts are not negative, and the largest value stands for all that are too large"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

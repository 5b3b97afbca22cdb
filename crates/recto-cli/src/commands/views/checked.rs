//! Text output for the results of checking buckets, in `recto verify` and `recto repair`.

use recto::session::{BucketFault, VerifiedBuckets};
use serde_json::json;

use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::text::{counted, grouped, printable, rows};

/// Prints the result of checking the buckets of one sort order (a collection or a view).
pub(super) fn draw(found: &VerifiedBuckets, repairs: bool, console: &mut Console) -> Result<()> {
    let name = printable(&format!("{}.{}", found.collection, found.view));
    let looked = format!(
        "{} in {}",
        rows(found.rows),
        counted(found.buckets, "non-empty bucket", "non-empty buckets")
    );
    let too_large = (found.too_large > 0).then(|| {
        format!(
            "{} larger than the target (`recto buckets --rebalance` splits those with more than one row)",
            grouped(found.too_large)
        )
    });
    if found.wrong() == 0 {
        let end = too_large.unwrap_or_else(|| "all is well".to_owned());
        let good = console.paint(Tone::Good, "✓");
        console.line(format_args!("{good} {name}: {looked}; {end}"))?;
        return Ok(());
    }
    let parts = found.found.iter();
    let parts = parts.map(|(kind, count)| format!("{} {}", grouped(*count), printable(&words(kind))));
    let mut parts: Vec<String> = parts.collect();
    if repairs {
        parts.push(format!("{} repaired", grouped(found.repaired)));
    }
    parts.extend(too_large);
    let bad = console.paint(Tone::Bad, "✗");
    console.line(format_args!("{bad} {name}: {looked}; {}", parts.join(", ")))?;
    for example in &found.examples {
        console.line(format_args!("  {}", printable(&line(example))))?;
    }
    let more = found.wrong().saturating_sub(found.examples.len() as u64);
    if more > 0 {
        console.line(format_args!("  and {} more", grouped(more)))?;
    }
    Ok(())
}

fn line(example: &BucketFault) -> String {
    let mut parts = vec![words(&example.kind)];
    parts.extend(example.key.as_ref().map(|key| json!(key).to_string()));
    parts.extend(example.bucket.map(|bucket| format!("in bucket {bucket}")));
    let fields = example.partition.as_object();
    let is_named = fields.is_some_and(|fields| !fields.is_empty());
    parts.extend(is_named.then(|| format!("of {}", example.partition)));
    let mut texts = vec![parts.join(" ")];
    let more = [&example.detail, &example.outcome].into_iter();
    texts.extend(more.filter(|more| !more.is_empty()).cloned());
    texts.join(": ")
}

fn words(kind: &str) -> String {
    kind.replace('_', " ")
}

//! Results of the benchmarks, as JSON (to save and merge them), and as tables of a Markdown
//! document.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Results of one or several runs of the benchmark program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Names and values that describe the machine and the versions of the measured programs.
    pub(crate) machine: Vec<(String, String)>,
    /// Results of each phase (measurement) that ran.
    pub(crate) sections: Vec<Section>,
}

/// Results of one phase (measurement).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Section {
    /// Name of the phase.
    pub(crate) phase: String,
    pub(crate) title: String,
    /// Description of what the phase measures, in Markdown.
    pub(crate) text: String,
    /// Command line that repeats the phase.
    pub(crate) command: String,
    pub(crate) seconds: f64,
    pub(crate) tables: Vec<Table>,
    pub(crate) targets: Vec<Target>,
}

/// Table of measured values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) caption: String,
    /// Titles of the columns. The first column contains the names of the rows.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Line>,
}

/// Row of a table: its name, and a value for each column except the first. `None` means not
/// measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) figures: Vec<Option<f64>>,
}

/// Target of a measured value: a minimum or a maximum, and the value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
    pub(crate) found: f64,
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, name: impl Into<String>, figures: impl IntoIterator<Item = Option<f64>>) {
        self.rows.push(Line {
            name: name.into(),
            figures: figures.into_iter().collect(),
        });
    }
}

impl Target {
    pub(crate) fn at_least(what: impl Into<String>, wanted: f64, found: f64) -> Self {
        Self {
            what: what.into(),
            at_least: Some(wanted),
            at_most: None,
            found,
        }
    }

    pub(crate) fn at_most(what: impl Into<String>, wanted: f64, found: f64) -> Self {
        Self {
            what: what.into(),
            at_least: None,
            at_most: Some(wanted),
            found,
        }
    }

    fn is_met(&self) -> bool {
        self.at_least.is_none_or(|wanted| self.found >= wanted)
            && self.at_most.is_none_or(|wanted| self.found <= wanted)
    }

    /// Returns the target as text, such as `≥ 0.6`.
    fn wanted(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(wanted), _) => format!("≥ {}", number(wanted)),
            (None, Some(wanted)) => format!("≤ {}", number(wanted)),
            (None, None) => String::new(),
        }
    }

    /// Returns the text `met`, or by how many percent the value misses the target.
    fn verdict(&self) -> String {
        if self.is_met() {
            return "met".to_owned();
        }
        let wanted = self.at_least.or(self.at_most).unwrap_or(self.found);
        format!("**missed by {:.0} %**", (self.found / wanted - 1.0).abs() * 100.0)
    }
}

impl Report {
    /// Adds the results of another report. They replace sections of the same phase.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.machine.is_empty() {
            self.machine = other.machine;
        }
        for section in other.sections {
            match self.sections.iter_mut().find(|one| one.phase == section.phase) {
                Some(one) => *one = section,
                None => self.sections.push(section),
            }
        }
    }

    /// Returns the Markdown document: the text `before`, the results, and the text `after`.
    pub(crate) fn to_markdown(&self, before: &str, after: &str) -> String {
        let mut text = before.to_owned();
        text.push_str("\n## Machine and versions\n\n| | |\n|---|---|\n");
        for (name, value) in &self.machine {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        self.push_targets(&mut text);
        for section in &self.sections {
            section.push_to(&mut text);
        }
        text.push('\n');
        text.push_str(after);
        text
    }

    fn push_targets(&self, text: &mut String) {
        let targets: Vec<&Target> = self
            .sections
            .iter()
            .flat_map(|section| &section.targets)
            .collect();
        if targets.is_empty() {
            return;
        }
        text.push_str("\n## Targets\n\n| target | wanted | measured | |\n|---|---|---|---|\n");
        for target in targets {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                target.what,
                target.wanted(),
                number(target.found),
                target.verdict()
            );
        }
    }
}

impl Section {
    fn push_to(&self, text: &mut String) {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n`{}` ({:.0} s)\n",
            self.title,
            self.text.trim(),
            self.command,
            self.seconds
        );
        for table in &self.tables {
            table.push_to(text);
        }
    }
}

impl Table {
    fn push_to(&self, text: &mut String) {
        text.push('\n');
        if !self.caption.is_empty() {
            let _ = writeln!(text, "{}\n", self.caption);
        }
        let _ = writeln!(text, "| {} |", self.columns.join(" | "));
        let _ = writeln!(
            text,
            "|---|{}",
            "---:|".repeat(self.columns.len().saturating_sub(1))
        );
        for row in &self.rows {
            let figures: Vec<String> = row
                .figures
                .iter()
                .map(|figure| figure.map_or_else(|| "–".to_owned(), number))
                .collect();
            let _ = writeln!(text, "| {} | {} |", row.name, figures.join(" | "));
        }
    }
}

/// Formats a number with about three digits and a thousands separator. An integer gets no decimals.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let is_whole = value.fract().abs() < f64::EPSILON;
    if size < 10.0 && !is_whole {
        return format!("{value:.2}");
    }
    if size < 100.0 && !is_whole {
        return format!("{value:.1}");
    }
    let digits = format!("{size:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

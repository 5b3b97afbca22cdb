//! Bar that shows the size of a bucket, with a vertical line at the target size.

use crate::console::{Console, Tone};

/// Width of a bar in columns, including sizes above the target.
pub(super) const BAR_WIDTH: usize = 24;
/// Number of columns from the start of a bar to the target line, unless a size is far above the
/// target.
const TARGET_WIDTH: usize = 20;
/// Characters of a bar: the character at index n fills n eighths of a column.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Scale of the bars in a list. All bars have the same unit and the same target size.
pub(super) struct Scale {
    target: u64,
    /// Size that fills the whole bar, in the unit of the target.
    full: f64,
    /// Column (from 0) of the target line.
    at: usize,
}

impl Scale {
    pub(super) fn new(target: u64, largest: u64) -> Self {
        let usual = target as f64 * BAR_WIDTH as f64 / TARGET_WIDTH as f64;
        let full = usual.max(largest as f64).max(1.0);
        #[expect(clippy::cast_sign_loss, reason = "both are positive")]
        let at = (target as f64 / full * BAR_WIDTH as f64) as usize;
        Self {
            target,
            full,
            at: at.min(BAR_WIDTH - 1),
        }
    }

    /// Returns the bar for a size as text, with the target line.
    pub(super) fn bar(&self, size: u64, console: &Console) -> String {
        let length = (size as f64 / self.full).min(1.0) * BAR_WIDTH as f64;
        let column = |column: usize| {
            #[expect(clippy::cast_sign_loss, reason = "it is clamped")]
            let eighths = ((length - column as f64).clamp(0.0, 1.0) * 8.0).round() as usize;
            match EIGHTHS[eighths] {
                ' ' if column == self.at => '│',
                // Draw at least one eighth for a size that is not zero, so that the bar is visible.
                ' ' if column == 0 && size > 0 => EIGHTHS[1],
                filled => filled,
            }
        };
        let all: String = (0..BAR_WIDTH).map(column).collect();
        let split = all
            .char_indices()
            .nth(self.at)
            .map_or(all.len(), |(index, _)| index);
        let (within, over) = all.split_at(split);
        let tone = if size > self.target { Tone::Bad } else { Tone::Dim };
        let within = console.paint(Tone::Hint, within);
        format!("{within}{}", console.paint(tone, over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_it_shows() {
        let (console, _) = Console::captured(100);
        let bar = |size, largest| Scale::new(100, largest).bar(size, &console);
        assert_eq!(bar(0, 0), "                    │   ");
        assert_eq!(bar(1, 100), "▎                   │   ");
        assert_eq!(bar(100, 100), "████████████████████│   ");
        assert_eq!(bar(110, 110), "██████████████████████  ");
        assert_eq!(bar(400, 400), "████████████████████████");
        assert_eq!(bar(100, 400), "██████│                 ");
        assert_eq!(bar(1, 1_000_000), "│                       ");
        assert_eq!(bar(1, 1_000), "▏ │                     ");
    }
}

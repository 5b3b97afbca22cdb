//! Numbers, sizes and times as people read them.

/// A number in groups of three: `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun: `1 row`, `50 rows`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Bytes in decimal units: `9.8 kB`.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if number < 1_000 {
        return format!("{number} B");
    }
    let mut value = number as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 999.95 {
            break;
        }
        value /= 1_000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A time in microseconds, in milliseconds from one on: `212 µs`, `3.4 ms`.
pub(super) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1_000.0),
        _ => format!("{:.2} s", micros as f64 / 1_000_000.0),
    }
}

/// The first `most` characters of a text, with `…` after them if there are more.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_units_chosen() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "row", "rows"), "1 row");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(9_800), "9.8 kB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(duration(999), "999 µs");
        assert_eq!(duration(3_400), "3.4 ms");
        assert_eq!(duration(2_500_000), "2.50 s");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("größe", 3), "grö…");
        assert_eq!(cut("grö", 3), "grö");
    }
}

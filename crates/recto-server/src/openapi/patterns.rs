//! Regular expressions for values without a standard format. Each matches the whole text, and uses
//! only syntax that ECMA-262 and Rust share. Each matches exactly the texts that Recto reads (or
//! writes), unless a comment says otherwise.

pub(super) const ASCII: &str = r"^[\x00-\x7F]*$";
pub(super) const BASE64: &str =
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// Pattern of blobs as hex: two digits per byte, after a prefix that base64 cannot have.
pub(super) const HEX: &str = r"^\\x(?:[0-9a-fA-F]{2})+$";
pub(super) const WHOLE_STORED: &str = "^-?[0-9]+$";
pub(super) const WHOLE_GIVEN: &str = "^[+-]?[0-9]+$";
/// Pattern of decimals. Recto also reads longer exponents, if the scale fits 32 bits.
pub(super) const DECIMAL: &str = r"^[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,9})?$";
/// Pattern of timestamps. It does not check that the date exists.
pub(super) const TIMESTAMP: &str = "^(?:[0-9]{4}|[+-][0-9]{4,9})-[0-9]{2}-[0-9]{2}\
    T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,3}0{0,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$";
pub(super) const TIME_STORED: &str = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{9}$";
pub(super) const TIME_GIVEN: &str = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?$";
pub(super) const UUID: &str = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
pub(super) const TIMEUUID: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-1[0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";

/// Returns the pattern of durations. Each part has so few digits that the sum of the parts is in
/// range.
pub(super) fn duration() -> String {
    let date = some_of(&["[0-9]{1,7}Y", "[0-9]{1,8}M", "[0-9]{1,7}W", "[0-9]{1,9}D"]);
    let time = some_of(&["[0-9]{1,6}H", "[0-9]{1,8}M", r"[0-9]{1,9}(?:\.[0-9]{1,9})?S"]);
    format!("^-?P(?:{date}(?:T{time})?|T{time})$")
}

/// Returns a pattern that matches one or more of the parts, in their order.
fn some_of(parts: &[&str]) -> String {
    let beginnings = (0..parts.len()).map(|first| {
        let rest = parts[first + 1..].iter().map(|part| format!("(?:{part})?"));
        format!("{}{}", parts[first], rest.collect::<String>())
    });
    format!("(?:{})", beginnings.collect::<Vec<_>>().join("|"))
}

pub(super) fn bigint() -> String {
    let up_to_max = at_most(&i64::MAX.to_string());
    format!("^(?:[+-]?0*(?:{up_to_max})|-0*{})$", i64::MIN.unsigned_abs())
}

/// Returns a pattern of integers without leading zeros, up to the integer with the given digits.
fn at_most(digits: &str) -> String {
    let mut choices = vec![format!("[0-9]{{1,{}}}", digits.len() - 1), digits.to_owned()];
    for (index, digit) in digits.bytes().enumerate().filter(|(_, digit)| *digit > b'0') {
        let lowest = if index == 0 { '1' } else { '0' };
        let below = char::from(digit - 1);
        if lowest > below {
            continue;
        }
        let rest = digits.len() - index - 1;
        choices.push(format!("{}[{lowest}-{below}][0-9]{{{rest}}}", &digits[..index]));
    }
    choices.join("|")
}

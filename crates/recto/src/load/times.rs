//! Parsing and writing of dates and times in CSV files.
//!
//! Without a pattern in the options, dates and times are in ISO 8601. A blank in place of `T`,
//! times without seconds, and offsets such as `+02` and `+0200` are also accepted. A time is
//! converted exactly or rejected: it is never rounded, and it never moves to the next day.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use recto_model::{Type, Value, json};

use super::convert::days;
use crate::error::{Error, ErrorKind, Result};
use crate::session::CsvOptions;

const MILLIS_PER_SECOND: i64 = 1_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MILLIS_PER_DAY: i64 = SECONDS_PER_DAY * MILLIS_PER_SECOND;

/// Maximum number of hours of an offset from UTC.
const MAX_OFFSET_HOURS: i64 = 23;

/// Codes that are allowed in a pattern of dates and times.
const CODES: &str = "%Y %y %m %b %B %d %e %H %I %p %M %S %f %z %Z %a %A %s %F %T %R %%";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Names of weekdays, beginning with the weekday of 1970-01-01.
const WEEKDAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

/// Number of letters of the short form of a month or day.
const SHORT_NAME: usize = 3;

/// Reason why a text is not a date or time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TimeError {
    /// The text does not have the expected form, or the time does not exist.
    Form,
    /// The text has no offset from UTC, and the options name no time zone.
    NoOffset,
    /// The time occurs twice in the time zone, or not at all.
    Ambiguous,
}

/// Pattern and time zone by which dates and times of a file are read.
#[derive(Debug, Default)]
pub(super) struct Times {
    pattern: Option<Pattern>,
    zone: Option<TimeZone>,
}

impl Times {
    pub(super) fn new(options: &CsvOptions) -> Result<Self> {
        let pattern = options.time_format.as_deref().map(Pattern::parse).transpose()?;
        let zone = options.time_zone.as_deref().map(zone_of).transpose()?;
        Ok(Self { pattern, zone })
    }

    /// Returns the pattern by which values of a type are read; `None` means ISO 8601.
    pub(super) fn pattern(&self, ty: &Type) -> Option<&str> {
        self.pattern_of(ty).map(|pattern| pattern.text.as_str())
    }

    fn pattern_of(&self, ty: &Type) -> Option<&Pattern> {
        self.pattern.as_ref().filter(|pattern| match ty {
            Type::Timestamp | Type::Date => pattern.has_date || pattern.has_epoch,
            // A pattern with a date applies to dates and timestamps only, so a time of day is read
            // as ISO 8601.
            Type::Time => pattern.has_time && !pattern.has_date,
            _ => false,
        })
    }

    /// Parses a cell as a date, a time or a timestamp.
    pub(super) fn read(&self, ty: &Type, text: &str) -> Result<Value, TimeError> {
        if let Some(pattern) = self.pattern_of(ty) {
            return self.value_of(ty, pattern.read(text)?);
        }
        if let Ok(value) = json::from_text(ty, text) {
            return Ok(value);
        }
        match ty {
            Type::Time => iso(ty, &format!("{text}:00")),
            Type::Timestamp => self.usual_timestamp(text),
            _ => Err(TimeError::Form),
        }
    }

    /// Parses a timestamp in the forms that databases and programs commonly write.
    fn usual_timestamp(&self, text: &str) -> Result<Value, TimeError> {
        let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
        let is_time = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
        let length = rest.bytes().take_while(|byte| is_time(*byte)).count();
        let (time, offset) = rest.split_at(length);
        let seconds = if time.len() == "10:00".len() { ":00" } else { "" };
        let offset = match offset.strip_prefix(' ').unwrap_or(offset) {
            "" if length == rest.len() => None,
            offset => Some(offset_seconds(offset).ok_or(TimeError::Form)?),
        };
        let local = iso(&Type::Timestamp, &format!("{date}T{time}{seconds}Z"))?;
        let Value::Timestamp(local) = local else {
            return Err(TimeError::Form);
        };
        self.instant(local, offset).map(Value::Timestamp)
    }

    /// Converts a local time to milliseconds since 1970, by its offset or by the time zone of the
    /// options.
    fn instant(&self, local: i64, offset: Option<i64>) -> Result<i64, TimeError> {
        if let Some(seconds) = offset {
            return local
                .checked_sub(seconds * MILLIS_PER_SECOND)
                .ok_or(TimeError::Form);
        }
        let zone = self.zone.as_ref().ok_or(TimeError::NoOffset)?;
        let local = jiff::Timestamp::from_millisecond(local).map_err(|_| TimeError::Form)?;
        let local = TimeZone::UTC.to_datetime(local);
        let instant = zone.to_ambiguous_timestamp(local).unambiguous();
        instant
            .map(jiff::Timestamp::as_millisecond)
            .map_err(|_| TimeError::Ambiguous)
    }

    fn value_of(&self, ty: &Type, parts: Parts) -> Result<Value, TimeError> {
        if let Some(seconds) = parts.epoch {
            let date = i32::try_from(seconds.div_euclid(SECONDS_PER_DAY));
            return match (ty, seconds.checked_mul(MILLIS_PER_SECOND), date) {
                (Type::Timestamp, Some(millis), _) => Ok(Value::Timestamp(millis)),
                (Type::Date, _, Ok(date)) if seconds.rem_euclid(SECONDS_PER_DAY) == 0 => {
                    Ok(Value::Date(date))
                }
                _ => Err(TimeError::Form),
            };
        }
        let hour = match (parts.is_afternoon, parts.hour) {
            (None, hour) => hour,
            (Some(is_afternoon), hour @ 1..=12) => hour % 12 + if is_afternoon { 12 } else { 0 },
            _ => return Err(TimeError::Form),
        };
        let time = format!(
            "{hour:02}:{:02}:{:02}.{:09}",
            parts.minute, parts.second, parts.nanos
        );
        if *ty == Type::Time {
            return iso(ty, &time);
        }
        let date = format!("{:04}-{:02}-{:02}", parts.year, parts.month, parts.day);
        let day = iso(&Type::Date, &date)?;
        let weekday = days(parts.year, parts.month, parts.day).rem_euclid(7);
        if parts.weekday.is_some_and(|named| named != weekday) {
            return Err(TimeError::Form);
        }
        if *ty == Type::Date {
            // A date cannot store a time of day, so reject every time except midnight.
            let is_midnight = hour == 0 && parts.minute == 0 && parts.second == 0 && parts.nanos == 0;
            return if is_midnight {
                Ok(day)
            } else {
                Err(TimeError::Form)
            };
        }
        let Value::Timestamp(local) = iso(ty, &format!("{date}T{time}Z"))? else {
            return Err(TimeError::Form);
        };
        self.instant(local, parts.offset).map(Value::Timestamp)
    }

    /// Returns a text that [`read`](Self::read) converts to `value`.
    pub(super) fn write(&self, ty: &Type, value: &Value) -> String {
        let Some(pattern) = self.pattern_of(ty) else {
            return json::to_text(ty, value);
        };
        match value {
            Value::Timestamp(millis) => {
                let zone = self
                    .zone
                    .as_ref()
                    .filter(|_| !pattern.has_offset && !pattern.has_epoch);
                let offset = zone.and_then(|zone| {
                    let instant = jiff::Timestamp::from_millisecond(*millis).ok()?;
                    Some(i64::from(zone.to_offset(instant).seconds()))
                });
                let local = millis.saturating_add(offset.unwrap_or(0) * MILLIS_PER_SECOND);
                let text = json::to_text(ty, &Value::Timestamp(local));
                let (date, time) = text.split_once('T').unwrap_or((&text, ""));
                pattern.write(
                    date,
                    time.trim_end_matches('Z'),
                    local.div_euclid(MILLIS_PER_DAY),
                    *millis,
                )
            }
            Value::Date(day) => {
                let day = i64::from(*day);
                pattern.write(
                    &json::to_text(ty, value),
                    "00:00:00.000",
                    day,
                    day * MILLIS_PER_DAY,
                )
            }
            _ => pattern.write("1970-01-01", &json::to_text(ty, value), 0, 0),
        }
    }
}

/// Parses a date, a time or a timestamp in ISO 8601.
fn iso(ty: &Type, text: &str) -> Result<Value, TimeError> {
    json::from_text(ty, text).map_err(|_| TimeError::Form)
}

/// Returns the offset from UTC in seconds, positive to the east, of `Z`, `UTC`, `+02`, `+0200` or
/// `+02:00`.
fn offset_seconds(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z" | "UTC" | "GMT") {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    let number = |text: &str, most: i64| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number
            .then(|| text.parse::<i64>().ok())
            .flatten()
            .filter(|number| *number <= most)
    };
    Some(sign * (number(hours, MAX_OFFSET_HOURS)? * 60 + number(minutes, 59)?) * 60)
}

fn zone_of(name: &str) -> Result<TimeZone> {
    if let Some(seconds) = offset_seconds(name) {
        let offset = i32::try_from(seconds).ok();
        let offset = offset.and_then(|seconds| jiff::tz::Offset::from_seconds(seconds).ok());
        if let Some(offset) = offset {
            return Ok(offset.to_time_zone());
        }
    }
    TimeZone::get(name).map_err(|_| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("there is no time zone {name:?} on this machine"),
        )
        .with_field("time_zone")
        .with_hint("use UTC, an offset such as +02:00, or a zone such as Europe/Berlin")
    })
}

/// Values that a pattern has read from a cell: year, month and so on.
#[derive(Debug, Default)]
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
    is_afternoon: Option<bool>,
    offset: Option<i64>,
    weekday: Option<i64>,
    epoch: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Literal(char),
    /// One or more blanks in the text.
    Blank,
    Code(char),
}

/// Parsed pattern of dates and times, such as `%Y/%m/%d`.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a property of the codes
struct Pattern {
    text: String,
    items: Vec<Item>,
    has_date: bool,
    has_time: bool,
    has_offset: bool,
    has_epoch: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self> {
        let mut items = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => match characters.next() {
                    Some('F') => items.extend(codes("Y-m-d")),
                    Some('T') => items.extend(codes("H:M:S")),
                    Some('R') => items.extend(codes("H:M")),
                    Some('%') => items.push(Item::Literal('%')),
                    Some(code) if CODES.contains(&format!("%{code}")) => items.push(Item::Code(code)),
                    code => {
                        let code = code.map(String::from).unwrap_or_default();
                        return Err(wrong(text, &format!("the code %{code} does not exist")));
                    }
                },
                ' ' if items.last() == Some(&Item::Blank) => {}
                ' ' => items.push(Item::Blank),
                other => items.push(Item::Literal(other)),
            }
        }
        let has = |codes: &[char]| codes.iter().any(|code| items.contains(&Item::Code(*code)));
        let pattern = Self {
            has_date: has(&['Y', 'y']) && has(&['m', 'b', 'B']) && has(&['d', 'e']),
            has_time: has(&['H']) || has(&['I']) && has(&['p']),
            has_offset: has(&['z', 'Z']),
            has_epoch: has(&['s']),
            text: text.to_owned(),
            items: Vec::new(),
        };
        let reason = if has(&['Y', 'y', 'm', 'b', 'B', 'd', 'e', 'a', 'A']) && !pattern.has_date {
            Some("a date needs a year, a month and a day")
        } else if has(&['I', 'p', 'M', 'S']) && !pattern.has_time {
            Some("a time of day needs %H, or %I and %p")
        } else if has(&['H']) && has(&['I', 'p']) {
            Some("use either %H (24 hours), or %I and %p (12 hours)")
        } else if has(&['f']) && !has(&['S']) {
            Some("%f, a fraction of a second, needs %S")
        } else if pattern.has_epoch && (pattern.has_date || pattern.has_time || pattern.has_offset) {
            Some("%s is a complete time and cannot be combined with other codes")
        } else if !(pattern.has_date || pattern.has_time || pattern.has_epoch) {
            Some("it has neither a date nor a time")
        } else {
            None
        };
        match reason {
            Some(reason) => Err(wrong(text, reason)),
            None => Ok(Self { items, ..pattern }),
        }
    }

    fn read(&self, text: &str) -> Result<Parts, TimeError> {
        let mut parts = Parts::default();
        let mut rest = text;
        for item in &self.items {
            rest = match item {
                Item::Literal(character) => rest.strip_prefix(*character),
                Item::Blank => rest.strip_prefix(' ').map(|rest| rest.trim_start_matches(' ')),
                Item::Code(code) => read_code(*code, rest, &mut parts),
            }
            .ok_or(TimeError::Form)?;
        }
        if rest.is_empty() {
            Ok(parts)
        } else {
            Err(TimeError::Form)
        }
    }

    /// Writes a date such as `2013-01-31` and a time such as `10:00:00.000` by the pattern. `day` is the number of days
    /// from 1970-01-01 to that date; `millis` is the instant.
    fn write(&self, date: &str, time: &str, day: i64, millis: i64) -> String {
        // The year may have a sign or more than four digits, so split the date from its end.
        let (year, month_and_day) = date.split_at(date.len().saturating_sub("-01-31".len()));
        let (month, day_of_month) = (&month_and_day[1..3], &month_and_day[4..6]);
        let (hour, minute, second, fraction) = (&time[..2], &time[3..5], &time[6..8], &time[9..]);
        let hour_number: usize = hour.parse().unwrap_or_default();
        let month_name = MONTHS[month.parse::<usize>().map_or(0, |month| month - 1)];
        let weekday = WEEKDAYS[usize::try_from(day.rem_euclid(7)).unwrap_or_default()];
        let mut text = String::new();
        for item in &self.items {
            let piece = match item {
                Item::Literal(character) => {
                    text.push(*character);
                    continue;
                }
                Item::Blank => " ",
                Item::Code('Y') => year,
                Item::Code('y') => &year[year.len() - 2..],
                Item::Code('m') => month,
                Item::Code('b') => &month_name[..SHORT_NAME],
                Item::Code('B') => month_name,
                Item::Code('d' | 'e') => day_of_month,
                Item::Code('H') => hour,
                Item::Code('I') => {
                    let _ = write!(text, "{:02}", (hour_number + 11) % 12 + 1);
                    continue;
                }
                Item::Code('p') if hour_number < 12 => "AM",
                Item::Code('p') => "PM",
                Item::Code('M') => minute,
                Item::Code('S') => second,
                Item::Code('f') => fraction,
                Item::Code('z') => "+0000",
                Item::Code('Z') => "UTC",
                Item::Code('a') => &weekday[..SHORT_NAME],
                Item::Code('A') => weekday,
                Item::Code('s') => {
                    let _ = write!(text, "{}", millis.div_euclid(MILLIS_PER_SECOND));
                    continue;
                }
                Item::Code(_) => "",
            };
            text.push_str(piece);
        }
        text
    }
}

/// Returns the pattern items of `text`: letters are codes, other characters are literal.
fn codes(text: &str) -> impl Iterator<Item = Item> {
    text.chars().map(|character| {
        if character.is_ascii_alphabetic() {
            Item::Code(character)
        } else {
            Item::Literal(character)
        }
    })
}

fn wrong(pattern: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("the time format {pattern:?} cannot be used: {reason}"),
    )
    .with_field("time_format")
    .with_hint(format!("use the codes {CODES}, for example %Y/%m/%d %H:%M"))
}

/// Parses the part that a code names at the beginning of `text`, and stores it in `parts`. Returns
/// the rest of the text.
fn read_code<'a>(code: char, text: &'a str, parts: &mut Parts) -> Option<&'a str> {
    let (number, rest) = match code {
        // `%Y` requires four digits, because years of two digits have the code `%y`.
        'Y' => number(text, 4, 4)?,
        'y' => number(text, 2, 2)?,
        'f' => number(text, 1, 9)?,
        'm' | 'd' | 'H' | 'I' | 'M' | 'S' => number(text, 1, 2)?,
        'e' => number(text.strip_prefix(' ').unwrap_or(text), 1, 2)?,
        's' => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let (seconds, rest) = number(digits, 1, 18)?;
            (
                if digits.len() == text.len() {
                    seconds
                } else {
                    -seconds
                },
                rest,
            )
        }
        'b' | 'B' => name(text, &MONTHS).map(|(index, rest)| (index + 1, rest))?,
        'a' | 'A' => name(text, &WEEKDAYS)?,
        'p' => name(text, &["AM", "PM"])?,
        'z' | 'Z' => {
            let is_offset = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b':');
            let length = text.bytes().take_while(|byte| is_offset(byte)).count();
            let (offset, rest) = text.split_at(length);
            (offset_seconds(offset)?, rest)
        }
        _ => return None,
    };
    match code {
        'Y' => parts.year = number,
        // As in POSIX, two digits are a year from 1969 to 2068.
        'y' => parts.year = number + if number < 69 { 2000 } else { 1900 },
        'm' | 'b' | 'B' => parts.month = number,
        'd' | 'e' => parts.day = number,
        'H' | 'I' => parts.hour = number,
        'M' => parts.minute = number,
        'S' => parts.second = number,
        'f' => {
            let digits = text.len() - rest.len();
            parts.nanos = number * 10_i64.pow(9 - digits as u32);
        }
        'p' => parts.is_afternoon = Some(number == 1),
        'z' | 'Z' => parts.offset = Some(number),
        'a' | 'A' => parts.weekday = Some(number),
        _ => parts.epoch = Some(number),
    }
    Some(rest)
}

/// Parses a number of `least` to `most` digits at the beginning of `text`. Returns the number and
/// the rest of the text.
fn number(text: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if digits < least {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// Parses the name at the beginning of `text`, ignoring case. The name may be shortened to its
/// first letters. Returns its index in `names` with the rest of the text.
fn name<'a>(text: &'a str, names: &[&str]) -> Option<(i64, &'a str)> {
    let starts = |name: &str| {
        text.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    let (index, length) = names.iter().enumerate().find_map(|(index, name)| {
        let short = &name[..SHORT_NAME.min(name.len())];
        let length = [*name, short].into_iter().find(|name| starts(name))?.len();
        Some((index, length))
    })?;
    Some((i64::try_from(index).ok()?, &text[length..]))
}

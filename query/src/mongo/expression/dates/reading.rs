//! Texts of dates, and `$dateFromString`.

use bson::Bson;
use chrono::{Datelike, Duration, NaiveDate, NaiveDateTime, Weekday};

use super::format::{DateFormat, DateFormatPart, MONTHS};
use super::operands::{date, zone_of};
use super::zone::DateZone;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::{NULL, misfit, shown};
use crate::mongo::expression::{Evaluated, is_nullish};

/// `$dateFromString`
pub(super) fn date_from_string(values: Vec<Evaluated>) -> Result<Evaluated> {
    let zone = zone_of(values.get(2))?;
    let has_zone = matches!(values.get(2), Some(Some(_)));
    let format = match values.get(1) {
        None | Some(None) => None,
        Some(Some(Bson::String(format))) => Some(DateFormat::parse(format)?),
        Some(value) if is_nullish(value) => return NULL,
        Some(other) => {
            let operand = "the 'format' of $dateFromString";
            return Err(misfit(40684, operand, "a string", other.as_ref()));
        }
    };
    let text = match values.first() {
        Some(Some(Bson::String(text))) => text,
        Some(value) if !is_nullish(value) => {
            let operand = "the 'dateString' of $dateFromString";
            return Err(misfit(241, operand, "a string", value.as_ref()));
        }
        _ => return NULL,
    };
    let Some(zone) = zone else {
        return NULL;
    };
    let zone = has_zone.then_some(zone);
    date(match &format {
        Some(format) => DateFields::read(text, format)?.to_millis(text, zone)?,
        None => read_default(text, zone)?,
    })
}

/// Returns the milliseconds of a text in one of the forms of ISO 8601.
///
/// # Errors
/// 241 if it is in none of them, or if the text and the caller both give a zone.
pub(super) fn read_default(text: &str, zone: Option<DateZone>) -> Result<i64> {
    const DATES: [&str; 4] = ["%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m"];
    const TIMES: [&str; 8] = [
        "",
        "T%H:%M:%S.%L",
        "T%H:%M:%S",
        "T%H:%M",
        " %H:%M:%S.%L",
        " %H:%M:%S",
        " %H:%M",
        "T%H%M%S",
    ];
    for date in DATES {
        for time in TIMES {
            for end in ["", "%z", " %z"] {
                let format = DateFormat::parse(&format!("{date}{time}{end}"))?;
                if let Ok(fields) = DateFields::read(text, &format) {
                    return fields.to_millis(text, zone);
                }
            }
        }
    }
    Err(failure(text, "is in no form of ISO 8601"))
}

fn failure(text: &str, reason: &str) -> QueryError {
    QueryError::located(241, format!("the date '{}' {reason}", shown(text)))
}

/// The parts of a date that a text has.
#[derive(Debug, Default)]
struct DateFields {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    iso_year: Option<i32>,
    iso_week: Option<u32>,
    iso_day: Option<u32>,
    hour: Option<u32>,
    minute: Option<u32>,
    second: Option<u32>,
    millisecond: Option<u32>,
    zone: Option<DateZone>,
}

impl DateFields {
    fn read(text: &str, format: &DateFormat) -> Result<Self> {
        let mut fields = Self::default();
        let mut rest = text;
        for part in &format.0 {
            rest = match part {
                DateFormatPart::Text(character) => rest.strip_prefix(*character),
                DateFormatPart::Date(letter) => fields.read_part(*letter, rest),
            }
            .ok_or_else(|| failure(text, "does not have the format"))?;
        }
        match rest.is_empty() {
            true => Ok(fields),
            false => Err(failure(text, "has more text than the format")),
        }
    }

    /// Reads a part and returns the text after it.
    fn read_part<'a>(&mut self, letter: char, text: &'a str) -> Option<&'a str> {
        if matches!(letter, 'b' | 'B') {
            let month = MONTHS.iter().position(|name| {
                let start = text.get(..3);
                start.is_some_and(|start| start.eq_ignore_ascii_case(&name[..3]))
            })?;
            self.month = Some(month as u32 + 1);
            let full = MONTHS[month].len();
            let is_full = text
                .get(..full)
                .is_some_and(|t| t.eq_ignore_ascii_case(MONTHS[month]));
            return text.get(if is_full { full } else { 3 }..);
        }
        match letter {
            'z' => return self.read_zone(text),
            'Z' => return self.read_minutes(text),
            _ => {}
        }
        let most = match letter {
            'Y' | 'G' => 4,
            'L' | 'j' => 3,
            'u' | 'w' => 1,
            _ => 2,
        };
        let digits = text
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if digits == 0 || (matches!(letter, 'Y' | 'G') && digits < 4) {
            return None;
        }
        let (number, mut rest) = text.split_at(digits);
        let number: u32 = number.parse().ok()?;
        match letter {
            'Y' => self.year = Some(number as i32),
            'G' => self.iso_year = Some(number as i32),
            'm' => self.month = Some(number),
            'd' => self.day = Some(number),
            'j' => self.day_of_year = Some(number),
            'V' => self.iso_week = Some(number),
            'u' => self.iso_day = Some(number),
            'H' => self.hour = Some(number),
            'M' => self.minute = Some(number),
            'S' => self.second = Some(number),
            'L' => {
                self.millisecond = Some(number * 10_u32.pow(3 - digits as u32));
                rest = rest.trim_start_matches(|next: char| next.is_ascii_digit());
            }
            _ => return None,
        }
        Some(rest)
    }

    fn read_zone<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let length = match text.as_bytes().first()? {
            b'+' | b'-' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b':';
                1 + text.bytes().skip(1).take(5).take_while(is_part).count()
            }
            _ => text.bytes().take_while(u8::is_ascii_alphabetic).count(),
        };
        let (zone, rest) = text.split_at(length);
        self.zone = Some(DateZone::parse(zone).ok()?);
        Some(rest)
    }

    /// Reads the minutes east of UTC, as `+285`.
    fn read_minutes<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let digits = text[1..]
            .bytes()
            .take(4)
            .take_while(u8::is_ascii_digit)
            .count();
        let (minutes, rest) = text[1..].split_at(digits);
        let minutes: i32 = minutes.parse().ok()?;
        self.zone = Some(DateZone::Offset(sign * minutes * 60));
        Some(rest)
    }

    fn to_millis(&self, text: &str, zone: Option<DateZone>) -> Result<i64> {
        if self.zone.is_some() && zone.is_some() {
            let reason = "has a time zone of its own; give no 'timezone'";
            return Err(failure(text, reason));
        }
        let local = self.local();
        let local =
            local.ok_or_else(|| failure(text, "is none of the calendar, or has no year"))?;
        self.zone.or(zone).unwrap_or(DateZone::UTC).to_millis(local)
    }

    fn local(&self) -> Option<NaiveDateTime> {
        let date = match (self.iso_year, self.year) {
            (Some(year), _) => {
                let day = Weekday::try_from(self.iso_day.unwrap_or(1).checked_sub(1)? as u8);
                NaiveDate::from_isoywd_opt(year, self.iso_week.unwrap_or(1), day.ok()?)?
            }
            (None, Some(year)) => match self.day_of_year {
                Some(day) => NaiveDate::from_yo_opt(year, day)?,
                None => {
                    let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
                    NaiveDate::from_ymd_opt(year, month, day)?
                }
            },
            (None, None) => return None,
        };
        let time = [self.hour, self.minute, self.second].map(Option::unwrap_or_default);
        if time[0] > 24 || time[1] > 59 || time[2] > 60 || date.year() > 9999 {
            return None;
        }
        // A leap second, and 24 o'clock, are the beginning of what follows.
        let seconds = i64::from(time[0]) * 3600 + i64::from(time[1]) * 60 + i64::from(time[2]);
        let millis = seconds * 1000 + i64::from(self.millisecond.unwrap_or_default());
        date.and_hms_opt(0, 0, 0)?
            .checked_add_signed(Duration::milliseconds(millis))
    }
}

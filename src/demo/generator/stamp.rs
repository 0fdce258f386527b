//! The time stamps of generated lines: `[dd/Mon/yyyy:HH:MM:SS +0000]`, always UTC.

use std::io::Write as _;

use super::{SECONDS_PER_DAY, words};

/// An Apache time stamp in UTC, rendered again only when the second changes.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    at: i64,
    text: Vec<u8>,
}

impl Stamp {
    pub(super) fn set(&mut self, at: i64) {
        if at == self.at && !self.text.is_empty() {
            return;
        }
        self.at = at;
        self.text.clear();
        let (year, month, day) = civil(at.div_euclid(SECONDS_PER_DAY));
        let second = at.rem_euclid(SECONDS_PER_DAY);
        let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
        let month = words::MONTHS[month - 1];
        write!(
            self.text,
            "[{day:02}/{month}/{year:04}:{hours:02}:{minutes:02}:{seconds:02} +0000]"
        )
        .expect("BUG: writing to a Vec cannot fail");
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Year, month (1–12) and day (1–31) of a day counted from 1970-01-01.
///
/// Years are counted from 1 March, so that the leap day comes last, in eras of
/// 400 years of 146,097 days (the proleptic Gregorian calendar).
pub(super) fn civil(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day)
}

//! Seconds since the epoch to an HTTP date (RFC 9110 section 5.6.7). Pure: it reads no clock.

/// `Sun, 06 Nov 1994 08:49:37 GMT`. A time before the year 0 or after 9999 becomes the nearest one that has
/// this form.
pub fn http_date(epoch_seconds: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAY: i64 = 24 * 60 * 60;
    let seconds = epoch_seconds.clamp(-62_167_219_200, 253_402_300_799);
    let (days, time) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let weekday = pick(&WEEKDAYS, days.rem_euclid(7));
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday}, {day:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT", pick(&MONTHS, month))
}

fn pick(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

/// Days since the epoch to year, month (from 0) and day (from 1) of the Gregorian calendar. It counts in eras
/// of 400 years that begin on the first of March, so that a leap day is the last day of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march_0000 = days + 719_468;
    let (era, day_of_era) = (from_march_0000.div_euclid(146_097), from_march_0000.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (seconds, date) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MIN, "Sat, 01 Jan 0000 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), date, "{seconds}");
        }
    }
}

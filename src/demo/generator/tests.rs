//! The promises of the head of `generator.rs`, checked on the lines themselves.

use std::collections::{HashMap, HashSet};

use super::stamp::civil;
use super::*;

fn settings(lines: u64) -> Settings {
    Settings {
        lines,
        hosts: 5_000,
        paths: 2_000,
        ..Settings::default()
    }
}

/// All lines of a file, without their LF.
fn lines(settings: Settings) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(settings);
    let mut out = Vec::new();
    let mut lines = Vec::new();
    while generator.next_line(&mut out) {
        assert_eq!(out.pop(), Some(b'\n'));
        assert!(!out.contains(&b'\n'), "a line holds one LF, its last byte");
        lines.push(std::mem::take(&mut out));
    }
    lines
}

/// Host, epoch seconds, path and status of a line, by a splitter that knows
/// only what the head of `generator.rs` says; None for a malformed line.
fn read(line: &[u8]) -> Option<(String, i64, String, u16)> {
    let line = std::str::from_utf8(line).ok()?;
    let (client, rest) = line.split_once(" [")?;
    let words: Vec<&str> = client.split(' ').collect();
    let (stamp, rest) = rest.split_once("] \"")?;
    let parts: Vec<&str> = rest.split('"').collect();
    if words.len() != 3 || words[1] != "-" || stamp.len() != 26 || parts.len() != 6 {
        return None;
    }
    let number = |from: usize, to: usize| stamp[from..to].parse::<i64>().ok();
    let month = MONTHS_OF_TESTS.find(&stamp[3..6])? / 3 + 1;
    let (year, day) = (number(7, 11)?, number(0, 2)?);
    let midnight = (20_750..22_000)
        .find(|&days| civil(days) == (year, month, day))
        .map(|days| days * SECONDS_PER_DAY)?;
    let at = midnight + number(12, 14)? * 3600 + number(15, 17)? * 60 + number(18, 20)?;
    let target = parts[0].split(' ').nth(1)?;
    let path = target.split('?').next()?;
    let mut outcome = parts[1].trim().split(' ');
    let status = outcome.next()?.parse().ok()?;
    let size = outcome.next()?;
    if size != "-" {
        size.parse::<i64>().ok()?;
    }
    Some((words[0].to_owned(), at, path.to_owned(), status))
}

const MONTHS_OF_TESTS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

#[test]
fn same_seed_gives_same_bytes() {
    assert_eq!(lines(settings(3_000)), lines(settings(3_000)));
}

#[test]
fn another_seed_gives_other_bytes() {
    let other = Settings {
        seed: 43,
        ..settings(3_000)
    };
    assert_ne!(lines(settings(3_000)), lines(other));
}

#[test]
fn random_numbers_are_those_of_the_published_generator() {
    // The first is rotl(1 + 4, 23) + 1 by its definition; the second follows
    // one step of the linear engine.
    let mut random = Random {
        state: [1, 2, 3, 4],
    };
    assert_eq!(random.next(), 41_943_041);
    assert_eq!(random.next(), 58_720_359);
}

#[test]
fn the_file_ends_after_its_lines_and_counts_them() {
    let mut generator = Generator::new(settings(10));
    let mut out = Vec::new();
    let given = (0..20).filter(|_| generator.next_line(&mut out)).count();
    assert_eq!(given, 10);
    assert_eq!(generator.written(), 10);
    assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 10);
}

#[test]
fn share_of_malformed_lines_is_the_setting_and_is_counted() {
    let set = Settings {
        malformed: 0.01,
        ..settings(100_000)
    };
    let mut generator = Generator::new(set);
    let mut out = Vec::new();
    while generator.next_line(&mut out) {}
    let text = out.strip_suffix(b"\n").expect("lines");
    let unread = text
        .split(|&byte| byte == b'\n')
        .filter(|line| read(line).is_none())
        .count();
    assert_eq!(unread as u64, generator.malformed_written());
    // 1,000 are expected; five standard deviations are 157.
    assert!((843..1_157).contains(&unread), "{unread} malformed lines");
}

#[test]
fn no_malformed_line_when_none_is_asked_for() {
    let set = Settings {
        malformed: 0.0,
        ..settings(20_000)
    };
    assert!(lines(set).iter().all(|line| read(line).is_some()));
}

#[test]
fn stamps_rise_over_the_days_but_for_the_asked_disorder() {
    let set = Settings {
        malformed: 0.0,
        late: 0.01,
        ..settings(200_000)
    };
    let span = i64::from(set.days) * SECONDS_PER_DAY;
    let (mut disordered, mut late) = (0, 0);
    for (rank, line) in lines(set.clone()).iter().enumerate() {
        let (_, at, _, _) = read(line).expect("no malformed line was asked for");
        let expected = set.start + rank as i64 * span / set.lines as i64;
        match expected - at {
            0 => {}
            1..=90 => disordered += 1,
            91..=7_200 => late += 1,
            behind => panic!("line {rank} is {behind} seconds behind"),
        }
        assert!((set.start..set.start + span).contains(&at));
    }
    // 1,000 and 2,000 are expected; five standard deviations are 158 and 223.
    assert!((842..1_158).contains(&disordered), "{disordered}");
    assert!((1_777..2_223).contains(&late), "{late}");
}

#[test]
fn popularity_follows_zipf() {
    let mut hits = HashMap::new();
    let lines = lines(settings(200_000));
    for (_, _, path, _) in lines.iter().filter_map(|line| read(line)) {
        *hits.entry(path).or_insert(0u32) += 1;
    }
    let share = |path: &str| f64::from(hits[path]) / lines.len() as f64;
    let total: f64 = (1..=2_000).map(|rank| f64::from(rank).powf(-1.1)).sum();
    // The first path is "/", the second "/assets/site.css", the tenth "/about".
    for (path, rank) in [("/", 1.0f64), ("/assets/site.css", 2.0), ("/about", 10.0)] {
        let expected = rank.powf(-1.1) / total;
        let found = share(path);
        assert!(
            (found - expected).abs() < 0.1 * expected,
            "{path}: {found} instead of {expected}"
        );
    }
    assert!(hits.len() > 1_500, "the tail is reached: {}", hits.len());
}

#[test]
fn alias_table_keeps_each_weight() {
    // Each column's own part plus what others lend to it must be its weight.
    let weights = [5, 0, 1, 90, 4];
    let alias = Alias::new(&weights);
    let whole = f64::from(u32::MAX);
    let mut held = [0.0; 5];
    for (index, &(own, other)) in alias.columns.iter().enumerate() {
        held[index] += f64::from(own) / whole;
        held[other as usize] += 1.0 - f64::from(own) / whole;
    }
    for (index, weight) in weights.into_iter().enumerate() {
        assert!(
            (held[index] * 20.0 - weight as f64).abs() < 1e-6,
            "{held:?}"
        );
    }
}

#[test]
fn populations_have_the_asked_size_and_no_doubles() {
    let generator = Generator::new(Settings {
        hosts: 70_000,
        paths: 50_000,
        ..Settings::default()
    });
    for (texts, expected) in [
        (&generator.hosts, 70_000),
        (&generator.paths, 50_000),
        (&generator.referrers, 1_000),
    ] {
        let distinct: HashSet<&[u8]> = (0..texts.len()).map(|index| texts.get(index)).collect();
        assert_eq!((texts.len(), distinct.len()), (expected, expected));
    }
    let agents = &generator.agents;
    let distinct: HashSet<&[u8]> = (0..agents.len()).map(|index| agents.get(index)).collect();
    assert_eq!(distinct.len(), agents.len());
    assert!((150..250).contains(&agents.len()), "{}", agents.len());
}

#[test]
fn sizes_are_absent_exactly_where_nothing_is_sent() {
    let mut seen = HashSet::new();
    for line in lines(settings(50_000)) {
        let Some((_, _, _, status)) = read(&line) else {
            continue;
        };
        let text = String::from_utf8(line).expect("read as UTF-8 before");
        let parts: Vec<&str> = text.split('"').collect();
        let bodiless = matches!(status, 204 | 304)
            || parts[1].starts_with("HEAD ")
            || parts[1].starts_with("OPTIONS ");
        assert_eq!(parts[2].ends_with(" - "), bodiless, "{text}");
        seen.insert(status);
    }
    assert!(seen.is_superset(&HashSet::from([200, 304, 404, 500])));
}

#[test]
fn live_lines_are_stamped_now_or_a_little_earlier() {
    let mut generator = Generator::new(Settings {
        malformed: 0.0,
        ..Settings::demo()
    });
    let now = 1_900_000_000;
    let mut exact = 0;
    for _ in 0..2_000 {
        let mut out = Vec::new();
        generator.line_at(now, &mut out);
        let line = out.strip_suffix(b"\n").expect("a line ends with LF");
        let (_, at, _, _) = read(line).expect("no malformed line was asked for");
        assert!((now - 7_200..=now).contains(&at));
        exact += u32::from(at == now);
    }
    assert!(exact > 1_900, "{exact} of 2000 stamped now");
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(civil(0), (1970, 1, 1));
    assert_eq!(civil(-1), (1969, 12, 31));
    assert_eq!(civil(11_016), (2000, 2, 29));
    assert_eq!(civil(DEFAULT_START / SECONDS_PER_DAY), (2026, 11, 2));
    let mut stamp = Stamp::default();
    stamp.set(DEFAULT_START + 86_399);
    assert_eq!(stamp.text(), b"[02/Nov/2026:23:59:59 +0000]");
}

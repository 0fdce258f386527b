//! A deterministic source of Apache combined lines, for `logmill demo` and `benches/`.
//!
//! It owns the traffic: which client asks for which page, when, and with what
//! outcome. It knows nothing of the store; it turns settings into bytes.
//!
//! Invariants:
//! * Equal settings give equal bytes, on every run and with every version of
//!   every dependency: there is none, and the random numbers are our own
//!   ([`Random`]). (Only `exp` and `powf` come from the platform; their last bit
//!   is rounded away.) No clock is read; stamps come from the settings or the caller.
//! * Every call appends one line, ended by one LF, that holds no other LF.
//! * Clients and pages are drawn independently, each by Zipf's law with
//!   exponent 1.1: rank k has a weight of k^-1.1.
//! * A line is malformed so that no access-log format takes it, not even as a
//!   prefix: its share equals what a store must put into quarantine.
//!
//! One line is, with `-` for a size when the status or the method sends no body:
//!
//! ```text
//! HOST - USER [dd/Mon/yyyy:HH:MM:SS +0000] "METHOD PATH[?QUERY] HTTP/n" STATUS SIZE
//!     "REFERRER" "AGENT"
//! ```

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the binary and each bench compile this file and each uses its own half"
)]

use std::io::Write as _;

use draw::{Alias, Random};
use stamp::Stamp;

// The paths are spelled out so that benches can include this file by its own path.
#[path = "generator/draw.rs"]
pub(crate) mod draw;
#[path = "generator/stamp.rs"]
mod stamp;
#[path = "generator/words.rs"]
mod words;

#[cfg(test)]
#[path = "generator/tests.rs"]
mod tests;

/// Share of lines that are stamped up to [`DISORDER_SECONDS_MAX`] too early.
const DISORDER: f64 = 0.005;
/// Delay of a line out of order, seconds.
const DISORDER_SECONDS_MAX: u64 = 90;
/// Delay of a late line, seconds (two hours).
const LATE_SECONDS_MAX: u64 = 7_200;
/// Exponent of the popularity of clients and pages.
const ZIPF_EXPONENT: f64 = 1.1;
/// Response sizes are drawn from a table of this many log-normal values.
const SIZES: usize = 1 << 16;
const SECONDS_PER_DAY: i64 = 86_400;

/// Monday 2026-11-02 00:00:00 UTC, where generated files begin, in epoch seconds.
pub const DEFAULT_START: i64 = 1_793_577_600;

/// Settings of a generated log. Shares are of all lines, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Lines that [`Generator::next_line`] gives before it ends; also spreads them over the days.
    pub lines: u64,
    /// Days that the stamps of [`Generator::next_line`] are spread over, at least 1.
    pub days: u32,
    /// Number of distinct clients (IPv4 addresses), at least 1.
    pub hosts: u32,
    /// Number of distinct paths, at least 1.
    pub paths: u32,
    /// Share of lines that are late by up to two hours.
    pub late: f64,
    /// Seed of every random choice.
    pub seed: u64,
    /// First stamp, in seconds since the Unix epoch.
    pub start: i64,
    /// Share of lines that do not parse.
    pub malformed: f64,
}

impl Default for Settings {
    /// The populations that the benches use: a busy site for two weeks.
    fn default() -> Self {
        Self {
            lines: 1_000_000,
            days: 14,
            hosts: 100_000,
            paths: 50_000,
            late: 0.0005,
            seed: 42,
            start: DEFAULT_START,
            malformed: 0.001,
        }
    }
}

impl Settings {
    /// A small site whose pages can be read on one screen, for `logmill demo`.
    pub fn demo() -> Self {
        Self {
            hosts: 300,
            paths: 120,
            ..Self::default()
        }
    }
}

/// The stream of lines. See the head of this file for what it promises.
#[derive(Debug)]
pub struct Generator {
    settings: Settings,
    random: Random,
    hosts: Texts,
    host_ranks: Alias,
    paths: Texts,
    path_ranks: Alias,
    agents: Texts,
    agent_ranks: Alias,
    referrers: Texts,
    referrer_ranks: Alias,
    statuses: Alias,
    methods: Alias,
    /// Log-normal sizes in bytes, in no order.
    sizes: Vec<u64>,
    stamp: Stamp,
    written: u64,
    malformed_written: u64,
}

/// Statuses and their weights among a thousand requests.
const STATUSES: [(&str, u64); 10] = [
    ("200", 818),
    ("304", 85),
    ("404", 52),
    ("301", 14),
    ("500", 11),
    ("206", 6),
    ("302", 5),
    ("403", 4),
    ("503", 3),
    ("204", 2),
];

/// Methods and their weights among a thousand requests.
const METHODS: [(&str, u64); 6] = [
    ("GET", 930),
    ("POST", 45),
    ("HEAD", 17),
    ("OPTIONS", 4),
    ("PUT", 3),
    ("DELETE", 1),
];

impl Generator {
    /// Prepares all tables; the time and memory it takes grow with `hosts` and `paths`.
    ///
    /// Populations and days of 0 count as 1.
    pub fn new(settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let hosts = addresses(settings.hosts.max(1), random.next() as u32);
        let paths = words::paths(settings.paths.max(1));
        let agents = words::user_agents();
        let referrers = words::referrers();
        let sizes = (0..SIZES).map(|_| log_normal_size(&mut random)).collect();
        Self {
            host_ranks: Alias::zipf(hosts.len(), ZIPF_EXPONENT),
            path_ranks: Alias::zipf(paths.len(), ZIPF_EXPONENT),
            agent_ranks: Alias::zipf(agents.len(), 0.9),
            referrer_ranks: Alias::zipf(referrers.len(), 1.0),
            statuses: Alias::new(&STATUSES.map(|(_, weight)| weight)),
            methods: Alias::new(&METHODS.map(|(_, weight)| weight)),
            settings,
            random,
            hosts,
            paths,
            agents,
            referrers,
            sizes,
            stamp: Stamp::default(),
            written: 0,
            malformed_written: 0,
        }
    }

    /// Appends the next line of a file and tells whether there was one: after
    /// `lines` lines nothing is appended and the answer is false.
    ///
    /// Line n of N is stamped n/N of the way through the days, but for those
    /// out of order or late; none is stamped before the start.
    pub fn next_line(&mut self, out: &mut Vec<u8>) -> bool {
        if self.written >= self.settings.lines {
            return false;
        }
        let span = i64::from(self.settings.days.max(1)) * SECONDS_PER_DAY;
        let elapsed = i128::from(self.written) * i128::from(span) / i128::from(self.settings.lines);
        // The quotient lies below `span`, which is an i64.
        let elapsed = elapsed as i64;
        let at = self.disordered(elapsed).max(0) + self.settings.start;
        self.line(at, out);
        true
    }

    /// Appends one line as of an instant, in seconds since the Unix epoch.
    ///
    /// Live traffic has the same disorder as a file: a few lines are stamped
    /// earlier than asked for, none later. `lines`, `days` and `start` play no part.
    pub fn line_at(&mut self, epoch_seconds: i64, out: &mut Vec<u8>) {
        let at = self.disordered(epoch_seconds);
        self.line(at, out);
    }

    /// Lines given so far, malformed ones among them.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Malformed lines given so far: what a store must have in quarantine.
    pub fn malformed_written(&self) -> u64 {
        self.malformed_written
    }

    /// The stamp, moved back when this line is to be out of order or late.
    fn disordered(&mut self, at: i64) -> i64 {
        let draw = self.random.unit();
        let back = if draw < self.settings.late {
            DISORDER_SECONDS_MAX + 1 + self.random.below(LATE_SECONDS_MAX - DISORDER_SECONDS_MAX)
        } else if draw < self.settings.late + DISORDER {
            1 + self.random.below(DISORDER_SECONDS_MAX)
        } else {
            0
        };
        at - back as i64
    }

    fn line(&mut self, at: i64, out: &mut Vec<u8>) {
        self.written += 1;
        self.stamp.set(at);
        if self.random.unit() < self.settings.malformed {
            self.malformed_written += 1;
            self.malformed_line(out);
        } else {
            self.good_line(out);
        }
        out.push(b'\n');
    }

    fn good_line(&mut self, out: &mut Vec<u8>) {
        self.client_and_stamp(out);
        let method = METHODS[self.methods.draw(&mut self.random)].0;
        let status = STATUSES[self.statuses.draw(&mut self.random)].0;
        out.push(b'"');
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.paths.get(self.path_ranks.draw(&mut self.random)));
        self.query(out);
        // One request in sixteen comes from a client of the older protocol.
        let old = self.random.below(16) == 0;
        out.extend_from_slice(if old {
            b" HTTP/1.0\" "
        } else {
            b" HTTP/1.1\" "
        });
        out.extend_from_slice(status.as_bytes());
        out.push(b' ');
        self.size(method, status, out);
        out.extend_from_slice(b" \"");
        let referrer = self.referrer_ranks.draw(&mut self.random);
        out.extend_from_slice(self.referrers.get(referrer));
        out.extend_from_slice(b"\" \"");
        out.extend_from_slice(self.agents.get(self.agent_ranks.draw(&mut self.random)));
        out.push(b'"');
    }

    /// `HOST - USER [STAMP] `: what every line begins with.
    fn client_and_stamp(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.hosts.get(self.host_ranks.draw(&mut self.random)));
        out.extend_from_slice(b" - ");
        // One request in fifty is made by somebody who has logged in.
        if self.random.below(50) == 0 {
            let user = self.random.index(words::USERS.len());
            out.extend_from_slice(words::USERS[user].as_bytes());
        } else {
            out.push(b'-');
        }
        out.push(b' ');
        out.extend_from_slice(self.stamp.text());
        out.push(b' ');
    }

    /// A query string on about one request in five.
    fn query(&mut self, out: &mut Vec<u8>) {
        let draw = self.random.below(100);
        let number = self.random.below(40) + 1;
        let word = words::NOUNS[self.random.index(words::NOUNS.len())];
        let written = match draw {
            0..8 => write!(out, "?page={number}"),
            8..14 => write!(out, "?q={word}+{number}"),
            14..18 => write!(out, "?ref=letter-{number}&from={word}"),
            18..20 => write!(out, "?sort={word}&view=list"),
            _ => Ok(()),
        };
        written.expect("BUG: writing to a Vec cannot fail");
    }

    /// The size of the body, or `-` where none is sent.
    fn size(&mut self, method: &str, status: &str, out: &mut Vec<u8>) {
        let drawn = self.sizes[self.random.index(SIZES)];
        let size = match (method, status) {
            ("HEAD" | "OPTIONS", _) | (_, "304" | "204") => None,
            // Pages that say "moved" or "not found" are short.
            (_, "200" | "206") => Some(drawn),
            _ => Some(180 + drawn % 400),
        };
        match size {
            Some(size) => {
                write!(out, "{size}").expect("BUG: writing to a Vec cannot fail");
            }
            None => out.push(b'-'),
        }
    }

    /// A line that every access-log format refuses, in one of seven ways.
    fn malformed_line(&mut self, out: &mut Vec<u8>) {
        let from = out.len();
        self.good_line(out);
        let length = out.len() - from;
        let quote = position(&out[from..], b'"');
        let bracket = position(&out[from..], b'[');
        match self.random.below(7) {
            // Cut off before the request has ended, as by a full disk.
            0 => out.truncate(from + 1 + self.random.index(quote + 4)),
            // A month that no calendar has: the three letters after "[dd/".
            1 => out[from + bracket + 4..from + bracket + 7].copy_from_slice(b"Xyz"),
            // A day out of range.
            2 => out[from + bracket + 1..from + bracket + 3].copy_from_slice(b"32"),
            // The bracket is lost.
            3 => {
                out.remove(from + bracket);
            }
            // Bytes of another protocol, with no text in them.
            4 => {
                out.truncate(from);
                for _ in 0..length.min(48) {
                    out.push(0x80 | self.random.below(64) as u8);
                }
            }
            // The output of an application in the wrong file.
            5 => {
                out.truncate(from);
                let noun = words::NOUNS[self.random.index(words::NOUNS.len())];
                write!(out, "WARN worker: could not refresh '{noun}', trying again")
                    .expect("BUG: writing to a Vec cannot fail");
            }
            // A size that no 64-bit number holds, on an otherwise short line.
            _ => {
                out.truncate(from);
                self.client_and_stamp(out);
                out.extend_from_slice(b"\"GET / HTTP/1.1\" 200 99999999999999999999999");
            }
        }
    }
}

/// Where a byte first occurs in a line that is known to hold it.
fn position(line: &[u8], byte: u8) -> usize {
    line.iter()
        .position(|&found| found == byte)
        .expect("BUG: a good line holds a quote and a bracket")
}

/// Distinct public-looking IPv4 addresses, in an order that looks like none.
fn addresses(count: u32, salt: u32) -> Texts {
    let mut texts = Texts::default();
    // Every step is a bijection of the 32-bit numbers, so no address comes twice.
    for number in 0u32.. {
        if texts.len() as u64 == u64::from(count) {
            break;
        }
        let mut mixed = number ^ salt;
        mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x7feb_352d);
        mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
        mixed ^= mixed >> 16;
        let [a, b, c, d] = mixed.to_be_bytes();
        // Leave out private, loopback, link-local and multicast networks.
        if matches!(
            a,
            0 | 10 | 100 | 127 | 169 | 172 | 192 | 198 | 203 | 224..=255
        ) {
            continue;
        }
        texts.push(format!("{a}.{b}.{c}.{d}").as_bytes());
    }
    texts
}

/// One size in bytes: log-normal with a median of 8 kB.
fn log_normal_size(random: &mut Random) -> u64 {
    // Twelve uniform draws less six are close to a standard normal deviate.
    let deviate = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (8_000.0 * (1.3 * deviate).exp()).round() as u64
}

/// Many short texts in one buffer.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// End of each text in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        let end = u32::try_from(self.bytes.len()).expect("BUG: the texts fit into 4 GiB");
        self.ends.push(end);
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from as usize..self.ends[index] as usize]
    }
}

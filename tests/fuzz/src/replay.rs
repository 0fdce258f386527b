//! Runs a target over its corpus and over changed copies of it, without libFuzzer.
//!
//! Each crate with targets includes this file in its tests. The seed of the changes is fresh in
//! each run and part of every failure; `LOGMILL_SEED` repeats a run, `LOGMILL_FUZZ_CHANGES=100000`
//! makes a long one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Changed inputs of one target in an ordinary run of the tests.
const CHANGES: u64 = 400;
/// Longest input that is made of others.
const CHANGED_BYTES_MAX: usize = 1 << 16;
/// Numbers at which lengths and counts go wrong.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Runs `target` over the corpus of this name, and over changed copies of its inputs.
pub(crate) fn replay(name: &str, target: fn(&[u8])) {
    let corpus = corpus(name);
    assert!(
        !corpus.is_empty(),
        "tests/fuzz/corpus has nothing for {name}"
    );
    for (file, input) in &corpus {
        let _shown = Shown(format!("{name}: {file}"), input);
        target(input);
    }
    let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seed = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let changes = number("LOGMILL_FUZZ_CHANGES").unwrap_or(CHANGES);
    let mut slowest = Duration::ZERO;
    for nth in 0..changes {
        let changed = changed(
            &corpus,
            &mut Random(seed ^ nth.wrapping_mul(0x2545_F491_4F6C_DD1D)),
        );
        let about = format!("{name}: LOGMILL_SEED={seed}, change {nth}");
        let _shown = Shown(about, &changed);
        let timed = || {
            let began = Instant::now();
            target(&changed);
            began.elapsed()
        };
        let mut took = timed();
        // A thread that had to wait for the processor need not wait again.
        if took > slowest {
            took = took.min(timed());
        }
        slowest = slowest.max(took);
    }
    println!("{name}: {changes} changed inputs, the slowest took {slowest:?}");
}

/// Prints an input, if the target panics on it.
struct Shown<'a>(String, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}", self.0, self.1.escape_ascii());
        }
    }
}

/// Returns the inputs of a target, each with its name: the files of its folder, and the lines of
/// its packed corpus.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = here
        .ancestors()
        .map(|place| place.join("tests/fuzz/corpus"));
    let folder = places.filter(|place| place.is_dir()).last();
    let folder = folder.expect("the folder of the corpora");
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join(name)).map_or_else(
        |_| Vec::new(),
        |entries| entries.map(|e| e.expect("an entry").path()).collect(),
    );
    files.sort();
    let read = |file: &PathBuf| fs::read(file).expect("a file of the corpus");
    let inputs = files
        .iter()
        .map(|file| (file.display().to_string(), read(file)));
    let mut inputs: Vec<(String, Vec<u8>)> = inputs.collect();
    let packed = fs::read_to_string(folder.join(format!("{name}.base64"))).unwrap_or_default();
    for (line, text) in (1..).zip(packed.lines()) {
        inputs.push((format!("{name}.base64:{line}"), unpack(text)));
    }
    inputs
}

/// Decodes base 64.
fn unpack(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for c in text.bytes().take_while(|c| *c != b'=') {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other} is no digit of base 64"),
        };
        (bits, held) = (bits << 6 | u32::from(six), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

/// A deterministic source of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        let random = self.next() as usize;
        random.checked_rem(bound).unwrap_or(0)
    }

    /// Returns a range within `len`, most often a short one.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        let reach = [4, 32, len][self.below(3)];
        let to = (from + self.below(reach + 1)).min(len);
        from..to
    }
}

/// Returns an input of the corpus with some changes.
fn changed(corpus: &[(String, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    let pick = |random: &mut Random| &corpus[random.below(corpus.len())].1;
    let mut bytes = pick(random).clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            3 => {
                let gone = random.range(bytes.len());
                bytes.drain(gone);
            }
            4 => {
                let again = random.range(bytes.len());
                let again = bytes[again].to_vec();
                bytes.splice(at..at, again);
            }
            5 => bytes.truncate(at),
            _ => {
                let other = pick(random);
                let range = random.range(other.len());
                let piece = other[range].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes.truncate(CHANGED_BYTES_MAX);
    bytes
}

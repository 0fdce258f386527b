//! The furthest remembered state that a content begins with.

use ingest::HeaderSearch;
use storage::SourcePosition;
use xxhash_rust::xxh3::Xxh3Default;

use super::SourceReader;

/// The least length at which an older state of a source counts although the source has gone on
/// otherwise. Logs without stamps may begin with the same banner; none has a banner of this length.
const TRUSTED_BYTES: u64 = 4096;
const BUFFER_BYTES: usize = 1 << 20;

/// A state of a producer that a store remembers.
pub(super) struct KnownState {
    pub(super) producer: String,
    pub(super) position: SourcePosition,
    /// The last state of its producer.
    pub(super) newest: bool,
}

/// The position that reading has reached.
#[derive(Clone)]
pub(super) struct Reached {
    pub(super) hasher: Xxh3Default,
    pub(super) line_ends: u64,
    pub(super) mid_line: bool,
    pub(super) search: HeaderSearch,
}

/// Returns the best state that `source` begins with; `states` are sorted by their ends. Reads once.
pub(super) fn best(
    mut source: SourceReader,
    states: &[KnownState],
    search: HeaderSearch,
) -> Option<(&KnownState, Reached)> {
    let mut at = 0;
    let mut reached = Reached {
        hasher: Xxh3Default::new(),
        line_ends: 0,
        mid_line: false,
        search,
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut ended = false;
    let mut matches: Vec<(&KnownState, Reached)> = Vec::new();
    for state in states {
        let to = state.position.to;
        while at < to && !ended {
            let most = usize::try_from(to - at).map_or(buffer.len(), |n| n.min(buffer.len()));
            // As at an end: a source that breaks off here does so again when it is imported.
            let read = source.read(&mut buffer[..most]).unwrap_or(0);
            ended = read == 0;
            at += read as u64;
            reached.take(&buffer[..read]);
        }
        if at < to {
            break;
        }
        if reached.hasher.digest() == state.position.content {
            matches.push((state, reached.clone()));
        }
    }
    let has_ended = ended || matches!(source.read(&mut buffer[..1]), Ok(0));
    // A copy of a log that was being written may end with a piece that was not taken.
    let is_all = |known: &Reached| has_ended && known.line_ends == reached.line_ends;
    let counts = |state: &KnownState, known: &Reached| {
        state.newest || state.position.to >= TRUSTED_BYTES || is_all(known)
    };
    // Of states that end together the newest of a producer comes last.
    let mut matches = matches.into_iter().rev();
    matches.find(|(state, known)| counts(state, known))
}

impl Reached {
    fn take(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.search.take(bytes);
        self.line_ends += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if let Some(last) = bytes.last() {
            self.mid_line = *last != b'\n';
        }
    }
}

#[cfg(test)]
mod tests;

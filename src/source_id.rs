//! Recognises the content of a source, wherever it lies and however it is compressed.
//!
//! # Identity
//! A producer's name is `file:STREAM:SITE:LEN-HASH`, with `#N` for others that begin alike: LEN
//! bytes are the beginning of the decompressed content that were there when it was first
//! imported, at most [`WINDOW_BYTES`], or its first line if it was shipped, and HASH is their
//! xxh3-64. With it the store remembers states: how far the content was taken, and the xxh3-64 of
//! everything before. Standard input has producers of its own, `input:STREAM:SITE:SOURCE:LEN-
//! HASH`, when `--source` names it, and none when not.
//!
//! # Invariants
//! 1. A source is resumed behind a range only after the whole range was read again and its hash is
//!    the remembered one. A name alone decides nothing.
//! 2. The newest state of a producer that a source begins with is where it goes on. An older state
//!    counts when no whole line follows it in the source, or when it covers at least 4 KiB; what
//!    follows has a producer of its own then.
//! 3. A source that begins with no remembered state is a new one: nothing of it is passed over.
//! 4. A format whose header stands in the source is known from the content before the range, which
//!    is read again anyway: no state of it is stored.
//! 5. Names of earlier versions, `import:STREAM:SITE:PATH`, carry no fingerprint. Their states are
//!    compared with every source of the stream and site, and they go on under their old name.

mod furthest;
mod name;
mod origin;

use std::collections::{HashMap, HashSet};
use std::io::{Cursor, Read};

use ingest::Format;
use storage::SourcePosition;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::failure::{FAILED, Failure, Result};
use furthest::{KnownState, best};
pub(crate) use name::has_beginning;
use name::{beginning, fingerprint};
pub(crate) use origin::{Origin, ReadAt, opened};

/// The longest beginning that a producer's name is made of. Two sources that differ within it are
/// distinguished without reading on; a longer one would distinguish no more logs.
const WINDOW_BYTES: usize = 16 << 10;
/// The most names under one fingerprint.
const NAMES_MAX: u32 = 10_000;

/// The decompressed bytes of a source.
pub(crate) type SourceReader = Box<dyn Read + Send>;

/// The memory of a store about the sources that it has taken.
pub(crate) trait SourceMemory {
    /// Returns the producers whose names begin with `prefix`.
    fn source_names(&self, prefix: &str) -> Result<Vec<String>>;
    /// Returns the remembered states of a producer, the newest last.
    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>>;
}

/// The place where the import of a source goes on, and its producer.
pub(crate) struct KnownSource {
    /// The name under which its batches come; none for a source without identity.
    pub(crate) producer: Option<String>,
    /// Bytes that were imported before.
    pub(crate) from: u64,
    /// Line ends in them.
    pub(crate) line_ends: u64,
    /// These bytes end within a line, which was taken as it was.
    pub(crate) mid_line: bool,
    /// The known bytes end at an older state of another producer: the source is a copy of its
    /// beginning, or has gone on otherwise.
    pub(crate) is_older: bool,
    /// The hash of the known bytes, to continue.
    pub(crate) hasher: Xxh3Default,
    /// The source holds JSON values that are not one to a line.
    pub(crate) values: bool,
    /// The format of the next line.
    pub(crate) format: Format,
    /// The content behind the known bytes.
    pub(crate) source: SourceReader,
}

impl KnownSource {
    /// Makes a source without identity.
    pub(crate) fn nothing(mut source: SourceReader, format: &Format) -> Self {
        let mut head = Vec::new();
        // A source that breaks off here does so again when it is imported.
        let _ignored = source
            .by_ref()
            .take(WINDOW_BYTES as u64)
            .read_to_end(&mut head);
        let values = ingest::holds_values(&head);
        Self {
            values,
            ..Self::new(Box::new(Cursor::new(head).chain(source)), format)
        }
    }

    fn new(source: SourceReader, format: &Format) -> Self {
        Self {
            producer: None,
            from: 0,
            line_ends: 0,
            mid_line: false,
            is_older: false,
            hasher: Xxh3Default::new(),
            values: false,
            format: format.clone(),
            source,
        }
    }
}

/// The producers of other sources that are under way.
#[derive(Default)]
pub(crate) struct OtherProducers {
    /// Producers with an acknowledged range: no other source is one of them.
    pub(crate) sent: HashSet<String>,
    /// Producers without one. No other source gets their names; but another process may have used
    /// a name first, and then a source that begins with its ranges is this producer.
    pub(crate) claimed: HashSet<String>,
}

/// The producers of one stream and site.
pub(crate) struct Producers {
    prefix: String,
    names: Vec<String>,
    /// Names of earlier versions.
    by_path: Vec<String>,
    /// New names hold the first line of a source, not all of its beginning.
    by_line: bool,
}

impl Producers {
    pub(crate) fn of_files(memory: &dyn SourceMemory, stream: &str, site: &str) -> Result<Self> {
        let old = format!("import:{stream}:{site}:");
        let mut by_path = memory.source_names(&old)?;
        // The site of another may go on where this one ends.
        by_path.retain(|name| name[old.len()..].starts_with('/'));
        let prefix = format!("file:{stream}:{site}:");
        Ok(Self {
            names: memory.source_names(&prefix)?,
            prefix,
            by_path,
            by_line: false,
        })
    }

    pub(crate) fn of_input(
        memory: &dyn SourceMemory,
        stream: &str,
        site: &str,
        source: &str,
    ) -> Result<Self> {
        let prefix = format!("input:{stream}:{site}:{source}:");
        Ok(Self {
            names: memory.source_names(&prefix)?,
            prefix,
            by_path: Vec::new(),
            by_line: false,
        })
    }

    /// Names new sources by their first line: they still grow.
    #[must_use]
    pub(crate) fn of_growing(self) -> Self {
        Self {
            by_line: true,
            ..self
        }
    }

    /// Finds the part of a source in some format that was imported before; `again` takes it for a
    /// new one at any rate.
    pub(crate) fn find(
        &mut self,
        memory: &dyn SourceMemory,
        source: (Origin, &Format),
        again: bool,
    ) -> Result<KnownSource> {
        self.find_besides(memory, source, again, &OtherProducers::default())
    }

    /// Does the same where other sources are under way: the source is none of these producers.
    pub(crate) fn find_besides(
        &mut self,
        memory: &dyn SourceMemory,
        (mut origin, format): (Origin, &Format),
        again: bool,
        others: &OtherProducers,
    ) -> Result<KnownSource> {
        let mut head = Vec::new();
        let window = origin.probe(WINDOW_BYTES as u64)?;
        // A source that breaks off does so again when it is imported, behind its whole lines.
        let _ignored = window.take(WINDOW_BYTES as u64).read_to_end(&mut head);
        loop {
            match self.search(memory, &mut origin, (&head, format), again, others)? {
                Search::Missed(name) => self.names.push(name),
                Search::Found(found) => {
                    return Ok(KnownSource {
                        values: ingest::holds_values(&head),
                        source: origin.from(found.from)?,
                        ..*found
                    });
                }
            }
        }
    }

    /// Compares a source with all producers of the list. The content of the result is empty.
    fn search(
        &self,
        memory: &dyn SourceMemory,
        origin: &mut Origin,
        (head, format): (&[u8], &Format),
        again: bool,
        others: &OtherProducers,
    ) -> Result<Search> {
        let mut states = match again {
            true => Vec::new(),
            false => self.states(memory, head, others)?,
        };
        states.sort_by_key(|state| (state.position.to, state.newest));
        let found = match states.last().map(|last| last.position.to) {
            None => None,
            Some(furthest) => {
                let search = ingest::search_header(format, head);
                best(origin.probe(furthest + 1)?, &states, search)
            }
        };
        let producer = match &found {
            Some((state, _)) if state.newest => state.producer.clone(),
            _ => match self.new_name(memory, head, again, others)? {
                Name::Free(name) => name,
                Name::Missed(name) => return Ok(Search::Missed(name)),
            },
        };
        let known = KnownSource {
            producer: Some(producer),
            ..KnownSource::new(Box::new(std::io::empty()), format)
        };
        Ok(Search::Found(Box::new(match found {
            None => known,
            Some((state, reached)) => KnownSource {
                from: state.position.to,
                line_ends: reached.line_ends,
                mid_line: reached.mid_line,
                is_older: !state.newest,
                hasher: reached.hasher,
                format: reached.search.format(),
                ..known
            },
        })))
    }

    /// Returns the producers whose fingerprint a content has that begins as `head` does.
    fn begin_as<'a>(&'a self, head: &'a [u8]) -> impl Iterator<Item = &'a String> {
        let mut hashes: HashMap<usize, u64> = HashMap::new();
        let fits = move |name: &&String| {
            let Some((len, hash)) = fingerprint(&name[self.prefix.len()..]) else {
                return false;
            };
            head.get(..len)
                .is_some_and(|window| *hashes.entry(len).or_insert_with(|| xxh3_64(window)) == hash)
        };
        self.names.iter().filter(fits)
    }

    /// Returns whether a producer may have been a content: they begin alike.
    pub(crate) fn may_know(&self, content: SourceReader) -> bool {
        let mut head = Vec::new();
        let _ignored = content.take(WINDOW_BYTES as u64).read_to_end(&mut head);
        self.begin_as(&head).next().is_some()
    }

    /// Returns the remembered states of all producers whose content may begin as `head` does.
    fn states(
        &self,
        memory: &dyn SourceMemory,
        head: &[u8],
        others: &OtherProducers,
    ) -> Result<Vec<KnownState>> {
        let mut states = Vec::new();
        let candidates = self.begin_as(head).chain(&self.by_path);
        for name in candidates.filter(|name| !others.sent.contains(*name)) {
            let positions = memory.source_states(name)?;
            let newest = positions.len().saturating_sub(1);
            states.extend(
                positions
                    .into_iter()
                    .enumerate()
                    .map(|(i, position)| KnownState {
                        producer: name.clone(),
                        position,
                        newest: i == newest,
                    }),
            );
        }
        states.retain(|state| state.position.to > 0);
        Ok(states)
    }

    /// Returns a name that no producer has. The same content gets the same name at any time: of two
    /// processes that find a file at once, the server refuses one.
    fn new_name(
        &self,
        memory: &dyn SourceMemory,
        head: &[u8],
        again: bool,
        others: &OtherProducers,
    ) -> Result<Name> {
        let head = match self.by_line {
            true => &head[..beginning(head)],
            false => head,
        };
        let base = format!("{}{}-{:016x}", self.prefix, head.len(), xxh3_64(head));
        for nth in 1..=NAMES_MAX {
            let name = match nth {
                1 => base.clone(),
                nth => format!("{base}#{nth}"),
            };
            if self.names.contains(&name) || others.sent.contains(&name) {
                continue;
            }
            if memory.source_states(&name)?.is_empty() {
                if others.claimed.contains(&name) {
                    continue;
                }
                return Ok(Name::Free(name));
            }
            // Another process has used it since the list was read.
            if !again {
                return Ok(Name::Missed(name));
            }
        }
        Err(Failure::new(
            FAILED,
            format!(
                "the store already has {NAMES_MAX} sources that begin with the same {} bytes; give this one a --site",
                head.len()
            ),
        ))
    }
}

/// The outcome of one search for a source.
enum Search {
    Found(Box<KnownSource>),
    /// The list lacks a producer that the store has.
    Missed(String),
}

/// A name for a new producer.
enum Name {
    Free(String),
    /// The store has it, and the list lacks it.
    Missed(String),
}

#[cfg(test)]
mod tests;

//! The listener for Fluent's forward protocol: Fluentd, Fluent Bit, Docker, loggers of languages.
//!
//! # Invariants
//! * A message with a `chunk` is acknowledged after the store has reached the write concern of its
//!   stream. Its chunk is the key of its batch: a chunk that is sent again, because its
//!   acknowledgement was lost, is stored once.
//! * A message without one is offered to the store until it is taken; meanwhile the connection is
//!   not read beyond a bound.
//! * Bytes of messages that are not whole have a bound for all connections ([`session`]).
//! * An entry that cannot be read, and a compressed chunk that cannot be decompressed, is
//!   quarantined and acknowledged: its client would send it again for ever.

mod message;
mod msgpack;
mod records;
mod session;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ingest::Format;
use storage::Name;
use tokio::sync::Semaphore;
use wildmatch::WildMatch;

use self::session::ForwardSession;
use crate::config::{Config, FluentRule};
use crate::failure::{Failure, Result};
use crate::listen::{Accepted, Address, Beyond, Listener, Protocol, local_address};
use crate::serve::{OpenService, Serving};
use crate::shippers::{Caller, Door, GatherOptions, Gatherer, Seldom, log_beyond};
use crate::tls::Alpn;

/// The port of an address without one: that of the protocol.
const PORT: u16 = 24224;
/// Maximum bytes of an entry, as it came or as JSON.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a message, however large `server.batch_bytes_max` is.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes that a connection holds of a message in a place for medium ones.
const MEDIUM_BYTES_MAX: usize = 2 << 20;
/// Medium and large messages of all connections that are not whole.
const MEDIUM_MAX: usize = 32;
const LARGE_MAX: usize = 2;
/// Messages with many records that are read, and held until they are stored, at once.
const LONG_MAX: usize = 2;

/// The forward protocol of a listener.
#[derive(Debug)]
struct Fluent {
    serving: Arc<Serving>,
    door: Door,
    gatherer: Arc<Gatherer>,
    streams: Streams,
    /// Maximum bytes of a message, also when it is decompressed.
    message_bytes_max: usize,
    /// Places for messages that are not whole. A connection acquires one of each at most, and the
    /// large one last: connections that held pieces of a common room could wait for each other.
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Places for messages whose records are many.
    long: Arc<Semaphore>,
    malformed: Seldom,
}

/// The stream of each tag.
#[derive(Debug)]
struct Streams {
    /// Patterns of tags; the first that matches counts.
    rules: Vec<(WildMatch, Name)>,
    other: Name,
}

impl Streams {
    fn new(rules: &[FluentRule], other: &str) -> Result<Self> {
        let name = |name: &str| Name::new(name).map_err(|e| Failure::config(e.to_string()));
        let rules = rules.iter().map(|rule| {
            let stream = name(&rule.stream)?;
            Ok((WildMatch::new(&rule.tag), stream))
        });
        Ok(Self {
            rules: rules.collect::<Result<_>>()?,
            other: name(other)?,
        })
    }

    fn of(&self, tag: &str) -> &Name {
        let mut rules = self.rules.iter();
        let rule = rules.find(|(pattern, _)| pattern.matches(tag));
        rule.map_or(&self.other, |(_, stream)| stream)
    }

    fn all(&self) -> Vec<&Name> {
        let streams = self.rules.iter().map(|(_, stream)| stream);
        streams.chain([&self.other]).collect()
    }
}

/// Returns the listener of the configuration; `None` if it is off.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn fluent(config: &Config) -> Result<Option<OpenService>> {
    let section = config.fluent.clone();
    let Some(address) = Address::parse("--fluent", &section.listen, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        println!("Fluent: {}", local_address(listener.local_addr()?));
        let streams = Streams::new(&section.rules, &section.stream)?;
        let token_file = section.token_file.as_deref();
        let options = GatherOptions {
            source: "fluent",
            format: Format::Json,
            tz: None,
            message_bytes_max: ENTRY_BYTES_MAX,
        };
        let most = serving.config.server.batch_bytes_max.0;
        let fluent = Fluent {
            serving: Arc::clone(serving),
            door: Door::open(serving, "[fluent]", token_file, &streams.all())?,
            gatherer: Gatherer::new(serving, options),
            streams,
            message_bytes_max: usize::try_from(most)
                .unwrap_or(usize::MAX)
                .min(MESSAGE_BYTES_MAX),
            medium: Arc::new(Semaphore::new(MEDIUM_MAX)),
            large: Arc::new(Semaphore::new(LARGE_MAX)),
            long: Arc::new(Semaphore::new(LONG_MAX)),
            malformed: Seldom::default(),
        };
        let service = Listener::new("fluent", serving, listener, fluent);
        Ok(Some(Box::new(service)))
    })))
}

impl Protocol for Fluent {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        if let Some(caller) = Caller::of(accepted, &self.serving, Alpn::Fluent).await {
            ForwardSession::serve(&self, caller).await;
        }
    }

    /// Closes the connection: its client tries again later.
    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        _has_request: Arc<AtomicBool>,
    ) {
        log_beyond("Fluent", &accepted, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_gives_the_stream() {
        let rule = |tag: &str, stream: &str| FluentRule {
            tag: tag.to_owned(),
            stream: stream.to_owned(),
        };
        let rules = [rule("web.*", "web"), rule("*.access", "access")];
        let streams = Streams::new(&rules, "fluent").expect("names of streams");
        for (tag, stream) in [
            ("web.access", "web"),
            ("db.access", "access"),
            ("web", "fluent"),
            ("", "fluent"),
        ] {
            assert_eq!(streams.of(tag).as_str(), stream, "{tag}");
        }
        let all = streams.all().into_iter().map(Name::as_str);
        assert_eq!(all.collect::<Vec<_>>(), ["web", "access", "fluent"]);
    }
}

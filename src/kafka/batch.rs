//! Records become batches, as every other source's lines do.

use std::ops::Range;
use std::sync::Arc;

use ingest::{BatchOrigin, Format, ParseOptions, Parsed, Parser};
use storage::{Batch, Clock, Identity, Name, StreamKind, SystemClock, WriteConcern};

use super::KafkaSource;
use super::records::Records;
use crate::config::kafka::Kafka;
use crate::failure::{Failure, Result};
use crate::intake;
use crate::intake::StreamState;
use crate::serve::Serving;

/// Columns of the key and of the headers of a record, in streams of documents.
const KEY: &str = "kafka_key";
const HEADERS: &str = "kafka_headers";

/// The rows of a batch may take so many times the bytes of its records, and this much at any rate.
const GROWTH_MAX: usize = 4;
const GROWTH_BYTES_MIN: usize = 64 << 20;

/// The maker of a source's batches.
pub(super) struct BatchMaker {
    serving: Arc<Serving>,
    pub(super) stream: Name,
    pub(super) concern: WriteConcern,
    options: ParseOptions,
}

/// Where the records of a batch were, and the range that is its identity.
pub(super) struct RangeOrigin {
    /// The place of a quarantined record, with its offset.
    pub(super) source: Arc<str>,
    pub(super) producer: String,
    /// Start of the range; it ends behind the last record.
    pub(super) from: u64,
}

impl BatchMaker {
    /// Reads the settings of a source's stream.
    pub(super) fn of(source: &KafkaSource) -> Result<Self> {
        let KafkaSource { kafka, serving, .. } = source;
        let config = &serving.config;
        let stream = Name::new(&kafka.stream).map_err(Failure::from)?;
        let concern = config.concern(stream.as_str())?;
        Ok(Self {
            serving: Arc::clone(serving),
            concern: match serving.intake.gives(concern)? {
                // The position of a batch must be known before the next is behind it.
                storage::Durability::Unacknowledged => WriteConcern::ACKNOWLEDGED,
                _ => concern,
            },
            options: ParseOptions {
                format: format_of(kafka, config.format(stream.as_str())),
                ..intake::stream_options(config, stream.as_str())
            },
            stream,
        })
    }

    /// Makes the batch of some records.
    ///
    /// # Errors
    /// [`ingest::Error::TooMuch`] for more than one record: make several batches of them.
    pub(super) fn make(
        &mut self,
        origin: RangeOrigin,
        records: &Records,
        range: Range<usize>,
    ) -> ingest::Result<Batch> {
        let last = records.last(&range);
        let identity = Identity::Range {
            producer: origin.producer,
            from: origin.from,
            to: last.offset + 1,
            content: records.fingerprint(last),
        };
        let StreamState { columns, kind } = self.serving.intake.stream(&self.stream);
        let received_us = SystemClock.now_us();
        let origin = BatchOrigin {
            stream: self.stream.clone(),
            source: origin.source,
            received_us,
            identity: Some(identity),
            kind,
        };
        if records.items(range.clone()).next().is_none() {
            return Ok(origin.batch_of_nothing());
        }
        let bytes: usize = records.items(range.clone()).map(|i| i.bytes.len()).sum();
        let options = ParseOptions {
            received_us,
            schema: columns,
            bytes_max: bytes.saturating_mul(GROWTH_MAX).max(GROWTH_BYTES_MIN),
            item_bytes: self.stream.as_str().len() + origin.source.len(),
            ..self.options.clone()
        };
        let mut parser = Parser::new(options);
        let mut parsed = match parser.parse_items(records.items(range.clone())) {
            Err(ingest::Error::TooMuch { .. }) if range.len() == 1 => {
                self.reject(&mut parser, records, &range)?
            }
            parsed => parsed?,
        };
        // As in a file, the first records that fit a format decide about the others.
        if let (Format::Auto, Some(found)) = (&self.options.format, parser.format()) {
            self.options.format = found;
        }
        if kind.unwrap_or(parsed.kind) == StreamKind::Documents {
            self.add_attributes(&mut parsed, records, range)?;
        }
        Ok(origin.batch(parsed))
    }

    /// Quarantines the one record of a range, which is too large for an event.
    fn reject(
        &self,
        parser: &mut Parser,
        records: &Records,
        range: &Range<usize>,
    ) -> ingest::Result<Parsed> {
        let item = records.items(range.clone()).next();
        let item = item.expect("BUG: a record without a value has no rows");
        parser.set_position(item.line, item.byte);
        parser.reject_long(item.bytes, item.bytes.len() as u64)
    }

    fn add_attributes(
        &self,
        parsed: &mut Parsed,
        records: &Records,
        range: Range<usize>,
    ) -> ingest::Result<()> {
        let of_events = records.attributes(range).zip(parsed.are_events());
        let of_events = of_events.filter(|(_, is_event)| *is_event);
        let (keys, headers) = of_events.map(|(attributes, _)| attributes).unzip();
        let ParseOptions {
            selection,
            anonymiser,
            ..
        } = &self.options;
        parsed.add_attribute(KEY, keys, selection, anonymiser)?;
        parsed.add_attribute(HEADERS, headers, selection, anonymiser)
    }

    /// Makes the batch that notes a position before its first record.
    pub(super) fn note(&self, producer: String, at: u64) -> Batch {
        let origin = BatchOrigin {
            stream: self.stream.clone(),
            source: "kafka".into(),
            received_us: SystemClock.now_us(),
            identity: Some(Identity::Range {
                producer,
                from: at,
                to: at,
                content: 0,
            }),
            kind: None,
        };
        origin.batch_of_nothing()
    }
}

fn format_of(kafka: &Kafka, of_stream: Format) -> Format {
    let named = kafka.format.as_ref().and_then(|format| format.value());
    named.unwrap_or(of_stream)
}

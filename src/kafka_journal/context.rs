//! The ear of the clients for librdkafka: reports about appended messages, errors, and its log.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use storage::Appended;

use crate::librdkafka::{FOREIGN_OPTION, explained, is_warning};

/// Interval of warnings: a broker that is away is one for each of its addresses, again and again.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Age up to which an error of the connections is taken for the cause of another one.
const CAUSE_WITHIN: Duration = Duration::from_secs(60);

/// The receiver of a message's offset. librdkafka's opaque values are shared between threads,
/// hence the lock.
pub(super) struct PendingAppend(Mutex<Appended>);

impl PendingAppend {
    pub(super) fn new(done: Appended) -> Self {
        Self(Mutex::new(done))
    }

    fn finish(self, outcome: io::Result<u64>) {
        self.0.into_inner()(outcome);
    }
}

/// The context of the clients of a journal.
#[derive(Debug, Default)]
pub(super) struct JournalContext {
    warned: Mutex<Option<Instant>>,
    last_error: Mutex<Option<(Instant, String)>>,
}

impl JournalContext {
    /// Returns a reason, with the last error of the connections.
    pub(super) fn with_last_error(&self, why: &str) -> String {
        match &*self.last_error.lock() {
            Some((at, error)) if at.elapsed() < CAUSE_WITHIN => format!("{why} ({error})"),
            _ => why.to_owned(),
        }
    }

    fn may_warn(&self) -> bool {
        let mut warned = self.warned.lock();
        let may = warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if may {
            *warned = Some(Instant::now());
        }
        may
    }
}

impl ClientContext for JournalContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if is_warning(level) && facility != FOREIGN_OPTION && self.may_warn() {
            tracing::warn!("the journal in Kafka: librdkafka: {facility} {message}");
        } else {
            tracing::debug!("the journal in Kafka: librdkafka: {facility} {message}");
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let why = format!("{}: {reason}", explained(&error));
        tracing::debug!("the journal in Kafka: {why}");
        *self.last_error.lock() = Some((Instant::now(), why));
    }
}

impl ConsumerContext for JournalContext {}

impl ProducerContext for JournalContext {
    type DeliveryOpaque = Box<PendingAppend>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<PendingAppend>) {
        let outcome = match result {
            Ok(message) => u64::try_from(message.offset())
                .map_err(|_| io::Error::other("the brokers do not tell the offset of a message")),
            Err((error, message)) => Err(self.refusal(error, message.topic())),
        };
        pending.finish(outcome);
    }
}

impl JournalContext {
    /// Returns the reason for which a message may not be in the topic.
    fn refusal(&self, error: &KafkaError, topic: &str) -> io::Error {
        use RDKafkaErrorCode as Code;
        let kind = match error.rdkafka_error_code() {
            Some(Code::MessageTimedOut | Code::RequestTimedOut | Code::OperationTimedOut) => {
                io::ErrorKind::TimedOut
            }
            _ => io::ErrorKind::Other,
        };
        let why = self.with_last_error(&explained(error));
        io::Error::new(kind, format!("the journal in Kafka (topic {topic}): {why}"))
    }
}

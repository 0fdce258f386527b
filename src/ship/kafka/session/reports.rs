//! The reports of a producer about its records.

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;

use crate::kafka::explained;

/// Reports on the transaction under way.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<OfTransaction>);

#[derive(Debug, Default)]
struct OfTransaction {
    /// Its number: reports on records of an aborted one may come late.
    number: usize,
    offsets: Option<(i64, i64)>,
    failed: Option<(RDKafkaErrorCode, String)>,
}

impl Reports {
    /// Begins the next transaction.
    pub(super) fn begin(&self) {
        let mut reported = self.0.lock();
        *reported = OfTransaction {
            number: reported.number + 1,
            ..OfTransaction::default()
        };
    }

    /// Returns the number of the transaction.
    pub(super) fn transaction(&self) -> usize {
        self.0.lock().number
    }

    /// Returns the offsets of the first record and of the last, and the first error.
    pub(super) fn outcome(&self) -> (Option<(i64, i64)>, Option<(RDKafkaErrorCode, String)>) {
        let reported = self.0.lock();
        (reported.offsets, reported.failed.clone())
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            // The shipper tries again, and says so.
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::warn!("librdkafka: {facility} {message}");
            }
            _ => tracing::debug!("librdkafka: {facility} {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {}: {reason}", explained(&error));
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, transaction: usize) {
        let mut reported = self.0.lock();
        if transaction != reported.number {
            return;
        }
        match result {
            Ok(record) => {
                let at = record.offset();
                let (first, last) = reported.offsets.unwrap_or((at, at));
                reported.offsets = Some((first.min(at), last.max(at)));
            }
            // The others of a transaction that failed are purged.
            Err((error, _)) if reported.failed.is_none() => {
                let code = error.rdkafka_error_code();
                let code = code.unwrap_or(RDKafkaErrorCode::Unknown);
                reported.failed = Some((code, explained(error)));
            }
            Err(_) => {}
        }
    }
}

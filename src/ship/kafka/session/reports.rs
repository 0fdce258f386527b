//! The reports of a producer about its records.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;

use crate::librdkafka::explained;

/// Reports on the transaction under way, and the last error of the connections.
#[derive(Debug, Default)]
pub(super) struct Reports {
    transaction: Mutex<OfTransaction>,
    reported: Condvar,
    last_error: Mutex<Option<(Option<RDKafkaErrorCode>, String)>>,
}

#[derive(Debug, Default)]
struct OfTransaction {
    /// Its number: reports on records of an aborted one may come late.
    number: usize,
    /// Records that were handed over, and those that were reported on.
    sent: u64,
    reported: u64,
    offsets: Option<(i64, i64)>,
    failed: Option<(RDKafkaErrorCode, String)>,
}

impl Reports {
    /// Begins the next transaction.
    pub(super) fn begin(&self) {
        let mut transaction = self.transaction.lock();
        *transaction = OfTransaction {
            number: transaction.number + 1,
            ..OfTransaction::default()
        };
    }

    /// Returns the number of the transaction.
    pub(super) fn transaction(&self) -> usize {
        self.transaction.lock().number
    }

    /// Counts a record that was handed over.
    pub(super) fn sent(&self) {
        self.transaction.lock().sent += 1;
    }

    /// Waits for the reports on all records. Returns the offsets of the first one and of the last.
    ///
    /// # Errors
    /// The first error of a record, or [`RDKafkaErrorCode::OperationTimedOut`].
    pub(super) fn wait(
        &self,
        within: Duration,
    ) -> Result<Option<(i64, i64)>, (RDKafkaErrorCode, String)> {
        let until = Instant::now() + within;
        let mut transaction = self.transaction.lock();
        loop {
            if let Some(failed) = &transaction.failed {
                return Err(failed.clone());
            }
            if transaction.reported == transaction.sent {
                return Ok(transaction.offsets);
            }
            if self
                .reported
                .wait_until(&mut transaction, until)
                .timed_out()
            {
                let why = format!("the brokers do not answer within {within:?}");
                return Err((RDKafkaErrorCode::OperationTimedOut, why));
            }
        }
    }

    /// Returns the last error of a connection.
    pub(super) fn last_error(&self) -> Option<(Option<RDKafkaErrorCode>, String)> {
        self.last_error.lock().clone()
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
        let why = format!("{}: {reason}", explained(&error));
        tracing::debug!("librdkafka: {why}");
        *self.last_error.lock() = Some((error.rdkafka_error_code(), why));
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, transaction: usize) {
        let mut current = self.transaction.lock();
        if transaction != current.number {
            return;
        }
        current.reported += 1;
        match result {
            Ok(record) => {
                let at = record.offset();
                let (first, last) = current.offsets.unwrap_or((at, at));
                current.offsets = Some((first.min(at), last.max(at)));
            }
            // The others of a transaction that failed are purged.
            Err((error, _)) if current.failed.is_none() => {
                let code = error.rdkafka_error_code();
                let code = code.unwrap_or(RDKafkaErrorCode::Unknown);
                current.failed = Some((code, explained(error)));
            }
            Err(_) => {}
        }
        if current.failed.is_some() || current.reported == current.sent {
            self.reported.notify_all();
        }
    }
}

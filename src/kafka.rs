//! The Kafka source: topics of a cluster become events of a stream.
//!
//! # Invariants
//! 1. Every record with a value, of every partition that is read, is stored exactly once, as an
//!    event or in quarantine, whatever is killed. A batch carries the range of offsets from the end
//!    of the batch before it to behind its own last record ([`chain`]), as its identity. So the
//!    position commits with the events, and the store refuses what would overlap or leave a gap.
//!    Offsets that nothing was delivered for, of compacted records or of transactions, lie within
//!    a range and need no rule of their own.
//! 2. A position is read from the store at each start, assignment and refusal, never from a broker.
//!    Offsets are committed to the broker behind the acknowledgement, for tools alone.
//! 3. A partition ends at what it cannot go past without loss: offsets that are gone, and a last
//!    record that is another than the store knows (a topic created anew). The others go on.
//! 4. An error on a partition leads back to the stored position: librdkafka goes on behind a
//!    damaged batch of records, which must not look like a gap as the first invariant has them.
//! 5. Memory is bounded: records that wait for the store by `bytes_max`, those that wait to be read
//!    by [`client::QUEUE_KIB`] and one answer of a broker for each partition.

mod batch;
mod chain;
mod client;
mod flow;
mod partition;
mod position;
mod records;
mod session;
mod stalls;

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::config::kafka::Kafka;
use crate::failure::{Failure, Result};
use crate::serve::{OpenService, Service, Serving};
use batch::BatchMaker;
use session::GroupSession;

/// Time between two attempts to connect: at first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A source as it is configured.
struct KafkaSource {
    name: String,
    kafka: Kafka,
    client: rdkafka::ClientConfig,
    serving: Arc<Serving>,
}

/// Checks the options of all sources that are no secrets, which only a server reads.
///
/// # Errors
/// If librdkafka does not take an option.
pub(crate) fn check(config: &Config) -> Result<()> {
    for (name, kafka) in &config.kafka {
        client::check(kafka).map_err(|why| of_config(name, &why))?;
    }
    Ok(())
}

/// Returns the services that read the sources of the configuration.
///
/// # Errors
/// If librdkafka does not take an option, or a secret cannot be read.
pub(crate) fn sources(config: &Config) -> Result<Vec<OpenService>> {
    // A store that is open for reading takes nothing.
    if config.server.read_only {
        return Ok(Vec::new());
    }
    let open = |(name, kafka): (&String, &Kafka)| -> Result<OpenService> {
        let client = client::of(name, kafka).map_err(|why| of_config(name, &why))?;
        let (name, kafka) = (name.clone(), kafka.clone());
        Ok(Box::new(move |serving: &Arc<Serving>| {
            let serving = Arc::clone(serving);
            Ok(Some(Box::new(KafkaSource {
                name,
                kafka,
                client,
                serving,
            }) as Box<dyn Service>))
        }))
    };
    config.kafka.iter().map(open).collect()
}

fn of_config(name: &str, why: &str) -> Failure {
    Failure::config(format!("[kafka.{name}] options: {why}"))
}

impl Service for KafkaSource {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let mut batches = BatchMaker::of(&self)?;
        let mut retry = RETRY_FIRST;
        while !self.serving.stop.is_set() {
            let ended = GroupSession::open(&self).and_then(|mut session| {
                retry = RETRY_FIRST;
                session.run(&mut batches)
            });
            let Err(why) = ended else {
                continue;
            };
            tracing::warn!("kafka.{}: {why}; tried again in {retry:?}", self.name);
            self.report(Some(why));
            self.serving.stop.wait(retry);
            retry = (retry * 2).min(RETRY_MAX);
        }
        Ok(())
    }
}

impl KafkaSource {
    /// Reports the connection of the source as a whole: its error, or none.
    fn report(&self, error: Option<String>) {
        let name = format!("kafka/{}", self.name);
        self.serving.sources.change(&name, |report| {
            report.labels = vec![("source", self.name.clone())];
            report.state = if error.is_some() {
                "waiting"
            } else {
                "reading"
            };
            report.errors += u64::from(error.is_some());
            report.error = error;
        });
    }
}

//! A Logmill server as the receiver of a shipper.

use ingest::Format;
use storage::SourcePosition;

use super::ShipOptions;
use super::send::{RangeBatch, Receiver};
use crate::client::{Client, IngestAnswer, IngestRequest, Refusal};

/// A server with the options of all batches.
pub(crate) struct Server<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a ShipOptions,
}

impl Receiver for Server<'_> {
    fn names(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        self.client.try_source_names(prefix)
    }

    fn states(&self, producer: &str) -> Result<Vec<SourcePosition>, Refusal> {
        self.client.try_source_states(producer)
    }

    fn deliver(&self, batch: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal> {
        let options = self.options;
        self.client.deliver(&IngestRequest {
            stream: &options.stream,
            format: match &batch.format {
                // Without a format, the server takes the one that its configuration names.
                Format::Auto => options.format.as_ref(),
                known => Some(known),
            },
            multiline: options.multiline.as_ref(),
            strict: false,
            site: options.site.as_deref(),
            tz: options.tz.as_deref(),
            year: None,
            concern: options.concern,
            source: batch.source,
            line: batch.line,
            identity: Some(&batch.identity),
            values: false,
            bulk: false,
            body: batch.body,
        })
    }

    fn limit(&self) -> &'static str {
        "server.batch_bytes_max there, or the limit of the proxy before it"
    }
}

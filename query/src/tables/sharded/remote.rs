//! The rows of a fragment that peers answer: one source of rows for all of them, with a partition
//! for each, so that the optimizer's work does not grow with their number.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::fragment::{Fragment, FragmentStep};
use super::frame::{Frame, Frames, cut_off};
use super::peer::{Peer, PeerBytes};
use super::request::Request;
use crate::error::Error;
use crate::plan_node::{NodeKind, PlanNode};

/// The answers of peers to a fragment, as a table.
#[derive(Debug)]
pub(crate) struct RemoteTable {
    pub(crate) peers: Vec<Arc<dyn Peer>>,
    pub(crate) fragment: Fragment,
    pub(crate) time_zone: Option<String>,
    pub(crate) schema: SchemaRef,
}

#[async_trait]
impl TableProvider for RemoteTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fragment = self.fragment.clone();
        let schema = match projection {
            Some(kept) => {
                let columns = kept.iter().map(|nth| self.schema.field(*nth).name());
                let columns = columns.map(|name| Expr::Column(Column::from_name(name)));
                fragment
                    .steps
                    .push(FragmentStep::Project(columns.collect()));
                Arc::new(self.schema.project(kept)?)
            }
            None => Arc::clone(&self.schema),
        };
        fragment.steps.extend(limit.map(FragmentStep::Limit));
        let request = Request::Rows {
            fragment,
            time_zone: self.time_zone.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(self.peers.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let rows = PeerRows {
            peers: self.peers.clone(),
            stream: self.fragment.stream.clone(),
            request: request.encode()?,
            schema,
        };
        Ok(Arc::new(PlanNode::source(rows, properties)))
    }
}

/// Plan node of the rows that peers return, each a partition.
#[derive(Debug)]
pub(crate) struct PeerRows {
    peers: Vec<Arc<dyn Peer>>,
    stream: String,
    request: Bytes,
    schema: SchemaRef,
}

impl NodeKind for PeerRows {
    const NAME: &'static str = "PeerExec";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.peers.iter().map(|peer| peer.name()).collect();
        write!(f, "PeerExec: {} of {}", self.stream, names.join(", "))
    }

    fn execute(
        &self,
        _: &PlanNode<Self>,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (peer, request) = (Arc::clone(&self.peers[partition]), self.request.clone());
        let schema = Arc::clone(&self.schema);
        let answer = async move {
            let name = peer.name().to_owned();
            let bytes = peer.send(request).await?;
            Ok::<_, DataFusionError>(batches(bytes, name, schema))
        };
        let rows = futures::stream::once(answer).try_flatten();
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// State of a stream of batches.
struct PeerReading {
    bytes: PeerBytes,
    frames: Frames,
    decoder: StreamDecoder,
    peer: String,
    schema: SchemaRef,
    is_ended: bool,
}

fn batches(
    bytes: PeerBytes,
    peer: String,
    schema: SchemaRef,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let reading = PeerReading {
        bytes,
        frames: Frames::default(),
        decoder: StreamDecoder::new(),
        peer,
        schema,
        is_ended: false,
    };
    futures::stream::try_unfold((reading, Buffer::from_vec(Vec::<u8>::new())), next)
}

/// Returns the next batch. A frame may hold several messages of Arrow's format, or a part of one.
async fn next(
    (mut reading, mut pending): (PeerReading, Buffer),
) -> Result<Option<(RecordBatch, (PeerReading, Buffer))>> {
    loop {
        while !pending.is_empty() {
            if let Some(batch) = reading.decoder.decode(&mut pending)? {
                let batch = fitted(batch, &reading)?;
                return Ok(Some((batch, (reading, pending))));
            }
        }
        if reading.is_ended {
            return Ok(None);
        }
        match reading.frames.next(&reading.peer)? {
            Some(Frame::Rows(bytes)) => pending = Buffer::from_vec(bytes.to_vec()),
            Some(Frame::End) => reading.is_ended = true,
            Some(Frame::Failed(error)) => return Err(error.into()),
            Some(Frame::Cells(_)) => return Err(unlike(&reading.peer)),
            None => match reading.bytes.next().await {
                Some(bytes) => reading.frames.add(&bytes?),
                None => return Err(cut_off(&reading.peer)),
            },
        }
    }
}

fn unlike(peer: &str) -> DataFusionError {
    let error = Error::Peer {
        peer: peer.to_owned(),
        why: "it answered with other columns; run one release everywhere".to_owned(),
    };
    error.into()
}

/// Gives a batch the columns that the plan expects. Only the encoding of a column may differ.
fn fitted(batch: RecordBatch, reading: &PeerReading) -> Result<RecordBatch> {
    let wanted = reading.schema.fields();
    if batch.num_columns() != wanted.len() {
        return Err(unlike(&reading.peer));
    }
    let columns = batch.columns().iter().zip(wanted);
    let columns = columns.map(
        |(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        },
    );
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::clone(&reading.schema);
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

/// Returns the addresses of the peers whose answers a plan node returns.
pub(crate) fn peers_of(plan: &dyn ExecutionPlan) -> impl Iterator<Item = &str> {
    let node = PlanNode::<PeerRows>::of(plan);
    let peers = node.into_iter().flat_map(|node| &node.kind.peers);
    peers.map(|peer| peer.name())
}

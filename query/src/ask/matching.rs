//! The events that pass a condition, by their sequence numbers: those that an operator erases.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::logical_expr::ident;
use storage::{Name, SEQ, Snapshot};

use crate::ask::tail::TailFilter;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::question::{Parameters, Question, Session, Sources};
use crate::tables::sharded::fragment::agreed_columns;
use crate::tables::sharded::{StreamColumns, agreed_stream};
use crate::tables::system::NoSystemInfo;

/// Returns the sequence numbers of the events of a stream for which an SQL expression such as
/// `host = '203.0.113.7'` is true. The list of queries does not show the expression. It reads the
/// columns upon which several stores agree, if there are some: those that this store lacks are
/// null.
///
/// # Errors
/// [`Error::Invalid`] when there is no such stream, and the errors of [`TailFilter::new`] and of
/// the query.
pub async fn matching(
    engine: &Engine,
    snapshot: Arc<Snapshot>,
    stream: &Name,
    condition: &str,
    agreed: Option<&StreamColumns>,
) -> Result<Vec<u64>> {
    let own = snapshot.streams().get(stream);
    let own = own.ok_or_else(|| Error::invalid(format!("there is no stream {stream}")))?;
    let meta = agreed_stream(Some(own), agreed)?.expect("BUG: the stream has columns");
    let id_prefix = snapshot.manifest().id_prefix();
    let filter = TailFilter::new(engine, &meta, id_prefix, Some(condition))?;
    let passes = filter.logical_condition(engine, condition)?;
    let columns = filter.into_columns();
    let table = stream.to_string();
    let question = Question::Plan {
        text: format!("the events of {stream} to erase"),
        build: Box::new(move |tables| {
            let rows = tables.scan(&table)?;
            let agreed = agreed_columns(&columns, rows.schema())?;
            let rows = rows.project(agreed)?.filter(passes)?;
            rows.project([ident(SEQ)])?.build()
        }),
    };
    let sources = Sources::one(Arc::clone(&snapshot), Arc::new(NoSystemInfo));
    let answer = engine.ask(sources, &Session::default(), question, Parameters::None);
    let (_, batches, _) = answer.await?.collect().await?;
    let seqs = |batch: &arrow::array::RecordBatch| {
        let seqs = batch.column(0).as_primitive::<UInt64Type>();
        seqs.values().to_vec()
    };
    Ok(batches.iter().flat_map(seqs).collect())
}

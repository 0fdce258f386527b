//! The answers to requests of peers, over one store.

use std::mem;
use std::sync::Arc;

use aggregator::{Filter, Level, merge_sections};
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use storage::{Name, TileImage};

use crate::answer::rows::Answer;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::question::{Parameters, Question, Session, Sources};
use crate::tables::level::LevelTable;
use crate::tables::sharded::fragment::Fragment;
use crate::tables::sharded::frame::Frame;
use crate::tables::sharded::request::Request;

type FrameStream = BoxStream<'static, Frame>;

impl Engine {
    /// Answers a request that a peer has sent with [`Peer::send`](crate::Peer::send), over one
    /// store. The bytes hold the answer, or the error that ended it. The request takes a place
    /// among those of peers, not among the queries of this server: two servers that ask each other
    /// never wait for each other. Dropping the stream cancels the request.
    pub fn answer_peer(
        &self,
        sources: Sources,
        session: &Session,
        request: Bytes,
    ) -> BoxStream<'static, Bytes> {
        let (engine, session) = (self.for_peers(), session.clone());
        let answered = async move {
            let frames = engine.frames(sources, session, &request).await;
            frames.unwrap_or_else(|error| stream::iter([Frame::Failed(error)]).boxed())
        };
        let frames = stream::once(answered).flatten();
        frames.map(Frame::encode).boxed()
    }

    async fn frames(
        &self,
        sources: Sources,
        session: Session,
        request: &[u8],
    ) -> Result<FrameStream> {
        match Request::decode(request, &self.state().task_ctx())? {
            Request::Rows {
                fragment,
                time_zone,
            } => {
                let session = Session {
                    time_zone,
                    ..session
                };
                let engine = self.hinted(&fragment.hints);
                let (question, none) = (question(fragment), Parameters::None);
                let answer = engine.ask(sources, &session, question, none).await?;
                rows(answer)
            }
            Request::Cells {
                rollup,
                level,
                columns,
                filter,
            } => {
                let table = self.level_of(&sources, &session, &rollup, level)?;
                let image = self.cells(&session, table, level, columns, filter).await?;
                Ok(stream::iter([Frame::Cells(image), Frame::End]).boxed())
            }
        }
    }

    /// Reads the cells of a level that pass a filter, merged.
    async fn cells(
        &self,
        session: &Session,
        table: LevelTable,
        level: Level,
        columns: Vec<String>,
        filter: Filter,
    ) -> Result<TileImage> {
        let (name, of) = (table.definition().name(), level.table());
        let text = format!("the cells of {name}.{of} for a peer");
        let work = async move {
            let read = SpawnedTask::spawn_blocking(move || {
                let cells = table.cells(&columns, filter)?;
                Ok(merge_sections(table.definition(), level, cells))
            });
            let read: datafusion::error::Result<TileImage> = read
                .await
                .map_err(|e| DataFusionError::External(Box::new(e)))
                .flatten();
            Ok((read.map_err(|e| Error::of(e, Vec::new))?, None))
        };
        self.admitted(&text, session, work.boxed()).await
    }

    fn level_of(
        &self,
        sources: &Sources,
        session: &Session,
        rollup: &str,
        level: Level,
    ) -> Result<LevelTable> {
        let rollups = self.rollups_of(&sources.snapshot)?;
        let found = Name::new(rollup).ok().and_then(|name| rollups.get(&name));
        let seen = found.filter(|rollup| session.viewer.sees(rollup.meta.stream.as_str()));
        let seen = seen.filter(|rollup| rollup.definition.levels().contains(&level));
        let Some(rollup) = seen else {
            let table = level.table();
            return Err(Error::invalid(format!(
                "there is no level {rollup}.{table}"
            )));
        };
        let snapshot = Arc::clone(&sources.snapshot);
        Ok(LevelTable::new(
            snapshot,
            rollup.clone(),
            level,
            self.tiles(),
        ))
    }
}

/// Returns the question that a fragment asks one store.
pub(crate) fn question(fragment: Fragment) -> Question {
    Question::Plan {
        text: format!("a part of a peer's question for {}", fragment.stream),
        build: Box::new(move |tables| {
            let rows = tables.scan(&fragment.stream)?.build()?;
            fragment.plan(rows)
        }),
    }
}

/// State of the frames of an answer of rows.
enum Sending {
    Rows(Box<(Answer, StreamWriter<Vec<u8>>)>),
    Ending,
    Ended,
}

fn rows(answer: Answer) -> Result<FrameStream> {
    let writer = StreamWriter::try_new(Vec::new(), &answer.schema).map_err(of_arrow)?;
    let sending = Sending::Rows(Box::new((answer, writer)));
    Ok(stream::unfold(sending, |sending| async {
        let (frame, sending) = match sending {
            Sending::Rows(mut rows) => match next(&mut rows).await {
                Ok(Some(bytes)) => (Frame::Rows(bytes), Sending::Rows(rows)),
                Ok(None) => match last(&mut rows.1) {
                    Ok(bytes) => (Frame::Rows(bytes), Sending::Ending),
                    Err(error) => (Frame::Failed(error), Sending::Ended),
                },
                Err(error) => (Frame::Failed(error), Sending::Ended),
            },
            Sending::Ending => (Frame::End, Sending::Ended),
            Sending::Ended => return None,
        };
        Some((frame, sending))
    })
    .boxed())
}

async fn next(rows: &mut (Answer, StreamWriter<Vec<u8>>)) -> Result<Option<Bytes>> {
    let (answer, writer) = rows;
    let Some(batch) = answer.stream.next().await else {
        return Ok(None);
    };
    writer.write(&batch?).map_err(of_arrow)?;
    Ok(Some(mem::take(writer.get_mut()).into()))
}

fn last(writer: &mut StreamWriter<Vec<u8>>) -> Result<Bytes> {
    writer.finish().map_err(of_arrow)?;
    Ok(mem::take(writer.get_mut()).into())
}

fn of_arrow(error: arrow::error::ArrowError) -> Error {
    Error::Execution(error.into())
}

//! The statements of one command, asked of a directory or of a server in one session.
//!
//! Each statement over a directory reads what is acknowledged when it begins.

use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono_tz::Tz;
use futures::StreamExt;
use query::output::Output as Form;
use query::{Engine, Parameters, QueryInfo, QueryStats, Session, Sources};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::interrupts::Interrupts;
use super::printing::{Printed, Printing};
use super::progress::ProgressLine;
use crate::client::Client;
use crate::commands::{Context, Place, admin};
use crate::failure::{Failure, Result};
use crate::wiring::{self, StoreInfo};

/// Exit code by which shells recognize an interrupted command.
pub(super) const INTERRUPTED: u8 = 130;
/// Time within which a cancelled query normally returns its error.
const STOP_TIMEOUT: Duration = Duration::from_millis(150);

/// The effect of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnInterrupt {
    EndCommand,
    EndStatement,
}

/// A user waits for a statement that is attended: it shows its progress, and Ctrl-C ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attended {
    Yes,
    No,
}

/// Statement whose answer two views of one store have in common.
const IDENTITY: &str = "SELECT sealed_seq, sealed_at FROM system.store";

/// The place and the session of the statements.
pub(super) struct Asker<'a> {
    context: &'a Context,
    place: Place,
    zone: Option<Tz>,
    runtime: Runtime,
    /// The engine of a directory, and the folder of what it spills.
    own: Option<(Engine, TempDir)>,
    interrupts: Option<Interrupts>,
    /// The whole command was interrupted.
    is_ending: Arc<AtomicBool>,
}

impl<'a> Asker<'a> {
    /// Creates the session of a terminal. A server that holds the directory is asked: its caches
    /// are warm, and its limits bound what a statement costs.
    pub(super) fn interactive(context: &'a Context, zone: Option<Tz>) -> Result<Self> {
        let on_interrupt = OnInterrupt::EndStatement;
        let own = Self::new(context, context.place.clone(), zone, on_interrupt)?;
        let Place::Data(data) = &context.place else {
            return Ok(own);
        };
        let Some(holder) = admin::living_holder(data) else {
            return Ok(own);
        };
        let served = Self::new(context, Place::Server(holder?), zone, on_interrupt)?;
        // Another process may have the number of a writer that was killed, and another store may
        // be served at its address. A seal between the two reads is worth a second look.
        for _ in 0..2 {
            let Ok(answer) = served.rows(IDENTITY) else {
                return Ok(own);
            };
            if answer == own.rows(IDENTITY)? {
                return Ok(served);
            }
        }
        Ok(own)
    }

    /// Creates the session of a command.
    pub(super) fn new(
        context: &'a Context,
        place: Place,
        zone: Option<Tz>,
        on_interrupt: OnInterrupt,
    ) -> Result<Self> {
        let runtime = wiring::runtime()?;
        let own = match &place {
            Place::Server(_) => None,
            Place::Data(_) => {
                let temp = tempfile::tempdir()?;
                let engine = wiring::engine_of_one(&context.config, Some(temp.path()))?;
                Some((engine, temp))
            }
        };
        let is_ending = Arc::new(AtomicBool::new(false));
        let interrupts = match (on_interrupt, &place, &own) {
            (OnInterrupt::EndStatement, Place::Server(client), _) => {
                Some(Interrupts::watch(&runtime, Some(client.clone()))?)
            }
            (OnInterrupt::EndStatement, Place::Data(_), _) => {
                Some(Interrupts::watch(&runtime, None)?)
            }
            (OnInterrupt::EndCommand, _, Some((engine, temp))) => {
                let folder = temp.path().to_owned();
                let (engine, flag) = (engine.clone(), Arc::clone(&is_ending));
                runtime.spawn(end_when_interrupted(engine, flag, folder));
                None
            }
            // The system ends the process, and the closed connection cancels the query.
            (OnInterrupt::EndCommand, _, None) => None,
        };
        Ok(Self {
            context,
            place,
            zone,
            runtime,
            own,
            interrupts,
            is_ending,
        })
    }

    /// Returns the directory or the URL that is asked.
    pub(super) fn place_name(&self) -> String {
        match &self.place {
            Place::Data(data) => data.display().to_string(),
            Place::Server(client) => client.url().to_owned(),
        }
    }

    /// Returns whether Ctrl-C has ended the command.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Writes the answer to a statement.
    pub(super) fn print(&self, sql: &str, printing: &Printing, out: &mut dyn Write) -> Result<()> {
        self.interruptibly(|| match &self.place {
            Place::Server(client) => self.relay(client, sql, printing, out),
            Place::Data(_) => {
                let mut printed = Printed::new(printing, out);
                self.compute(sql, Some(&mut printed), Attended::Yes)
                    .map(drop)
            }
        })
    }

    /// Returns the statistics of a statement; its rows are computed and dropped.
    pub(super) fn figures(&self, sql: &str) -> Result<QueryStats> {
        self.interruptibly(|| match &self.place {
            Place::Server(client) => {
                let tag = self.tag();
                let progress_line = show_progress(client, &tag);
                let mut text = String::new();
                client
                    .sql(sql, self.zone, "application/json", &tag)?
                    .read_to_string(&mut text)?;
                drop(progress_line);
                let mut answer: Value = serde_json::from_str(&text).map_err(anyhow::Error::from)?;
                let stats = answer["stats"].take();
                Ok(serde_json::from_value(stats).map_err(anyhow::Error::from)?)
            }
            Place::Data(_) => self.compute(sql, None, Attended::Yes),
        })
    }

    /// Returns the rows of a short statement as JSON objects, without any sign of progress.
    pub(super) fn rows(&self, sql: &str) -> Result<Vec<Value>> {
        match &self.interrupts {
            None => self.rows_of(sql),
            Some(interrupts) => interrupts.own_question(|| self.rows_of(sql)),
        }
    }

    fn rows_of(&self, sql: &str) -> Result<Vec<Value>> {
        let mut text = Vec::new();
        match &self.place {
            Place::Server(client) => {
                let accept = "application/x-ndjson";
                client
                    .sql(sql, self.zone, accept, &new_tag())?
                    .read_to_end(&mut text)?;
            }
            Place::Data(_) => {
                let printing = Printing::of(Form::Ndjson, self.zone);
                let mut printed = Printed::new(&printing, &mut text);
                self.compute(sql, Some(&mut printed), Attended::No)?;
            }
        }
        let rows = serde_json::Deserializer::from_slice(&text).into_iter();
        let rows: Result<Vec<Value>, _> = rows.collect();
        Ok(rows.map_err(anyhow::Error::from)?)
    }

    /// Does the work of one statement. An error that Ctrl-C led to is told as such.
    fn interruptibly<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(interrupts) = &self.interrupts {
            interrupts.begin();
        }
        let done = work();
        let Some(interrupts) = &self.interrupts else {
            return done;
        };
        match done {
            Err(_) if interrupts.end() => Err(Failure::new(INTERRUPTED, "cancelled")),
            done => {
                interrupts.end();
                done
            }
        }
    }

    /// Runs a statement over the directory.
    fn compute(
        &self,
        sql: &str,
        mut printed: Option<&mut Printed<'_>>,
        attended: Attended,
    ) -> Result<QueryStats> {
        let (engine, _) = self.own.as_ref().expect("BUG: a directory has an engine");
        let reader = self.context.reader()?;
        let system = StoreInfo::of_reader_with(&reader, &self.context.config);
        let sources = Sources::one(reader.snapshot(), Arc::new(system));
        let session = Session {
            time_zone: self.zone.map(|zone| zone.name().to_owned()),
            ..Session::default()
        };
        let (watched, is_attended) = (engine.clone(), attended == Attended::Yes);
        let mut progress_line =
            is_attended.then(|| ProgressLine::start(move || watched.queries().pop()));
        let work = async {
            let asked = engine.ask(sources, &session, sql.into(), Parameters::None);
            let mut answer = asked.await?;
            if let Some(printed) = &mut printed {
                printed.begin(&answer.schema)?;
            }
            while let Some(batch) = answer.stream.next().await {
                let batch = batch?;
                if let Some(printed) = &mut printed {
                    // A table is printed at its end; every other format is printed from the first
                    // batch on, so the progress line must go.
                    progress_line.take_if(|_| !printed.is_table());
                    printed.batch(&batch)?;
                }
            }
            progress_line = None;
            if let Some(printed) = &mut printed {
                printed.end()?;
            }
            Ok::<_, Failure>(answer.figures())
        };
        self.runtime.block_on(async {
            let Some(interrupts) = self.interrupts.as_ref().filter(|_| is_attended) else {
                return work.await;
            };
            tokio::select! {
                done = work => done,
                // The answer is dropped, which cancels the query.
                () = interrupts.heard() => Err(Failure::new(INTERRUPTED, "cancelled")),
            }
        })
    }

    /// Copies a server's answer. This process only formats tables and JSON.
    fn relay(
        &self,
        client: &Client,
        sql: &str,
        printing: &Printing,
        out: &mut dyn Write,
    ) -> Result<()> {
        let accept = match printing.form {
            Form::Table | Form::Json | Form::Arrow => "application/vnd.apache.arrow.stream",
            Form::Ndjson => "application/x-ndjson",
            Form::Csv => "text/csv",
        };
        let tag = self.tag();
        let progress_line = show_progress(client, &tag);
        let mut answer = client.sql(sql, self.zone, accept, &tag)?;
        drop(progress_line);
        if matches!(printing.form, Form::Table | Form::Json) {
            let batches = arrow::ipc::reader::StreamReader::try_new(BufReader::new(answer), None);
            let batches = batches.map_err(anyhow::Error::from)?;
            let mut printed = Printed::new(printing, out);
            printed.begin(&batches.schema())?;
            for batch in batches {
                printed.batch(&batch.map_err(anyhow::Error::from)?)?;
            }
            printed.end()?;
        } else {
            std::io::copy(&mut answer, out)?;
            out.flush()?;
        }
        Ok(())
    }

    /// Returns the tag of a statement, and notes it for Ctrl-C.
    fn tag(&self) -> String {
        let tag = new_tag();
        if let Some(interrupts) = &self.interrupts {
            interrupts.tagged(&tag);
        }
        tag
    }
}

/// Returns a tag that no other query has.
fn new_tag() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Cancels all queries on Ctrl-C, and removes their temporary files before the process ends.
async fn end_when_interrupted(
    engine: Engine,
    interrupted: Arc<AtomicBool>,
    temp: std::path::PathBuf,
) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    interrupted.store(true, Ordering::SeqCst);
    for query in engine.queries() {
        engine.cancel(query.id);
    }
    tokio::time::sleep(STOP_TIMEOUT).await;
    // The query did not return an error in time: it is still being planned, or its answer written.
    let _gone = std::fs::remove_dir_all(temp);
    std::process::exit(INTERRUPTED.into());
}

/// Shows the progress of a query that a server runs.
fn show_progress(client: &Client, tag: &str) -> ProgressLine {
    let (client, tag) = (client.clone(), tag.to_owned());
    ProgressLine::start(move || {
        let queries = client.get_json("/api/v1/queries", &[]).ok()?;
        let queries: Vec<QueryInfo> = serde_json::from_value(queries).ok()?;
        let is_ours = |query: &QueryInfo| query.tag.as_deref() == Some(&tag);
        queries.into_iter().find(is_ours)
    })
}

//! `logmill tail`: events as they come, an object a line.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use query::output::{Output as Form, Writer};
use storage::Reader;

use super::{Context, Place, sql};
use crate::cli::TailArgs;
use crate::failure::Result;
use crate::wiring::{self, StoreInfo};

/// How often a directory is looked at; a server pushes.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) fn run(context: &Context, args: &TailArgs) -> Result<ExitCode> {
    let stream = context.only_stream(args.stream.as_deref())?;
    let stream = storage::Name::new(&stream)?;
    let mut out = std::io::stdout().lock();
    match &context.place {
        Place::Server(client) => {
            for line in sql::event_lines(client.tail(stream.as_str(), args.condition.as_deref())?) {
                writeln!(out, "{}", line?)?;
                out.flush()?;
            }
        }
        Place::Data(data) => {
            let engine = wiring::engine_of_one(&context.config, None)?;
            let runtime = wiring::runtime()?;
            let mut from = context.reader()?.snapshot().next_seq();
            loop {
                let reader = Reader::open(wiring::disk(), data)?;
                let next = reader.snapshot().next_seq();
                if next > from {
                    let condition = args
                        .condition
                        .as_ref()
                        .map(|c| format!(" AND ({c})"))
                        .unwrap_or_default();
                    let sql = format!(
                        "SELECT * FROM \"{stream}\" WHERE _seq >= {from}{condition} ORDER BY _seq"
                    );
                    let system = Arc::new(StoreInfo::of_reader(&reader));
                    let (schema, batches, _) = runtime.block_on(async {
                        engine
                            .sql(reader.snapshot(), system, &sql, None)
                            .await?
                            .collect()
                            .await
                    })?;
                    let mut writer = Writer::new(Form::Ndjson, &schema, &mut out)?;
                    for batch in &batches {
                        writer.batch(batch)?;
                    }
                    writer.finish()?.flush()?;
                    from = next;
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `validate`: reads every part of a stream and compares it with the manifest, or recounts the
//! rollup of a level from its events.

use std::sync::Arc;

use aggregator::{Level, Sample, Verification};
use bson::{Bson, Document, doc};
use storage::{Name, Retention, Snapshot};

use super::indexes::listed;
use super::listing::visible_rollups;
use super::sizes::CollectionSize;
use super::{administrator, few, long, no_collection, on_disk, refuse_options, visible_stream};
use crate::failure::Failure;
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;
use crate::verification::verify_snapshot;

/// `validate`. It reads everything, whether `full` or not.
pub(super) async fn of_collection(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let options = ["full", "scandata", "background", "checkBSONConformance"];
    command.check_fields(&[&options[..], &["repair", "metadata"]].concat())?;
    let repair = "stop the server and use `logmill repair`, which says beforehand what is lost";
    refuse_options(command, &[("repair", repair)])?;
    let client = administrator(connection, command)?;
    let (database, named) = (command.database()?, command.collection()?);
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let found = match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) => {
            visible_stream(&client, &snapshot, &stream).ok_or_else(|| no_collection(named))?;
            let config = serving.config.store();
            let retention = config.retention(snapshot.manifest(), &stream);
            on_disk(move || Ok(Validated::of_stream(&snapshot, &stream, retention))).await?
        }
        Collection::Level { rollup, level } => {
            let known = visible_rollups(&client, &snapshot);
            let known = known.filter(|known| known.name.as_str() == rollup);
            let known = known.map(|known| known.id).next();
            let known = known.zip(Level::from_table(&level));
            let known = known.ok_or_else(|| no_collection(named))?;
            on_disk(move || Validated::of_level(&snapshot, &rollup, known)).await?
        }
    };
    let mut answer = doc! { "ns": format!("{database}.{named}") };
    found.put(&mut answer);
    Ok(answer)
}

/// The result of a validation.
struct Validated {
    /// Documents that cannot be read, or are wrong.
    invalid: u64,
    records: u64,
    indexes: usize,
    errors: Vec<String>,
}

impl Validated {
    fn of_stream(snapshot: &Snapshot, stream: &Name, retention: Retention) -> Self {
        let (sound, damage) = storage::check_stream(snapshot, stream);
        let parts = snapshot.manifest().parts_of(stream);
        let events: u64 = parts.map(|part| part.rows).sum();
        let told = damage.iter();
        let told = told.map(|(path, why)| format!("{}: {why}", path.display()));
        Self {
            invalid: events - sound,
            records: CollectionSize::of_stream(snapshot, stream).documents,
            indexes: listed(snapshot, stream, retention).len(),
            errors: told.collect(),
        }
    }

    fn of_level(snapshot: &Snapshot, rollup: &str, (id, level): (u32, Level)) -> Result<Self> {
        let verified = verify_snapshot(snapshot, Some(rollup), Sample::ALL);
        let failed = |e: Failure| CommandError::new(code::INTERNAL_ERROR, e.to_string());
        let verified = verified.map_err(failed)?;
        let differences = verified.iter().map(Verification::differences).sum();
        let told = format!(
            "{differences} states of {rollup} differ from a recount of its events; `logmill rollup rebuild {rollup}` counts them again"
        );
        Ok(Self {
            invalid: differences,
            records: CollectionSize::of_level(snapshot, id, level).documents,
            indexes: 0,
            errors: (differences > 0).then_some(told).into_iter().collect(),
        })
    }

    fn put(self, answer: &mut Document) {
        answer.insert("nInvalidDocuments", long(self.invalid));
        answer.insert("nNonCompliantDocuments", 0);
        answer.insert("nrecords", long(self.records));
        answer.insert("nIndexes", few(self.indexes));
        answer.insert("valid", self.errors.is_empty());
        answer.insert("repaired", false);
        answer.insert("warnings", Bson::Array(Vec::new()));
        answer.insert("errors", self.errors);
    }
}

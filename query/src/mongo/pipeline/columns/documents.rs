//! Documents as rows, for tests.

use bson::Document;
use bson::raw::RawBsonRef;

use super::{ColumnGroups, FieldPlace, FieldRows};
use crate::mongo::encoding::scalar;
use crate::mongo::error::Result;

/// Documents whose fields are read one by one.
pub(crate) struct DocumentRows<'a> {
    documents: &'a [Document],
    names: Vec<&'a str>,
}

impl<'a> DocumentRows<'a> {
    pub(crate) fn new(documents: &'a [Document]) -> Self {
        let names = documents.iter().flat_map(Document::keys);
        Self {
            documents,
            names: names.map(String::as_str).collect(),
        }
    }
}

impl FieldRows for DocumentRows<'_> {
    fn field(&self, name: &str) -> Option<FieldPlace> {
        let mut values = self.documents.iter().filter_map(|d| d.get(name));
        if !values.all(|value| scalar(value).is_some()) {
            return None;
        }
        let place = self.names.iter().position(|known| *known == name);
        Some(place.map_or(FieldPlace::Nowhere, FieldPlace::At))
    }

    fn value(&self, place: usize, row: usize) -> Option<RawBsonRef<'_>> {
        scalar(self.documents[row].get(self.names[place])?)
    }
}

/// Groups documents that count several times, as columns as long as they can be. Returns the
/// results, and the number of documents that were taken as columns.
pub(crate) fn group_documents(
    mut groups: ColumnGroups<'_>,
    documents: &[Document],
    times: &[u64],
) -> Result<(Vec<Document>, usize)> {
    let rows = DocumentRows::new(documents);
    let taken = groups.push(&rows, 0..documents.len(), times)?;
    let mut results = Vec::new();
    let run = match taken == documents.len() {
        true => {
            let (mut groups, mut run) = groups.finish();
            while let Some(group) = groups.next_encoded() {
                let group = Document::from_reader(&group?[..]).expect("a group is a document");
                match &mut run {
                    Some(run) => _ = run.push(group, &mut results)?,
                    None => results.push(group),
                }
            }
            run
        }
        false => {
            let mut run = groups.into_run()?;
            for row in taken..documents.len() {
                run.push_times(documents[row].clone(), times[row])?;
            }
            Some(run)
        }
    };
    if let Some(mut run) = run {
        run.finish(&mut results)?;
    }
    Ok((results, taken))
}

//! Documents of an answer, and those of them that wait for a batch.

use std::collections::VecDeque;

use bson::Document;
use bson::raw::{CStr, RawArrayBuf, RawDocumentBuf, cstr};
use query::mongo::encoded_bytes;

use super::error::{CommandError, Result, code};

/// A document of an answer.
#[derive(Debug)]
pub(super) enum AnswerDocument {
    /// The document, with its bytes in BSON.
    Decoded(Document, usize),
    /// BSON: a decoded document takes ten times the memory.
    Encoded(RawDocumentBuf),
}

impl AnswerDocument {
    pub(super) fn new(document: Document) -> Self {
        let bytes = encoded_bytes(&document);
        Self::Decoded(document, bytes)
    }

    /// Takes a document in BSON.
    pub(super) fn of_encoded(bytes: Vec<u8>) -> Self {
        let document = RawDocumentBuf::from_bytes(bytes);
        Self::Encoded(document.expect("BUG: it was written as a document"))
    }

    /// Returns the bytes in BSON.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Decoded(_, bytes) => *bytes,
            Self::Encoded(document) => document.as_bytes().len(),
        }
    }

    pub(super) fn into_document(self) -> Document {
        match self {
            Self::Decoded(document, _) => document,
            Self::Encoded(raw) => Document::try_from(raw).expect("BUG: it was a document"),
        }
    }

    /// Returns the document in BSON.
    ///
    /// # Errors
    /// If the name of a field cannot be written.
    pub(super) fn into_encoded(self) -> Result<RawDocumentBuf> {
        match self {
            Self::Decoded(document, _) => RawDocumentBuf::try_from(document).map_err(|error| {
                let message = format!("a document cannot be sent: {error}");
                CommandError::new(code::BAD_VALUE, message)
            }),
            Self::Encoded(document) => Ok(document),
        }
    }
}

/// Documents that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingDocuments {
    documents: VecDeque<AnswerDocument>,
    bytes: usize,
}

impl WaitingDocuments {
    pub(super) fn push(&mut self, document: AnswerDocument) {
        self.bytes += document.bytes();
        self.documents.push_back(document);
    }

    /// Returns the bytes of the next document.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.documents.front().map(AnswerDocument::bytes)
    }

    pub(super) fn pop(&mut self) -> Option<AnswerDocument> {
        let document = self.documents.pop_front()?;
        self.bytes -= document.bytes();
        Some(document)
    }

    /// Encodes the documents, for a client that may take long to ask for them.
    ///
    /// # Errors
    /// If one is no BSON.
    pub(super) fn pack(&mut self) -> Result<()> {
        for document in &mut self.documents {
            if let AnswerDocument::Decoded(..) = document {
                let nothing = AnswerDocument::Encoded(RawDocumentBuf::new());
                let decoded = std::mem::replace(document, nothing);
                *document = AnswerDocument::Encoded(decoded.into_encoded()?);
            }
        }
        self.bytes = self.documents.iter().map(AnswerDocument::bytes).sum();
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }
}

impl FromIterator<Document> for WaitingDocuments {
    fn from_iter<T: IntoIterator<Item = Document>>(documents: T) -> Self {
        let mut waiting = Self::default();
        for document in documents {
            waiting.push(AnswerDocument::new(document));
        }
        waiting
    }
}

/// Documents that are sent at once.
#[derive(Default)]
pub(super) struct DocumentBatch {
    documents: RawArrayBuf,
    count: usize,
}

impl DocumentBatch {
    /// Adds a document.
    ///
    /// # Errors
    /// If it is no BSON.
    pub(super) fn push(&mut self, document: AnswerDocument) -> Result<()> {
        self.documents.push(document.into_encoded()?);
        self.count += 1;
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the answer of a cursor that ends with this batch.
    pub(super) fn first(self, namespace: &str) -> RawDocumentBuf {
        self.answer(cstr!("firstBatch"), 0, namespace)
    }

    /// Returns the answer with the batch of this name, and the cursor behind it; 0 for none.
    pub(super) fn answer(self, name: &CStr, id: i64, namespace: &str) -> RawDocumentBuf {
        let mut cursor = RawDocumentBuf::new();
        cursor.append(name, self.documents);
        cursor.append(cstr!("id"), id);
        cursor.append(cstr!("ns"), namespace);
        let mut answer = RawDocumentBuf::new();
        answer.append(cstr!("cursor"), cursor);
        answer
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Decimal128, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn packed_documents_come_back_as_they_were_and_in_order() {
        let all = [
            doc! { "_id": ObjectId::from_bytes([7; 12]), "n": [1, 2_i64, 0.5, Bson::Null] },
            doc! {},
            doc! { "t": bson::DateTime::from_millis(-1), "d": Bson::Decimal128(Decimal128::from_bytes([1; 16])) },
            doc! { "a": { "b": { "c": "x".repeat(1000) } }, "": Bson::MinKey },
        ];
        let (first, later) = all.split_at(2);
        let mut waiting: WaitingDocuments = first.iter().cloned().collect();
        let bytes = waiting.bytes();
        waiting.pack().expect("packs");
        assert_eq!(waiting.bytes(), bytes);
        later
            .iter()
            .cloned()
            .for_each(|d| waiting.push(AnswerDocument::new(d)));
        for document in &all {
            let encoded = document.to_vec().expect("BSON").len();
            assert_eq!(waiting.next_bytes(), Some(encoded));
            let next = waiting.pop().map(AnswerDocument::into_document);
            assert_eq!(next.as_ref(), Some(document));
        }
        assert!(waiting.is_empty() && waiting.bytes() == 0);
    }
}

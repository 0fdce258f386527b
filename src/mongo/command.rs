//! A command: its name, its fields and the documents that it brings.
//!
//! # Invariants
//! * No command is copied deeper than [`DEPTH_MAX`] levels: what is decoded here has a bounded
//!   depth, whatever a client nests.

use bson::raw::RawBsonRef;
use bson::{Bson, Document, RawArray, RawDocument};

use super::error::{CommandError, Result, code};
use super::message::MongoMessage;

/// Maximum levels of documents and arrays of a command; those that it brings have a limit of their
/// own.
const DEPTH_MAX: usize = 200;

/// Fields that every command may have.
const GENERIC: [&str; 15] = [
    "$db",
    "lsid",
    "txnNumber",
    "stmtId",
    "stmtIds",
    "$clusterTime",
    "$readPreference",
    "readConcern",
    "writeConcern",
    "comment",
    "maxTimeMS",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "mayBypassWriteBlocking",
];

/// A command of a client.
#[derive(Debug)]
pub(super) struct MongoCommand<'a> {
    pub(super) name: &'a str,
    /// The first field is the command's name.
    fields: Document,
    /// Documents that the command itself has, in a field of their own.
    brought: Option<(&'a str, &'a RawArray)>,
    message: &'a MongoMessage,
}

impl<'a> MongoCommand<'a> {
    /// Reads the command of a message: so many bytes at most, without the documents that it brings.
    ///
    /// # Errors
    /// If it has no name, is not BSON, is nested too deep or has more bytes.
    pub(super) fn of(message: &'a MongoMessage, bytes_max: usize) -> Result<Self> {
        let mut fields = Document::new();
        let (mut name, mut brought) = (None, None);
        check_bytes(message.command(), bytes_max)?;
        for field in message.command() {
            let (key, value) = field.map_err(|e| not_bson(&e))?;
            let key = key.as_str();
            name = name.or(Some(key));
            if let Some(items) = brought_of(key, value) {
                brought = Some((key, items));
                continue;
            }
            check_depth(value, 1)?;
            let value = Bson::try_from(value).map_err(|e| not_bson(&e))?;
            fields.insert(key, value);
        }
        let name =
            name.ok_or_else(|| CommandError::new(code::BAD_VALUE, "the command is empty"))?;
        Ok(Self {
            name,
            fields,
            brought,
            message,
        })
    }

    /// Returns the command that a field holds, of the same message.
    ///
    /// # Errors
    /// If the field is no object, or an empty one.
    pub(super) fn inner(&self, field: &str) -> Result<MongoCommand<'_>> {
        let inner = self.document(field)?.ok_or_else(|| self.missing(field))?;
        let name = inner.keys().next().ok_or_else(|| self.missing(field))?;
        let mut fields = inner.clone();
        fields.extend(
            self.get("$db")
                .map(|database| ("$db".to_owned(), database.clone())),
        );
        Ok(MongoCommand {
            name,
            fields,
            brought: None,
            message: self.message,
        })
    }

    /// Returns all fields.
    pub(super) fn fields(&self) -> &Document {
        &self.fields
    }

    /// Returns the fields behind the name, without the generic ones.
    pub(super) fn own_fields(&self) -> impl Iterator<Item = (&str, &Bson)> {
        let fields = self.fields.iter().skip(1);
        let fields = fields.map(|(name, value)| (name.as_str(), value));
        fields.filter(|(name, _)| !GENERIC.contains(name))
    }

    /// Returns a field.
    pub(super) fn get(&self, name: &str) -> Option<&Bson> {
        self.fields.get(name).filter(|value| **value != Bson::Null)
    }

    /// Checks that the command has no other fields than these and the generic ones.
    ///
    /// # Errors
    /// The first unknown one: nothing that a client asks for is left out silently.
    pub(super) fn check_fields(&self, known: &[&str]) -> Result<()> {
        let names = self.fields.keys().map(String::as_str).skip(1);
        let mut unknown = names.filter(|name| !known.contains(name) && !GENERIC.contains(name));
        match unknown.next() {
            None => Ok(()),
            Some(name) => Err(CommandError::new(
                code::UNKNOWN_FIELD,
                format!("the command {} has the unknown field '{name}'", self.name),
            )),
        }
    }

    /// Returns the database.
    ///
    /// # Errors
    /// If it is missing.
    pub(super) fn database(&self) -> Result<&str> {
        self.text("$db")?.ok_or_else(|| self.missing("$db"))
    }

    /// Returns the collection that the command's own field names.
    ///
    /// # Errors
    /// If it is no text.
    pub(super) fn collection(&self) -> Result<&str> {
        let name = self.text(self.name)?;
        name.ok_or_else(|| self.missing(self.name))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>> {
        self.typed(name, "string", Bson::as_str)
    }

    pub(super) fn document(&self, name: &str) -> Result<Option<&Document>> {
        self.typed(name, "object", Bson::as_document)
    }

    /// Returns a field that is true or false, or a number.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>> {
        let truth = |value: &Bson| match value {
            Bson::Boolean(truth) => Some(*truth),
            value => number(value).map(|number| number != 0),
        };
        self.typed(name, "bool", truth)
    }

    /// Returns a field that is an integer of any type.
    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>> {
        self.typed(name, "long", number)
    }

    fn typed<'s, T>(
        &'s self,
        name: &str,
        expected: &str,
        of: impl Fn(&'s Bson) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match of(value) {
            Some(value) => Ok(Some(value)),
            None => Err(CommandError::new(
                code::TYPE_MISMATCH,
                format!(
                    "'{}.{name}' has the type {}; it must be {expected}",
                    self.name,
                    type_name(value)
                ),
            )),
        }
    }

    /// Returns the error of a missing field.
    pub(super) fn missing(&self, name: &str) -> CommandError {
        CommandError::new(
            code::MISSING_FIELD,
            format!("'{}.{name}' is missing", self.name),
        )
    }

    /// Returns the documents of a field, from the command or from the sequence of its name.
    ///
    /// # Errors
    /// If there are none, they come twice, or one is no document.
    pub(super) fn documents(&self, name: &str) -> Result<Vec<&'a [u8]>> {
        let own = self.brought.filter(|(field, _)| *field == name);
        match (own, self.message.sequence(name)) {
            (Some(_), Some(_)) => Err(CommandError::new(
                code::BAD_VALUE,
                format!("'{name}' comes in the command and in a sequence of documents"),
            )),
            (None, None) => Err(self.missing(name)),
            (None, Some(sequence)) => Ok(sequence.collect()),
            (Some((_, items)), None) => {
                let documents = items.into_iter().enumerate();
                let documents = documents.map(|(index, item)| match item {
                    Ok(RawBsonRef::Document(document)) => Ok(document.as_bytes()),
                    Ok(_) => Err(CommandError::new(
                        code::TYPE_MISMATCH,
                        format!("'{}.{name}.{index}' is no object", self.name),
                    )),
                    Err(error) => Err(not_bson(&error)),
                });
                documents.collect()
            }
        }
    }

    /// Returns whether the command is part of a transaction.
    pub(super) fn is_in_transaction(&self) -> bool {
        let fields = ["startTransaction", "autocommit"];
        fields.iter().any(|name| self.get(name).is_some())
    }

    /// Returns the identity under which a driver repeats the command: its session and the number
    /// within it.
    ///
    /// # Errors
    /// If one of them has another type than drivers send.
    pub(super) fn retry_identity(&self) -> Result<Option<String>> {
        let Some(number) = self.integer("txnNumber")? else {
            return Ok(None);
        };
        let session = self.document("lsid")?.and_then(|lsid| lsid.get("id"));
        match session {
            Some(Bson::Binary(id)) if id.bytes.len() <= 64 => {
                let digits = id.bytes.iter().map(|byte| format!("{byte:02x}"));
                Ok(Some(format!(
                    "mongodb {} {number}",
                    digits.collect::<String>()
                )))
            }
            _ => Err(CommandError::new(
                code::BAD_VALUE,
                "a command with 'txnNumber' needs 'lsid' with an 'id' of binary data",
            )),
        }
    }
}

/// Returns an integer of any numeric type.
pub(super) fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => {
            let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
            is_whole.then_some(*number as i64)
        }
        _ => None,
    }
}

/// Returns the name of a value's type, as `$type` knows it.
fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Decimal128(_) => "decimal",
        _ => "other",
    }
}

/// Returns the documents of a field that a command brings.
fn brought_of<'a>(key: &str, value: RawBsonRef<'a>) -> Option<&'a RawArray> {
    match key {
        "documents" | "updates" | "deletes" => value.as_array(),
        _ => None,
    }
}

fn check_bytes(command: &RawDocument, bytes_max: usize) -> Result<()> {
    let all = command.as_bytes().len();
    if all <= bytes_max {
        return Ok(());
    }
    let mut brought = 0;
    for field in command {
        let (key, value) = field.map_err(|e| not_bson(&e))?;
        let items = brought_of(key.as_str(), value);
        brought += items.map_or(0, |items| items.as_bytes().len());
    }
    match all - brought > bytes_max {
        false => Ok(()),
        true => {
            let bytes = all - brought;
            let message = format!(
                "the command has {bytes} bytes without the documents that it brings; the limit is {bytes_max}"
            );
            Err(CommandError::new(code::BSON_OBJECT_TOO_LARGE, message))
        }
    }
}

fn check_depth(value: RawBsonRef<'_>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        let message = format!("the command is nested more than {DEPTH_MAX} levels deep");
        return Err(CommandError::new(code::OVERFLOW, message));
    }
    let check = |document: &RawDocument| {
        for field in document {
            check_depth(field.map_err(|e| not_bson(&e))?.1, depth + 1)?;
        }
        Ok(())
    };
    match value {
        RawBsonRef::Document(document) => check(document),
        RawBsonRef::JavaScriptCodeWithScope(code) => check(code.scope),
        RawBsonRef::Array(items) => {
            for item in items {
                check_depth(item.map_err(|e| not_bson(&e))?, depth + 1)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn not_bson(error: &bson::error::Error) -> CommandError {
    CommandError::new(
        code::INVALID_BSON,
        format!("the command is not BSON: {error}"),
    )
}

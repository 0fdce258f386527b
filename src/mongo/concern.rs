//! The write concern of a command.

use std::time::Duration;

use bson::Bson;
use storage::{Copies, WriteConcern};

use super::command::{MongoCommand, number};
use super::error::{CommandError, Result, code};

/// The write concern of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Concern {
    pub(super) concern: WriteConcern,
    pub(super) wtimeout: Option<Duration>,
}

impl MongoCommand<'_> {
    /// Returns the write concern that the client asks for; `None` if it asks for none.
    ///
    /// # Errors
    /// If it cannot be understood.
    pub(super) fn concern(&self) -> Result<Option<Concern>> {
        let Some(asked) = self
            .document("writeConcern")?
            .filter(|asked| !asked.is_empty())
        else {
            return Ok(None);
        };
        let wrong = |name: &str| {
            let message = format!("the write concern's '{name}' has the wrong type");
            CommandError::new(code::TYPE_MISMATCH, message)
        };
        let (mut w, mut j, mut wtimeout) = (Copies::AtLeast(1), false, None);
        for (name, value) in asked {
            match (name.as_str(), value) {
                ("w", Bson::String(mode)) if mode == "majority" => w = Copies::Majority,
                ("w", Bson::String(mode)) => {
                    let message = format!(
                        "the write concern '{mode}' is not known; ask for w=1 or w=majority"
                    );
                    return Err(CommandError::new(code::UNKNOWN_REPL_WRITE_CONCERN, message));
                }
                ("w", value) => {
                    let copies = number(value).and_then(|copies| u32::try_from(copies).ok());
                    w = match copies.ok_or_else(|| wrong("w"))? {
                        0 => Copies::None,
                        copies => Copies::AtLeast(copies),
                    };
                }
                ("j" | "fsync", Bson::Boolean(synced)) => j |= synced,
                ("j" | "fsync", value) => {
                    j |= number(value).ok_or_else(|| wrong(name))? != 0;
                }
                ("wtimeout" | "wtimeoutMS", value) => {
                    let ms = number(value).ok_or_else(|| wrong(name))?;
                    let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
                    wtimeout = ms.map(Duration::from_millis);
                }
                ("provenance", _) => {}
                (name, _) => {
                    let message = format!("the write concern has the unknown field '{name}'");
                    return Err(CommandError::new(code::UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(Some(Concern {
            concern: WriteConcern { w, j },
            wtimeout,
        }))
    }
}

//! The frames of an answer between peers: a byte for the kind, the length as a little-endian `u32`,
//! the payload.
//!
//! The last frame is [`Frame::End`] or [`Frame::Failed`]; an answer that ends without one of them
//! was cut off.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use datafusion::common::DataFusionError;
use prost::Message;
use storage::{Section, TileImage};

use crate::error::{Error, Fault, Result};

/// Most bytes of a frame.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// A frame of an answer.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Bytes of a stream of Arrow's IPC format.
    Rows(Bytes),
    /// A tile file with the cells of one level.
    Cells(TileImage),
    /// The error that ended the answer.
    Failed(Error),
    End,
}

#[derive(Clone, PartialEq, Message)]
struct TileMessage {
    /// The sections, as the manifest has them in JSON.
    #[prost(string, tag = "1")]
    sections: String,
    #[prost(bytes = "bytes", tag = "2")]
    file: Bytes,
    #[prost(uint64, tag = "3")]
    events: u64,
}

impl TileMessage {
    fn of(image: TileImage) -> Self {
        let sections = serde_json::to_string(&image.sections);
        Self {
            sections: sections.expect("BUG: sections are JSON in each manifest"),
            file: image.bytes.into(),
            events: image.events,
        }
    }

    fn image(self) -> serde_json::Result<TileImage> {
        let sections: Vec<Section> = serde_json::from_str(&self.sections)?;
        Ok(TileImage {
            bytes: self.file.into(),
            sections,
            events: self.events,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct FailedMessage {
    #[prost(enumeration = "FailedKind", tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, optional, tag = "3")]
    hint: Option<String>,
    /// Place of the fault in [`FAULTS`].
    #[prost(uint32, tag = "4")]
    fault: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
enum FailedKind {
    Other = 0,
    Invalid = 1,
    Resources = 2,
}

/// Faults in the order of their numbers on the wire.
const FAULTS: [Fault; 13] = [
    Fault::Other,
    Fault::Syntax,
    Fault::NoTable,
    Fault::NoColumn,
    Fault::AmbiguousColumn,
    Fault::NoFunction,
    Fault::WrongType,
    Fault::DivisionByZero,
    Fault::OutOfRange,
    Fault::BadText,
    Fault::NotSupported,
    Fault::ReadOnly,
    Fault::BadParameter,
];

impl Frame {
    pub(crate) fn encode(self) -> Bytes {
        let (kind, payload) = match self {
            Self::Rows(bytes) => (1, bytes),
            Self::Cells(image) => (2, TileMessage::of(image).encode_to_vec().into()),
            Self::Failed(error) => (3, failed(&error).encode_to_vec().into()),
            Self::End => (4, Bytes::new()),
        };
        let mut frame = BytesMut::with_capacity(5 + payload.len());
        frame.put_u8(kind);
        let length = u32::try_from(payload.len());
        frame.put_u32_le(length.expect("BUG: a frame of 4 GiB"));
        frame.put(payload);
        frame.freeze()
    }
}

fn failed(error: &Error) -> FailedMessage {
    let kind = match error {
        Error::Invalid { .. } => FailedKind::Invalid,
        Error::Resources(_) | Error::Limit { .. } => FailedKind::Resources,
        _ => FailedKind::Other,
    };
    let fault = error.fault().unwrap_or_default();
    let fault = FAULTS.iter().position(|known| *known == fault);
    FailedMessage {
        kind: kind.into(),
        message: error.message(),
        hint: error.hint().map(str::to_owned),
        fault: fault.and_then(|at| u32::try_from(at).ok()).unwrap_or(0),
    }
}

/// Reads frames from the bytes of an answer, in whatever pieces they come.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pending: BytesMut,
}

impl Frames {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None` until more bytes come. `peer` is the address for errors.
    ///
    /// # Errors
    /// [`Error::Peer`] for bytes that are no frame.
    pub(crate) fn next(&mut self, peer: &str) -> Result<Option<Frame>> {
        let refused = |why: &str| Error::Peer {
            peer: peer.to_owned(),
            why: format!("its answer is not readable: {why}"),
        };
        let Some((head, rest)) = self.pending.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let kind = head[0];
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(refused("a frame of more than 1 GiB"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.pending.advance(5);
        let payload = self.pending.split_to(length).freeze();
        Ok(Some(match kind {
            1 => Frame::Rows(payload),
            2 => {
                let message = TileMessage::decode(payload);
                let message = message.map_err(|e| refused(&e.to_string()))?;
                Frame::Cells(message.image().map_err(|e| refused(&e.to_string()))?)
            }
            3 => {
                let message = FailedMessage::decode(payload);
                let message = message.map_err(|e| refused(&e.to_string()))?;
                Frame::Failed(error_of(message, peer))
            }
            4 => Frame::End,
            _ => return Err(refused("a frame of an unknown kind")),
        }))
    }
}

fn error_of(failed: FailedMessage, peer: &str) -> Error {
    let fault = FAULTS.get(failed.fault as usize).copied();
    match failed.kind() {
        FailedKind::Invalid => Error::Invalid {
            message: failed.message,
            hint: failed.hint,
            fault: fault.unwrap_or_default(),
        },
        FailedKind::Resources => Error::Resources(format!("peer {peer}: {}", failed.message)),
        FailedKind::Other => Error::Peer {
            peer: peer.to_owned(),
            why: failed.message,
        },
    }
}

/// Returns the error of an answer that ended without its last frame.
pub(crate) fn cut_off(peer: &str) -> DataFusionError {
    let peer = peer.to_owned();
    let why = "its answer was cut off".to_owned();
    Error::Peer { peer, why }.into()
}

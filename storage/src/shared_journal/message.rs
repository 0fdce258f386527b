//! The encoding of messages of a shared journal.
//!
//! # Byte layout (little-endian)
//! ```text
//! message = 0 magic "LMSJ"      4 u32 crc32c of bytes 8..   8 u8 layout = 1
//!           9 u8 type: 0 fence, 1 group, 2 resumption     10 u16 zero
//!          12 u32 epoch of the writer                      16 u64 number, rising in the epoch
//!          24 store id, 32 hex digits                      56 payload
//! fence   = u32 rules, 16 bytes nonce, then the name of the writer's machine in UTF-8
//! group   = u32 records, then each: u32 length, the record (`record.rs`) as it is before the
//!           columns of its stream are fitted
//! resumption = nothing
//! ```

use std::str;

use bytes::Bytes;

const MAGIC: [u8; 4] = *b"LMSJ";
const LAYOUT: u8 = 1;
const HEAD: usize = 56;
const FENCE: u8 = 0;
const GROUP: u8 = 1;
const RESUMPTION: u8 = 2;
/// Bytes of a fence before the name of the machine.
const FENCE_BYTES: usize = 20;
/// Bytes of a group beside its records, and of each record beside its payload.
pub(crate) const GROUP_BYTES: usize = HEAD + 4;
pub(crate) const RECORD_BYTES: usize = 4;

/// A message of a shared journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalMessage {
    pub(crate) crc: u32,
    pub(crate) epoch: u32,
    pub(crate) number: u64,
    pub(crate) payload: Payload,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A writer has taken over.
    Fence(Fence),
    /// Encoded records.
    Group(Vec<Bytes>),
    /// The numbers go on here, behind messages that were lost.
    Resumption,
}

/// The beginning of a writer's epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Number of the rules by which batches are decided from here on.
    pub(crate) rules: u32,
    /// Random number of the start that appended it.
    pub(crate) nonce: u128,
    /// Name of the writer's machine, for messages.
    pub(crate) host: String,
}

/// Writer, number and store of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageHead<'a> {
    pub(crate) epoch: u32,
    pub(crate) number: u64,
    pub(crate) store_id: &'a str,
}

pub(crate) fn encode_fence(head: MessageHead<'_>, fence: &Fence) -> Vec<u8> {
    let mut bytes = begin(head, FENCE, FENCE_BYTES + fence.host.len());
    bytes.extend_from_slice(&fence.rules.to_le_bytes());
    bytes.extend_from_slice(&fence.nonce.to_le_bytes());
    bytes.extend_from_slice(fence.host.as_bytes());
    finish(bytes)
}

pub(crate) fn encode_resumption(head: MessageHead<'_>) -> Vec<u8> {
    finish(begin(head, RESUMPTION, 0))
}

pub(crate) fn encode_group<'r>(
    head: MessageHead<'_>,
    records: impl ExactSizeIterator<Item = &'r [u8]> + Clone,
) -> Vec<u8> {
    let len: usize = records.clone().map(|r| RECORD_BYTES + r.len()).sum();
    let mut bytes = begin(head, GROUP, 4 + len);
    bytes.extend_from_slice(&length(records.len()));
    for record in records {
        bytes.extend_from_slice(&length(record.len()));
        bytes.extend_from_slice(record);
    }
    finish(bytes)
}

fn length(of: usize) -> [u8; 4] {
    u32::try_from(of)
        .expect("BUG: a message is smaller than 4 GiB")
        .to_le_bytes()
}

fn begin(head: MessageHead<'_>, kind: u8, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + payload);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[LAYOUT, kind, 0, 0]);
    bytes.extend_from_slice(&head.epoch.to_le_bytes());
    bytes.extend_from_slice(&head.number.to_le_bytes());
    bytes.extend_from_slice(head.store_id.as_bytes());
    debug_assert_eq!(bytes.len(), HEAD, "BUG: a store id has 32 digits");
    bytes
}

fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

impl JournalMessage {
    /// Decodes a message of the store with this id; `None` if it is somebody else's.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn decode(bytes: &Bytes, store_id: &str) -> Result<Option<Self>, String> {
        if !has_head(bytes) || &bytes[24..HEAD] != store_id.as_bytes() {
            return Ok(None);
        }
        let crc = u32_at(bytes, 4);
        if crc32c::crc32c(&bytes[8..]) != crc {
            return Err("its checksum is wrong".into());
        }
        if bytes[8] != LAYOUT {
            return Err(format!(
                "its layout is {}, which a newer version of Logmill has written",
                bytes[8]
            ));
        }
        let payload = match bytes[9] {
            FENCE => Payload::Fence(fence(&bytes[HEAD..])?),
            GROUP => Payload::Group(group(bytes)?),
            RESUMPTION if bytes.len() == HEAD => Payload::Resumption,
            other => return Err(format!("its type is {other}")),
        };
        Ok(Some(Self {
            crc,
            epoch: u32_at(bytes, 12),
            number: u64::from_le_bytes(bytes[16..24].try_into().expect("BUG: eight bytes")),
            payload,
        }))
    }
}

fn has_head(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD && bytes[..4] == MAGIC
}

/// Returns the checksum of a message, whoever wrote it.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    match has_head(bytes) {
        true => u32_at(bytes, 4),
        false => crc32c::crc32c(bytes),
    }
}

fn fence(bytes: &[u8]) -> Result<Fence, String> {
    if bytes.len() < FENCE_BYTES {
        return Err("its fence is cut".into());
    }
    let host = str::from_utf8(&bytes[FENCE_BYTES..])
        .map_err(|e| format!("the name of its writer: {e}"))?;
    Ok(Fence {
        rules: u32_at(bytes, 0),
        nonce: u128::from_le_bytes(bytes[4..FENCE_BYTES].try_into().expect("BUG: 16 bytes")),
        host: host.to_owned(),
    })
}

fn group(bytes: &Bytes) -> Result<Vec<Bytes>, String> {
    let cut = || "its group is cut".to_owned();
    let mut at = GROUP_BYTES;
    if bytes.len() < at {
        return Err(cut());
    }
    let count = u32_at(bytes, HEAD);
    let mut records = Vec::new();
    for _ in 0..count {
        let from = at + RECORD_BYTES;
        if bytes.len() < from {
            return Err(cut());
        }
        at = from + u32_at(bytes, at) as usize;
        if bytes.len() < at {
            return Err(cut());
        }
        records.push(bytes.slice(from..at));
    }
    match at == bytes.len() {
        true => Ok(records),
        false => Err(format!("{} extra bytes at its end", bytes.len() - at)),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("BUG: four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "0123456789abcdef0123456789abcdef";
    const OF: MessageHead<'_> = MessageHead {
        epoch: 7,
        number: 9,
        store_id: STORE,
    };

    fn decoded(bytes: Vec<u8>) -> Result<JournalMessage, String> {
        JournalMessage::decode(&bytes.into(), STORE)?.ok_or_else(|| "of another".to_owned())
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let fence = Fence {
            rules: 3,
            nonce: 1 << 99,
            host: "web-1".into(),
        };
        let read = decoded(encode_fence(OF, &fence)).expect("a fence");
        assert_eq!((read.epoch, read.number), (7, 9));
        assert_eq!(read.payload, Payload::Fence(fence));
        let read = decoded(encode_resumption(OF)).expect("a resumption");
        assert_eq!(read.payload, Payload::Resumption);
        for records in [vec![], vec![&b"one"[..]], vec![&b""[..], b"two", b"three"]] {
            let read = decoded(encode_group(OF, records.iter().copied())).expect("a group");
            let expected = records.into_iter().map(Bytes::from_static).collect();
            assert_eq!(read.payload, Payload::Group(expected));
        }
    }

    #[test]
    fn a_message_that_is_not_whole_is_refused() {
        let whole = encode_group(OF, [&b"one"[..], b"two"].into_iter());
        for len in 0..whole.len() {
            assert!(decoded(whole[..len].to_vec()).is_err(), "{len}");
            let mut sealed = whole[..len].to_vec();
            if len >= HEAD {
                let crc = crc32c::crc32c(&sealed[8..]);
                sealed[4..8].copy_from_slice(&crc.to_le_bytes());
                assert!(decoded(sealed).is_err(), "{len} with its checksum");
            }
        }
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert!(decoded(wrong).is_err(), "{at}");
        }
        let other = STORE.replace('0', "f");
        assert_eq!(JournalMessage::decode(&whole.into(), &other), Ok(None));
    }
}

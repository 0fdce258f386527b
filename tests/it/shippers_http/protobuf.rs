//! Messages of protobuf and bodies of snappy, written by the few rules that they need.
//!
//! Source: protobuf's "Encoding" and snappy's `format_description.txt`.

/// A field: its number, its wire type and its bytes.
pub(super) struct Field(pub(super) u8, pub(super) (u8, Vec<u8>));

fn base128(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

pub(super) fn varint(number: i64) -> (u8, Vec<u8>) {
    (0, base128(number.cast_unsigned()))
}

pub(super) fn fixed64(number: i64) -> (u8, Vec<u8>) {
    (1, number.to_le_bytes().to_vec())
}

pub(super) fn bytes(bytes: &[u8]) -> (u8, Vec<u8>) {
    let mut written = base128(bytes.len() as u64);
    written.extend_from_slice(bytes);
    (2, written)
}

pub(super) fn message(fields: &[Field]) -> Vec<u8> {
    let mut written = Vec::new();
    for Field(number, (wire_type, bytes)) in fields {
        written.push(number << 3 | wire_type);
        written.extend_from_slice(bytes);
    }
    written
}

/// Returns a body of snappy that is one literal.
pub(super) fn snappy(body: &[u8]) -> Vec<u8> {
    let mut written = base128(body.len() as u64);
    let length = u32::try_from(body.len() - 1).expect("a short body");
    // Four bytes of length follow the tag.
    written.push(63 << 2);
    written.extend_from_slice(&length.to_le_bytes());
    written.extend_from_slice(body);
    written
}

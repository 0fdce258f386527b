//! The few messages that `arrow-flight` leaves to Protocol Buffers' own library
//! (its documentation, "Encoding").

use arrow_flight::sql::{Any, ProstMessageExt};

/// The wire type of texts, bytes and messages.
const LENGTH_DELIMITED: u64 = 2;

/// Encodes a message within an `Any`, as tickets have it.
pub(super) fn any_bytes<M: ProstMessageExt>(message: &M) -> Vec<u8> {
    let Any { type_url, value } = message.as_any();
    let mut out = Vec::with_capacity(type_url.len() + value.len() + 16);
    put_bytes(&mut out, 1, type_url.as_bytes());
    put_bytes(&mut out, 2, &value);
    out
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_number(out, field << 3 | LENGTH_DELIMITED);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use arrow_flight::sql::TicketStatementQuery;

    use super::*;

    #[test]
    fn a_message_is_encoded_as_protocol_buffers_says() {
        let ticket = TicketStatementQuery {
            statement_handle: vec![b'x'; 200].into(),
        };
        let bytes = any_bytes(&ticket);
        let url = "type.googleapis.com/arrow.flight.protocol.sql.TicketStatementQuery";
        let mut expected = vec![0x0a, url.len() as u8];
        expected.extend(url.as_bytes());
        // The value: field 2 of 203 bytes, which are field 1 of 200 bytes.
        expected.extend([0x12, 0xcb, 0x01, 0x0a, 0xc8, 0x01]);
        expected.extend([b'x'; 200]);
        assert_eq!(bytes, expected);
    }
}

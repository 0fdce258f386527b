//! Records of the journal: any bytes, since the checksum belongs to their group.

use super::Record;

/// Reads a journal record. One that is accepted is encoded to bytes that are read as the same
/// record, and each of its items gets a sequence number.
pub fn journal_record(bytes: &[u8]) {
    let Ok(record) = Record::decode(bytes) else {
        return;
    };
    let encoded = record.encode();
    let again = Record::decode(&encoded).expect("an encoded record is read");
    assert_eq!(again.encode(), encoded);
    assert_eq!(again.identity, record.identity);
    let (events, quarantined) = record.sequence(1);
    assert_eq!(events.len(), record.events.num_rows());
    assert_eq!(quarantined.len(), record.quarantine.num_rows());
    assert_eq!((events.len() + quarantined.len()) as u64, record.items());
}

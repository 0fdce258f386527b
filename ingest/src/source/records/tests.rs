use proptest::prelude::*;

use super::*;

/// Builds a list of pairs, each a record and perhaps its sender.
fn records(pairs: &[(Vec<u8>, Option<u8>)]) -> Records {
    let mut records = Records::default();
    for (record, sender) in pairs {
        match sender {
            Some(sender) => records.push_from(&Arc::from(sender.to_string()), record),
            None => records.push(record),
        }
    }
    records
}

fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Option<u8>)>> {
    let record = proptest::collection::vec(any::<u8>(), 0..4);
    proptest::collection::vec((record, proptest::option::of(0..3_u8)), 0..12)
}

proptest! {
    #[test]
    fn appended_lists_have_each_record_with_its_sender(first in pairs(), second in pairs()) {
        let mut all = records(&first);
        all.append(&records(&second));
        let read: Vec<_> = all
            .items(7)
            .map(|item| (item.bytes.to_vec(), item.sender.map(|sender| sender.to_string())))
            .collect();
        let both = first.iter().chain(&second);
        let expected: Vec<_> = both
            .map(|(record, sender)| (record.clone(), sender.map(|sender| sender.to_string())))
            .collect();
        prop_assert_eq!(read, expected);
    }
}

use proptest::prelude::*;

use super::*;
use crate::identity::journal_time::{KEY_AGE_US, WITNESSES};
use crate::identity::{Identities, still_needed};
use crate::model::Ack;

const HOUR_US: i64 = 3_600_000_000;

/// Keys of a small set, each with a stamp that is now and then far off.
fn records() -> impl Strategy<Value = Vec<(u8, i64)>> {
    let step = prop_oneof![
        4 => 0..2 * HOUR_US,
        1 => -40 * HOUR_US..40 * HOUR_US,
        1 => Just(400 * KEY_AGE_US),
        1 => Just(-400 * KEY_AGE_US),
    ];
    let record = (0..60_u8, step);
    proptest::collection::vec(record, 0..150).prop_map(|records| {
        let timed = records.into_iter().enumerate();
        timed
            .map(|(nth, (key, off))| (key, nth as i64 * HOUR_US + off))
            .collect()
    })
}

fn identity(key: u8) -> Identity {
    Identity::Key {
        key: key.to_string(),
        body_hash: 7,
    }
}

fn entry(number: usize, (key, received_us): (u8, i64)) -> Entry {
    let ack = Ack {
        accepted: 1,
        quarantined: 0,
        first_seq: Some(number as u64),
        last_seq: Some(number as u64),
        duplicate: false,
        shard: None,
    };
    Entry::new(identity(key), &ack, received_us)
}

/// Decides about records in groups of these sizes, and returns the answers. The entries of the
/// first copies go to `journal`.
fn decide(
    remembered: &mut Identities,
    records: &[(u8, i64)],
    sizes: &[usize],
    journal: &mut Vec<Entry>,
) -> Vec<Option<Ack>> {
    let mut sizes = sizes.iter().copied().cycle();
    let (mut rest, mut answers) = (records, Vec::new());
    while !rest.is_empty() {
        let (records, later) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        let mut group = GroupIdentities::after(remembered);
        let first = journal.len();
        for record in records {
            let answer = remembered.known(&identity(record.0), &group);
            let answer = answer.expect("the bodies are equal");
            if answer.is_none() {
                let entry = entry(journal.len(), *record);
                group.add(entry.clone());
                journal.push(entry);
            }
            answers.push(answer);
        }
        for entry in &journal[first..] {
            remembered.remember(entry.identity.clone(), &entry.ack(), entry.received_us);
        }
        rest = later;
    }
    answers
}

proptest! {
    #[test]
    fn how_records_are_grouped_decides_nothing(
        records in records(),
        sizes in proptest::collection::vec(1..30_usize, 1..5),
    ) {
        let (mut one, mut many) = (Vec::new(), Vec::new());
        let singly = decide(&mut Identities::default(), &records, &[1], &mut one);
        let grouped = decide(&mut Identities::default(), &records, &sizes, &mut many);
        prop_assert_eq!(singly, grouped);
        prop_assert_eq!(one, many);
    }

    #[test]
    fn checkpoints_and_their_merges_lead_to_the_state_of_running_on(
        records in records(),
        cuts in proptest::collection::vec(0..40_usize, 1..5),
    ) {
        let mut running = Identities::default();
        let mut recovered = Identities::default();
        let (mut journal, mut files, mut rest) = (Vec::new(), Vec::new(), &records[..]);
        for size in cuts.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(size.min(rest.len()));
            let first = journal.len();
            let answers = decide(&mut running, now, &[3], &mut journal);
            // A program that starts from the checkpoint decides as the one that runs on.
            let mut numbered = journal[..first].to_vec();
            let again = decide(&mut recovered, now, &[1], &mut numbered);
            prop_assert_eq!(answers, again);
            files.extend(running.take_fresh());
            files = still_needed(files);
            recovered = Identities::default();
            files.iter().for_each(|entry| recovered.apply(entry.clone()));
            rest = later;
        }
        prop_assert_eq!(running.into_entries(), recovered.into_entries());
    }

    #[test]
    fn as_many_keys_as_allowed_are_remembered_and_read_back(
        records in records(),
        keys_max in WITNESSES as u64..40,
    ) {
        let mut keys = Keys::new(keys_max);
        for (nth, record) in records.into_iter().enumerate() {
            keys.add(entry(nth, (u8::try_from(nth).expect("few"), record.1)));
            prop_assert!(keys.entries.len() as u64 <= keys_max);
            prop_assert_eq!(keys.numbers.len(), keys.entries.len());
            let mut read = Keys::new(keys_max);
            keys.clone().into_entries().for_each(|entry| read.add(entry));
            prop_assert!(read.into_entries().eq(keys.clone().into_entries()));
        }
    }
}

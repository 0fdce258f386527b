use super::journal_time::{KEY_AGE_US, WITNESSES};
use super::*;

fn entry(identity: Identity, received_us: i64) -> Entry {
    Entry {
        identity,
        accepted: 1,
        quarantined: 0,
        first_seq: 0,
        received_us,
        since_us: None,
    }
}

fn range(producer: &str, from: u64) -> Identity {
    Identity::Range {
        producer: producer.into(),
        from,
        to: from + 1,
        content: 7,
    }
}

fn key(key: &str) -> Identity {
    Identity::Key {
        key: key.into(),
        body_hash: 7,
    }
}

fn ask(remembered: &Identities, identity: &Identity) -> Result<Option<Ack>> {
    remembered.known(identity, &GroupIdentities::after(remembered))
}

#[test]
fn a_merged_checkpoint_keeps_each_producers_last_answers_and_todays_keys() {
    let last = ANSWERS_MAX as u64 + 9;
    let mut entries = vec![entry(key("yesterday's"), 0), entry(range("idle", 3), 0)];
    entries.extend((0..=last).map(|from| entry(range("busy", from), 1)));
    let old = (0..WITNESSES).map(|n| entry(key(&format!("old {n}")), 0));
    entries.extend(old);
    let new = (0..WITNESSES).map(|n| entry(key(&format!("new {n}")), KEY_AGE_US + 1));
    entries.extend(new);
    entries.push(entry(key("today's"), KEY_AGE_US + 1));
    let kept = still_needed(entries);
    // Half of the old keys begin to age with the new ones.
    assert_eq!(
        kept.len(),
        ANSWERS_MAX + 1 + WITNESSES / 2 + 1 + WITNESSES + 1
    );
    let mut known = Identities::default();
    for entry in kept {
        known.apply(entry);
    }
    let ask = |identity: &Identity| ask(&known, identity);
    assert!(ask(&key("yesterday's")).expect("asked").is_none());
    assert!(ask(&key("old 6")).expect("asked").is_none());
    let answered = |identity: &Identity| ask(identity).expect("asked").expect("known").accepted;
    assert_eq!(answered(&key("old 7")), 1);
    assert_eq!(answered(&key("today's")), 1);
    assert_eq!(answered(&range("idle", 3)), 1);
    assert_eq!(answered(&range("busy", last)), 1);
    assert_eq!(answered(&range("busy", last - ANSWERS_MAX as u64 + 1)), 1);
    // The batch is known to be stored; its counts are forgotten.
    assert_eq!(answered(&range("busy", 0)), 0);
}

#[test]
fn a_merged_checkpoint_forgets_nothing_that_is_settled() {
    let settles = |items: [u64; 2], how| {
        let items = Ranges::of(items);
        entry(Identity::Settles { items, how }, 0)
    };
    let kept = still_needed(vec![
        settles([1, 3], Settlement::Replayed),
        settles([4, 9], Settlement::Dropped),
        entry(key("today's"), 10 * KEY_AGE_US),
        settles([2, 7], Settlement::Replayed),
    ]);
    assert_eq!(kept.len(), 3);
    let mut known = Identities::default();
    kept.into_iter().for_each(|entry| known.apply(entry));
    let settled = |how| known.settled().items(how).clone();
    assert_eq!(settled(Settlement::Replayed), Ranges::of([1, 2, 3, 7]));
    assert_eq!(settled(Settlement::Dropped), Ranges::of([4, 9]));
}

#[test]
fn the_same_range_with_other_content_is_refused() {
    let mut known = Identities::default();
    known.apply(entry(range("p", 0), 0));
    let Identity::Range {
        producer, from, to, ..
    } = range("p", 0)
    else {
        unreachable!("a range")
    };
    let other = Identity::Range {
        producer,
        from,
        to,
        content: 8,
    };
    let refused = ask(&known, &other).expect_err("refused");
    assert!(matches!(refused, Error::KeyReused { .. }), "{refused}");
    assert!(refused.to_string().contains("p 0..1"), "{refused}");
}

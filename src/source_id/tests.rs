use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

/// A store that another process fills as well.
#[derive(Default)]
struct Memory(RefCell<BTreeMap<String, Vec<SourcePosition>>>);

impl SourceMemory for Memory {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.0.borrow();
        let names = names.keys().filter(|name| name.starts_with(prefix));
        Ok(names.cloned().collect())
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        Ok(self.0.borrow().get(producer).cloned().unwrap_or_default())
    }
}

#[test]
fn a_claimed_name_hides_no_range_that_another_process_stored_under_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("a.log");
    let content = b"first line\nsecond line\n";
    std::fs::write(&path, content).expect("a file");
    let memory = Memory::default();
    let producers = Producers::of_files(&memory, "access", "").expect("a list");
    let mut producers = producers.of_growing();
    let mut find = |others: &OtherProducers| {
        let origin = Origin::File(path.clone(), std::sync::Arc::default());
        let found = producers.find_besides(&memory, (origin, &Format::Auto), false, others);
        let found = found.expect("a source");
        (found.producer.expect("a producer"), found.from)
    };
    let (name, from) = find(&OtherProducers::default());
    assert_eq!(from, 0);
    let others = |sent: &[&String], claimed: &[&String]| OtherProducers {
        sent: sent.iter().map(|name| (*name).clone()).collect(),
        claimed: claimed.iter().map(|name| (*name).clone()).collect(),
    };
    let second = (format!("{name}#2"), 0);
    assert_eq!(find(&others(&[], &[&name])), second);
    // A request of a shipper that was killed arrives; the list was read before.
    let stored = SourcePosition {
        to: content.len() as u64,
        content: xxh3_64(content),
    };
    memory.0.borrow_mut().insert(name.clone(), vec![stored]);
    assert_eq!(find(&others(&[], &[&name])), (name.clone(), stored.to));
    // The ranges of another file of this process are not those of this one.
    assert_eq!(find(&others(&[&name], &[])), second);
}

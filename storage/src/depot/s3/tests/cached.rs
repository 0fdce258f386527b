use std::path::Path as FsPath;

use super::super::cache::BLOCK_BYTES;
use super::*;

const DISK: u64 = 68 << 20;

/// Returns the settings of a small cache.
pub(super) fn settings(folder: &FsPath) -> CacheSettings {
    CacheSettings {
        folder: folder.join("cache"),
        memory_bytes: 64 << 20,
        disk_bytes: DISK,
    }
}

/// Stores an object, and reads it once through the cache.
fn warmed(store: &Arc<InMemory>, settings: &CacheSettings, len: usize) -> (S3Depot, Bytes) {
    let (depot, bytes) = (depot(store, Some(settings.clone())), sample(len));
    depot.put("a", Content::Bytes(&bytes)).unwrap();
    let read = depot.get("a", &one(0..len as u64)).unwrap();
    assert!(read == [bytes.clone()]);
    (depot, bytes)
}

/// Removes the object behind the depot's back: only the cache has it then.
fn remove(store: &Arc<InMemory>) {
    depot(store, None).delete(&["a".into()]).unwrap();
}

fn files(settings: &CacheSettings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for layout in std::fs::read_dir(&settings.folder).unwrap() {
        let layout = layout.unwrap().path();
        if layout.is_dir() {
            let files = std::fs::read_dir(layout).unwrap();
            found.extend(files.map(|file| file.unwrap().path()));
        }
    }
    found
}

#[test]
fn a_second_read_asks_nothing() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let settings = settings(folder.path());
    let (depot, bytes) = warmed(&store, &settings, (9 << 20) + 12345);
    remove(&store);
    compare_ranges(&depot, "a", &bytes);
    let end = bytes.len() as u64;
    let error = depot.get("a", &one(end..end + 1));
    assert_eq!(
        kind(error),
        io::ErrorKind::NotFound,
        "the last block is short: it is asked for"
    );
}

#[test]
fn only_missing_blocks_are_asked_for() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let depot = depot(&store, Some(settings(folder.path())));
    let bytes = sample(6 << 20);
    depot.put("a", Content::Bytes(&bytes)).unwrap();
    let block = |number: u64| number * BLOCK_BYTES + 7..number * BLOCK_BYTES + 9;
    depot.get("a", &[block(1), block(4)]).unwrap();
    // Other bytes under the same name, as no caller would put: they show which blocks are asked
    // for.
    let zeros = Bytes::from(vec![0; bytes.len()]);
    depot.put("a", Content::Bytes(&zeros)).unwrap();
    let [new, old] = [&zeros, &bytes].map(|b| b.slice(7..9));
    let at = |number: u64| bytes.slice(block(number).start as usize..block(number).end as usize);
    let read = depot.get("a", &[0, 1, 2, 4, 5].map(block)).unwrap();
    assert_eq!(read, [new.clone(), at(1), new.clone(), at(4), new]);
    assert_ne!(old, at(1));
}

#[test]
fn blocks_on_disk_outlive_the_process() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    for memory_bytes in [0, 5 << 20, 64 << 20] {
        let settings = CacheSettings {
            memory_bytes,
            ..settings(&folder.path().join(memory_bytes.to_string()))
        };
        let (first, bytes) = warmed(&store, &settings, (9 << 20) + 12345);
        drop(first);
        remove(&store);
        let second = depot(&store, Some(settings.clone()));
        compare_ranges(&second, "a", &bytes);
        drop(second);
        let elsewhere = S3Depot::over(store.clone(), "s3://c", Path::default(), Some(settings));
        assert_eq!(
            kind(elsewhere.unwrap().get("a", &one(0..1))),
            io::ErrorKind::NotFound
        );
    }
}

#[test]
fn blocks_in_memory_alone_do_not() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let settings = CacheSettings {
        disk_bytes: 0,
        ..settings(folder.path())
    };
    let (first, bytes) = warmed(&store, &settings, 3 << 20);
    remove(&store);
    compare_ranges(&first, "a", &bytes);
    drop(first);
    assert!(!settings.folder.exists());
    let second = depot(&store, Some(settings));
    assert_eq!(kind(second.get("a", &one(0..1))), io::ErrorKind::NotFound);
}

#[test]
fn a_damaged_cache_costs_a_request_only() {
    let store = Arc::new(InMemory::new());
    let damages: [fn(&FsPath); 5] = [
        |file| std::fs::write(file, sample(1 << 20)).unwrap(),
        |file| std::fs::write(file, "").unwrap(),
        |file| std::fs::remove_file(file).unwrap(),
        |file| {
            let mut bytes = std::fs::read(file).unwrap();
            bytes.chunks_mut(4096).for_each(|page| page[4000] ^= 1);
            std::fs::write(file, bytes).unwrap();
        },
        |file| {
            let mut bytes = std::fs::read(file).unwrap();
            bytes.rotate_left(4096);
            std::fs::write(file, bytes).unwrap();
        },
    ];
    for damage in damages {
        let folder = TempDir::new().unwrap();
        let settings = settings(folder.path());
        let (first, bytes) = warmed(&store, &settings, (9 << 20) + 12345);
        // While it is open, memory answers; its files are damaged for the second one.
        files(&settings).iter().for_each(|file| damage(file));
        compare_ranges(&first, "a", &bytes);
        drop(first);
        for file in files(&settings) {
            damage(&file);
        }
        let second = depot(&store, Some(settings.clone()));
        compare_ranges(&second, "a", &bytes);
        drop(second);
        remove(&store);
        let third = depot(&store, Some(settings));
        compare_ranges(&third, "a", &bytes);
    }
}

#[test]
fn files_damaged_under_an_open_cache_cost_a_request_only() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let settings = CacheSettings {
        memory_bytes: 0,
        ..settings(folder.path())
    };
    drop(warmed(&store, &settings, 9 << 20));
    let (depot, bytes) = warmed(&store, &settings, 9 << 20);
    for file in files(&settings) {
        std::fs::write(file, sample(1 << 20)).unwrap();
    }
    compare_ranges(&depot, "a", &bytes);
}

#[test]
fn a_forgotten_object_is_asked_for_again() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let (depot, bytes) = warmed(&store, &settings(folder.path()), 3 << 20);
    depot.forget("b");
    remove(&store);
    compare_ranges(&depot, "a", &bytes);
    depot.forget("a");
    assert_eq!(kind(depot.get("a", &one(0..1))), io::ErrorKind::NotFound);
    depot.put("a", Content::Bytes(&bytes)).unwrap();
    compare_ranges(&depot, "a", &bytes);
    remove(&store);
    depot.get("a", &one(0..1)).unwrap();
}

#[test]
fn a_second_process_caches_in_memory() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let settings = settings(folder.path());
    let (_first, bytes) = warmed(&store, &settings, 3 << 20);
    let (second, _) = warmed(&store, &settings, 3 << 20);
    remove(&store);
    compare_ranges(&second, "a", &bytes);
}

#[test]
fn another_capacity_has_other_files() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let small = settings(folder.path());
    drop(warmed(&store, &small, 3 << 20));
    assert_eq!(files(&small).len(), 4);
    let large = CacheSettings {
        disk_bytes: 3 * DISK,
        ..small.clone()
    };
    let own = large.folder.join("notes.txt");
    std::fs::write(&own, "of somebody else").unwrap();
    drop(warmed(&store, &large, 3 << 20));
    assert_eq!(files(&large).len(), 12);
    let bytes: u64 = files(&large)
        .iter()
        .map(|f| f.metadata().unwrap().len())
        .sum();
    assert!((5 * DISK / 2..=3 * DISK).contains(&bytes));
    assert!(own.exists());
}

#[test]
fn wrong_settings_are_named() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let open = |settings| S3Depot::over(store.clone(), URL, Path::default(), Some(settings));
    let few = CacheSettings {
        disk_bytes: 1000,
        ..settings(folder.path())
    };
    let error = open(few).unwrap_err();
    assert!(
        error.contains("1000 bytes on disk are too few; give it 66060288 or more"),
        "{error}"
    );
    let no_folder = folder.path().join("file");
    std::fs::write(&no_folder, "").unwrap();
    let error = open(settings(&no_folder)).unwrap_err();
    assert!(error.contains("correct the folder"), "{error}");
}

/// More blocks than the disk has room for, read twice: whatever was evicted is asked for again.
#[test]
fn a_full_cache_evicts() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let settings = CacheSettings {
        memory_bytes: 3 << 20,
        ..settings(folder.path())
    };
    let (depot, bytes) = warmed(&store, &settings, 100 << 20);
    for start in (0..100 << 20).step_by(10 << 20) {
        let range = start..start + (10 << 20);
        let part = bytes.slice(range.start as usize..range.end as usize);
        assert!(depot.get("a", &[range]).unwrap() == [part]);
    }
    compare_ranges(&depot, "a", &bytes);
}

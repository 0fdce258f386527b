mod answers;
mod cached;

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use tempfile::TempDir;

use super::connect::DepotUrl;
use super::read::{GAP_BYTES, PIECE_BYTES, pieces};
use super::upload::PART_BYTES;
use super::*;
use crate::env::{Fs, FsFile, RealFs};

const URL: &str = "s3://bucket/some/prefix";

fn depot(store: &Arc<InMemory>, cache: Option<CacheSettings>) -> S3Depot {
    S3Depot::over(store.clone(), URL, Path::from("some/prefix"), cache).unwrap()
}

/// Returns bytes that differ from place to place.
fn sample(len: usize) -> Bytes {
    let byte = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    (0..len).map(byte).collect()
}

fn file(folder: &TempDir, bytes: &[u8]) -> Box<dyn FsFile> {
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    RealFs.open_read(&path).unwrap()
}

fn one(range: Range<u64>) -> [Range<u64>; 1] {
    [range]
}

fn kind<T: fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn bytes_and_files_of_all_lengths_come_back() {
    let (store, folder) = (Arc::new(InMemory::new()), TempDir::new().unwrap());
    let depot = depot(&store, None);
    let part = PART_BYTES as usize;
    for len in [0, 1, 1000, part, part + 1, 2 * part, 5 * part + 777] {
        let bytes = sample(len);
        let whole = 0..len as u64;
        depot.put("a/bytes", Content::Bytes(&bytes)).unwrap();
        let read = depot.get("a/bytes", &one(whole.clone())).unwrap();
        assert!(read == std::slice::from_ref(&bytes), "{len}");
        let file = file(&folder, &bytes);
        depot.put("a/file", Content::File(&*file)).unwrap();
        assert!(depot.get("a/file", &[whole]).unwrap() == [bytes], "{len}");
        assert_eq!(depot.list("").unwrap(), ["a/bytes", "a/file"]);
    }
}

#[test]
fn a_file_that_ends_too_early_is_not_stored() {
    #[derive(Debug)]
    struct Shrunk(u64);
    impl FsFile for Shrunk {
        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!()
        }
        fn read_exact_at(&self, _: &mut [u8], offset: u64) -> io::Result<()> {
            match offset {
                0 if self.0 > PART_BYTES => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!()
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!()
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.0)
        }
    }
    let depot = depot(&Arc::new(InMemory::new()), None);
    for len in [5, 3 * PART_BYTES] {
        let error = depot.put("a", Content::File(&Shrunk(len))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(
            error
                .to_string()
                .starts_with("s3://bucket/some/prefix/a: the file cannot be read")
        );
    }
    assert!(depot.list("").unwrap().is_empty());
}

/// Compares ranges within blocks, across them, at the end, empty, repeated and unsorted.
pub(super) fn compare_ranges(depot: &S3Depot, name: &str, bytes: &Bytes) {
    let (len, mib) = (bytes.len() as u64, 1 << 20);
    let ends = [0, 1, mib - 1, mib, mib + 1, 3 * mib, len - 1, len];
    let mut ranges = Vec::new();
    for start in ends.into_iter().rev() {
        for end in ends.into_iter().filter(|end| (start..=len).contains(end)) {
            ranges.push(start..end);
        }
    }
    let cut = |r: &Range<u64>| bytes.slice(r.start as usize..r.end as usize);
    let expected: Vec<Bytes> = ranges.iter().map(cut).collect();
    for (range, expected) in ranges.iter().zip(&expected) {
        let got = depot.get(name, std::slice::from_ref(range)).unwrap();
        assert_eq!(got, std::slice::from_ref(expected), "{range:?}");
    }
    assert!(depot.get(name, &ranges).unwrap() == expected);
    assert!(depot.get(name, &[]).unwrap().is_empty());
}

#[test]
fn ranges_of_all_kinds_are_read() {
    let depot = depot(&Arc::new(InMemory::new()), None);
    for len in [5 << 20, (5 << 20) + 1, (18 << 20) - 1] {
        let bytes = sample(len);
        depot.put("a", Content::Bytes(&bytes)).unwrap();
        compare_ranges(&depot, "a", &bytes);
    }
}

#[test]
fn pieces_cover_ranges_and_are_short() {
    let piece = PIECE_BYTES;
    let ranges = [
        piece..3 * piece + 5,
        9..9,
        10..20,
        10 + GAP_BYTES..11 + GAP_BYTES,
    ];
    let [near, far] = [GAP_BYTES, 3].map(|gap| pieces(&ranges, gap));
    let tail = [
        piece..2 * piece,
        2 * piece..3 * piece,
        3 * piece..3 * piece + 5,
    ];
    assert_eq!(near[0], 10..11 + GAP_BYTES);
    assert_eq!(near[1..], tail);
    assert_eq!(far[..2], [10..20, 10 + GAP_BYTES..11 + GAP_BYTES]);
    assert_eq!(far[2..], tail);
    assert!(pieces(&[], 0).is_empty());
}

#[test]
fn missing_objects_and_short_ones_are_told_apart() {
    let store = Arc::new(InMemory::new());
    let folder = TempDir::new().unwrap();
    for cache in [None, Some(cached::settings(folder.path()))] {
        let depot = depot(&store, cache);
        let bytes = sample(3 << 20);
        depot.put("a", Content::Bytes(&bytes)).unwrap();
        let end = bytes.len() as u64;
        let get = |name, range| depot.get(name, &[0..1, range]);
        assert_eq!(kind(get("b", 0..1)), io::ErrorKind::NotFound);
        assert_eq!(
            kind(get("a", end - 1..end + 1)),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(kind(get("a", end..end + 1)), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            kind(get("a", 9 * end..10 * end)),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(kind(get("../a", 0..1)), io::ErrorKind::InvalidInput);
        let text = get("b", 0..1).unwrap_err().to_string();
        assert!(text.starts_with("s3://bucket/some/prefix/b: "), "{text}");
    }
}

#[test]
fn names_are_listed_by_prefix_and_deleted() {
    let store = Arc::new(InMemory::new());
    let depot = depot(&store, None);
    let requests = DepotThreads::start().unwrap();
    for foreign in ["some/other", "some/prefix2/x", "x"] {
        let (store, path) = (store.clone(), Path::from(foreign));
        let put = async move { store.put(&path, "x".into()).await.map(|_| ()) };
        requests.run(put).unwrap().unwrap();
    }
    let odd = "streams/a b%c+ü/1.part";
    let names = ["manifest/1-a", "manifest/12-b", odd, "streams/a/2.part"];
    for name in names {
        depot.put(name, Content::Bytes(&sample(3))).unwrap();
        assert_eq!(depot.get(name, &one(0..3)).unwrap(), [sample(3)]);
    }
    let listed = |prefix| {
        let mut names = depot.list(prefix).unwrap();
        names.sort_unstable();
        names
    };
    assert_eq!(listed(""), names);
    assert_eq!(listed("manifest/"), names[..2]);
    assert_eq!(listed("manifest/12"), names[1..2]);
    assert_eq!(listed("m"), names[..2]);
    assert_eq!(listed("streams/a b%"), [odd]);
    assert!(listed("none/").is_empty());
    let gone = ["manifest/1-a", "manifest/none", odd].map(str::to_owned);
    depot.delete(&gone).unwrap();
    depot.delete(&gone).unwrap();
    depot.delete(&[]).unwrap();
    assert_eq!(listed(""), [names[1], names[3]]);
    let bare = S3Depot::over(store, "s3://bucket", Path::default(), None).unwrap();
    assert_eq!(bare.list("some/").unwrap().len(), 4);
    assert_eq!(bare.list("").unwrap().len(), 5);
}

#[test]
fn a_folder_below_is_a_depot_of_its_own() {
    let store = Arc::new(InMemory::new());
    let below = depot(&store, None).below("shards/0003");
    let direct = S3Depot::over(store, URL, Path::from("some/prefix/shards/0003"), None).unwrap();
    let one = Bytes::from("one");
    let Swap::Done(tag) = below.swap_current(None, &one).unwrap() else {
        panic!("there was none");
    };
    assert_eq!(direct.load_current().unwrap(), Some((one, tag)));
    assert_eq!(below.url(), format!("{URL}/shards/0003"));
}

#[test]
fn many_objects_are_deleted() {
    let depot = depot(&Arc::new(InMemory::new()), None);
    let names: Vec<String> = (0..2 * DELETE_OBJECTS + 1)
        .map(|i| format!("a/{i}"))
        .collect();
    for name in &names {
        depot.put(name, Content::Bytes(&Bytes::new())).unwrap();
    }
    depot.delete(&names).unwrap();
    assert!(depot.list("").unwrap().is_empty());
}

#[test]
fn current_changes_by_compare_and_swap() {
    let depot = depot(&Arc::new(InMemory::new()), None);
    let (one, two) = (Bytes::from("one"), Bytes::from("two"));
    assert_eq!(depot.load_current().unwrap(), None);
    let nowhere = Tag("7".into());
    assert_eq!(
        depot.swap_current(Some(&nowhere), &one).unwrap(),
        Swap::Refused
    );
    let Swap::Done(first) = depot.swap_current(None, &one).unwrap() else {
        panic!("there was none");
    };
    assert_eq!(depot.load_current().unwrap(), Some((one, first.clone())));
    assert_eq!(depot.swap_current(None, &two).unwrap(), Swap::Refused);
    let Swap::Done(second) = depot.swap_current(Some(&first), &two).unwrap() else {
        panic!("it was as expected");
    };
    assert_eq!(
        depot.swap_current(Some(&first), &two).unwrap(),
        Swap::Refused
    );
    assert_eq!(depot.load_current().unwrap(), Some((two, second)));
}

#[test]
fn a_thread_of_another_runtime_may_call_and_drop_it() {
    let folder = TempDir::new().unwrap();
    for workers in [1, 2] {
        let store = Arc::new(InMemory::new());
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(workers)
            .enable_all()
            .build()
            .unwrap();
        let settings = cached::settings(folder.path());
        let work = move || {
            let depot = depot(&store, Some(settings.clone()));
            depot.put("a", Content::Bytes(&sample(100))).unwrap();
            assert_eq!(
                depot.get("a", &one(3..9)).unwrap(),
                [sample(100).slice(3..9)]
            );
            depot.swap_current(None, &sample(3)).unwrap();
        };
        let spawned = runtime.spawn({
            let work = work.clone();
            async move { work() }
        });
        runtime.block_on(spawned).unwrap();
        runtime.block_on(async move { work() });
    }
}

#[test]
fn addresses_are_read() {
    let place = |url| DepotUrl::parse(url).unwrap();
    let long = place("s3://my.bucket-1/a/b c/");
    assert_eq!(
        (&*long.url, &*long.bucket),
        ("s3://my.bucket-1/a/b c", "my.bucket-1")
    );
    assert_eq!(long.prefix.as_ref(), "a/b c");
    for url in ["s3://b", "s3://b/"] {
        let short = place(url);
        assert_eq!((&*short.url, short.prefix.as_ref()), ("s3://b", ""));
    }
    for (url, why) in [
        ("", "does not begin with s3://"),
        ("https://s3.amazonaws.com/b", "does not begin with s3://"),
        ("S3://b", "does not begin with s3://"),
        ("s3://", "does not name a bucket"),
        ("s3:///a", "does not name a bucket"),
        ("s3://a:9000/b", "does not name a bucket"),
        ("s3://b/x?y=z", "has a ? or #"),
        ("s3://b/x//y", "empty"),
        ("s3://b/../y", ".."),
        ("s3://me:sesame@b/x", "has an @ in it"),
    ] {
        let error = DepotUrl::parse(url).unwrap_err();
        assert!(
            error.contains(why) && error.contains("s3://BUCKET/PREFIX"),
            "{error}"
        );
        assert!(!error.contains("sesame"), "{error}");
    }
    let error = S3Depot::open(S3Settings {
        url: "gs://b".into(),
        cache: None,
    });
    assert!(error.unwrap_err().contains("does not begin with s3://"));
}

#[test]
fn a_depot_shows_no_more_than_its_address() {
    let depot = depot(&Arc::new(InMemory::new()), None);
    assert_eq!(
        format!("{depot:?}"),
        format!("S3Depot {{ url: {URL:?}, .. }}")
    );
    assert_eq!(depot.url(), URL);
}

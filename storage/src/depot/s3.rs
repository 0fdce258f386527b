//! The object store behind the interface of S3: Amazon's own, or another with conditional puts.
//!
//! # Invariants
//! 1. Requests run on threads of the depot. The caller waits on a channel, so it may be a thread of
//!    another runtime.
//! 2. Each request ends within [`REQUEST_MAX`], its retries included.
//! 3. `CURRENT` is read from the object store each time. Other objects never change, so that a
//!    cached block of one is right until its object is deleted.
//! 4. An answer to a compare-and-swap is passed on as it is: a retry inside the client may have
//!    been refused because the attempt before it had succeeded.

mod cache;
mod connect;
mod failure;
mod read;
#[cfg(test)]
mod tests;
mod threads;
mod upload;

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, PutMode, PutOptions, UpdateVersion};

use super::{Content, Depot, Swap, Tag};
use cache::BlockCache;
use failure::{bucket_is_missing, io_error, is_missing};
use threads::DepotThreads;

/// Longest time of one request with its retries: retries begin within 20 seconds, and one attempt
/// may last for 30.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Threads that drive requests. They mostly wait; hashing of what is sent is their only work.
const THREADS: usize = 2;
/// Objects that one request deletes, S3's own limit.
const DELETE_OBJECTS: usize = 1000;
/// Objects that are put at once.
const PUTS: usize = 4;
const CURRENT: &str = "CURRENT";

/// Where an object store keeps sealed files, and how much of them is cached.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`. Credentials, endpoint and region come from the
    /// variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, `AWS_REGION` and
    /// the others of Amazon's clients.
    pub url: String,
    /// The cache, if there is one.
    pub cache: Option<CacheSettings>,
}

/// The cache of blocks that were read from an object store.
#[derive(Debug, Clone)]
pub struct CacheSettings {
    /// Folder of the cache, of one process at a time. It may be removed while nobody uses it.
    pub folder: PathBuf,
    /// Bytes of blocks in memory.
    pub memory_bytes: u64,
    /// Bytes of blocks on disk, 67 million or more; 0 for none.
    pub disk_bytes: u64,
}

/// An object store that is reached by S3's protocol.
pub struct S3Depot {
    url: String,
    prefix: Path,
    store: Arc<dyn ObjectStore>,
    cache: Option<Arc<BlockCache>>,
    requests: Arc<DepotThreads>,
}

// The client of the object store would show its credentials.
impl fmt::Debug for S3Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("S3Depot");
        fields.field("url", &self.url).finish_non_exhaustive()
    }
}

impl S3Depot {
    /// Prepares the client and opens the cache. It sends no request.
    ///
    /// # Errors
    /// A text that names the setting that is wrong and its remedy.
    pub fn open(settings: S3Settings) -> Result<Self, String> {
        let place = connect::DepotUrl::parse(&settings.url)?;
        let store = connect::client(connect::from_env(), &place)?;
        Self::over(Arc::new(store), &place.url, place.prefix, settings.cache)
    }

    /// Opens a depot in any object store. `url` is its address in messages, and distinguishes its
    /// blocks in the cache.
    ///
    /// # Errors
    /// As [`S3Depot::open`].
    pub(crate) fn over(
        store: Arc<dyn ObjectStore>,
        url: &str,
        prefix: Path,
        cache: Option<CacheSettings>,
    ) -> Result<Self, String> {
        let requests = Arc::new(DepotThreads::start()?);
        let cache = match cache {
            Some(settings) => Some(Arc::new(BlockCache::open(&settings, url, &requests)?)),
            None => None,
        };
        Ok(Self {
            url: url.into(),
            prefix,
            store,
            cache,
            requests,
        })
    }

    /// Returns the depot of a folder below, which shares the client and has no cache.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        let parts = folder.split('/').filter(|part| !part.is_empty());
        Self {
            url: format!("{}/{folder}", self.url),
            prefix: parts.fold(self.prefix.clone(), |prefix, part| prefix.join(part)),
            store: Arc::clone(&self.store),
            cache: None,
            requests: Arc::clone(&self.requests),
        }
    }

    fn object(&self, name: &str) -> io::Result<RemoteObject> {
        let address = format!("{}/{name}", self.url);
        let path = Path::parse(format!("{}/{name}", self.prefix))
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{address}: {e}")))?;
        Ok(RemoteObject {
            store: Arc::clone(&self.store),
            path,
            address,
        })
    }

    /// Stores bytes under the condition of `mode`, and returns the new tag if the answer has it.
    fn put_bytes(
        &self,
        object: &RemoteObject,
        bytes: Bytes,
        mode: PutMode,
    ) -> io::Result<object_store::Result<Option<String>>> {
        let object = object.clone();
        self.requests.run(async move {
            let options = PutOptions::from(mode);
            let request = object.store.put_opts(&object.path, bytes.into(), options);
            Ok(limited(request).await?.e_tag)
        })
    }

    fn delete_some(&self, names: &[String]) -> io::Result<()> {
        let mut paths = Vec::new();
        for name in names {
            paths.push(Ok(self.object(name)?.path));
        }
        let store = Arc::clone(&self.store);
        let first = self.requests.run(async move {
            let mut answers = store.delete_stream(stream::iter(paths).boxed()).enumerate();
            loop {
                let next = async { Ok(answers.next().await) };
                match limited(next).await {
                    Ok(None) => return None,
                    Ok(Some((_, Ok(_)))) => {}
                    Ok(Some((_, Err(error)))) if is_missing(&error) => {}
                    Ok(Some((at, Err(error)))) => return Some((at, error)),
                    Err(error) => return Some((0, error)),
                }
            }
        })?;
        match first {
            None => Ok(()),
            Some((at, error)) => {
                let name = names.get(at).map_or("", String::as_str);
                Err(io_error(&format!("{}/{name}", self.url), &error))
            }
        }
    }
}

impl Drop for S3Depot {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.close(&self.requests);
        }
    }
}

impl Depot for S3Depot {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&self, name: &str, content: Content<'_>) -> io::Result<()> {
        let object = self.object(name)?;
        let bytes = match content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::File(file) => match upload::small(&object, file)? {
                Some(bytes) => bytes,
                None => return upload::in_parts(&self.requests, &object, file),
            },
        };
        let stored = self.put_bytes(&object, bytes, PutMode::Overwrite)?;
        stored.map_err(|e| io_error(&object.address, &e))?;
        Ok(())
    }

    fn put_all(&self, objects: &[(&str, Content<'_>)]) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((name, content)) = objects.get(next.fetch_add(1, Ordering::SeqCst)) {
                self.put(name, *content)?;
            }
            Ok(())
        };
        // Each thread waits for the object store nearly all of its time.
        std::thread::scope(|scope| {
            let workers = PUTS.min(objects.len());
            let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let ended = all.into_iter().map(|one| {
                let lost = |_| Err(io::Error::other("a thread that puts objects panicked"));
                one.join().unwrap_or_else(lost)
            });
            ended.fold(Ok(()), Result::and)
        })
    }

    fn get(&self, name: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let (object, ranges) = (self.object(name)?, ranges.to_vec());
        let (cache, name) = (self.cache.clone(), name.to_owned());
        self.requests.run(async move {
            let runs = match cache {
                Some(cache) => cache.read(&object, &name, &ranges).await?,
                None => read::fetch(&object, read::pieces(&ranges, read::GAP_BYTES)).await?,
            };
            read::cut_all(&object, &runs, &ranges)
        })?
    }

    fn delete(&self, names: &[String]) -> io::Result<()> {
        let deleted = names.chunks(DELETE_OBJECTS);
        let first_error = deleted
            .map(|some| self.delete_some(some))
            .find(Result::is_err);
        if let Some(cache) = &self.cache {
            cache.deleted(names);
        }
        first_error.unwrap_or(Ok(()))
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        // The object store lists folders: the rest of the prefix is compared here.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let root = self.object(folder)?;
        let (own, prefix) = (format!("{}/", self.prefix), prefix.to_owned());
        self.requests.run(async move {
            let mut objects = root.store.list(Some(&root.path));
            let mut names = Vec::new();
            while let Some(object) = limited(async { objects.next().await.transpose() })
                .await
                .map_err(|e| io_error(&root.address, &e))?
            {
                let path = object.location.as_ref();
                let name = path.strip_prefix(own.trim_start_matches('/'));
                names.extend(name.filter(|n| n.starts_with(&prefix)).map(str::to_owned));
            }
            Ok(names)
        })?
    }

    fn load_current(&self) -> io::Result<Option<(Bytes, Tag)>> {
        let object = self.object(CURRENT)?;
        self.requests.run(async move {
            let found = limited(async {
                let options = GetOptions::default();
                let got = object.store.get_opts(&object.path, options).await?;
                let tag = got.meta.e_tag.clone();
                Ok((got.bytes().await?, tag))
            });
            match found.await {
                Ok((bytes, Some(tag))) => Ok(Some((bytes, Tag(tag)))),
                Ok((_, None)) => Err(object.no_tag()),
                Err(error) if is_missing(&error) => Ok(None),
                Err(error) => Err(io_error(&object.address, &error)),
            }
        })?
    }

    fn swap_current(&self, expected: Option<&Tag>, content: &Bytes) -> io::Result<Swap> {
        let object = self.object(CURRENT)?;
        let mode = match expected {
            None => PutMode::Create,
            Some(tag) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag.0.clone()),
                version: None,
            }),
        };
        match self.put_bytes(&object, content.clone(), mode)? {
            Ok(Some(tag)) => Ok(Swap::Done(Tag(tag))),
            Ok(None) => Err(object.no_tag()),
            Err(error) if bucket_is_missing(&error) => Err(io_error(&object.address, &error)),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Swap::Refused),
            Err(Error::NotFound { .. }) if expected.is_some() => Ok(Swap::Refused),
            Err(error) => Err(io_error(&object.address, &error)),
        }
    }

    fn forget(&self, name: &str) {
        if let Some(cache) = &self.cache {
            cache.forget(name);
        }
    }

    fn check_conditions(&self) -> io::Result<()> {
        let object = self.object(&format!("probe-{:032x}", rand::random::<u128>()))?;
        let put = |mode| self.put_bytes(&object, Bytes::from_static(b"probe\n"), mode);
        let made = put(PutMode::Create)?;
        made.map_err(|e| io_error(&object.address, &e))?;
        let again = put(PutMode::Create)?;
        let other = put(PutMode::Update(UpdateVersion {
            e_tag: Some("\"00000000000000000000000000000000\"".into()),
            version: None,
        }))?;
        // A writer without these rights could never tidy up.
        self.list("probe-")?;
        self.delete(&[object.name(&self.prefix)])?;
        let is_refused = |answer| {
            matches!(
                answer,
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. })
            )
        };
        if is_refused(again) && is_refused(other) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{}: the object store ignores the conditions of puts, If-Match and If-None-Match, so that two writers could both commit; use one that has them",
            object.address
        )))
    }
}

/// An object, which need not exist.
#[derive(Clone)]
struct RemoteObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// Its address in messages.
    address: String,
}

impl RemoteObject {
    /// Returns its name in a depot.
    fn name(&self, prefix: &Path) -> String {
        let path = self.path.as_ref();
        let name = path.strip_prefix(prefix.as_ref()).unwrap_or(path);
        name.trim_start_matches('/').to_owned()
    }

    fn no_tag(&self) -> io::Error {
        io::Error::other(format!(
            "{}: the answer has no ETag, by which a writer would recognise its commit; use an object store with conditional puts",
            self.address
        ))
    }
}

/// Ends a request that takes longer than [`REQUEST_MAX`].
async fn limited<T>(
    request: impl Future<Output = object_store::Result<T>>,
) -> object_store::Result<T> {
    match tokio::time::timeout(REQUEST_MAX, request).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(Error::Generic {
            store: "S3",
            source: Box::new(io::Error::new(io::ErrorKind::TimedOut, elapsed)),
        }),
    }
}

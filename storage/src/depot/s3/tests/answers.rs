//! Answers of a server that speaks HTTP, by a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use object_store::aws::AmazonS3Builder;
use parking_lot::Mutex;

use super::super::connect;
use super::*;

/// Status, headers and body.
type Answer = (u16, &'static str, String);

/// A request: method, path with query, and headers.
#[derive(Debug, Clone)]
struct Asked {
    line: String,
    headers: String,
}

struct Server {
    endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Starts a server that answers the request of each number, from 0 on.
    fn start(answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (all, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (all, answer) = (all.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut connection = BufReader::new(connection.unwrap());
                    while let Some(request) = receive(&mut connection) {
                        let number = {
                            let mut all = all.lock();
                            all.push(request.clone());
                            all.len() - 1
                        };
                        let (status, headers, body) = answer(number, &request);
                        let len = body.len();
                        let head = format!(
                            "HTTP/1.1 {status} x\r\nContent-Length: {len}\r\n{headers}\r\n"
                        );
                        let connection = connection.get_mut();
                        connection.write_all((head + &body).as_bytes()).unwrap();
                    }
                });
            }
        });
        Self { endpoint, asked }
    }

    fn settings(&self) -> AmazonS3Builder {
        AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_access_key_id("KEYID")
            .with_secret_access_key("sesame")
            .with_token("tokenofsession")
    }

    fn depot(&self) -> S3Depot {
        self.caching(None)
    }

    fn caching(&self, cache: Option<CacheSettings>) -> S3Depot {
        let place = DepotUrl::parse(URL).unwrap();
        let client = connect::client(self.settings(), &place).unwrap();
        S3Depot::over(Arc::new(client), &place.url, place.prefix, cache).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        self.asked
            .lock()
            .iter()
            .map(|asked| asked.line.clone())
            .collect()
    }
}

fn receive(connection: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        connection
            .read_line(&mut line)
            .ok()
            .filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    let len = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; len.map_or(0, |len| len.parse().unwrap())];
    connection.read_exact(&mut body).ok()?;
    let line = head.remove(0).replace(" http/1.1", "");
    Some(Asked {
        line,
        headers: head.join("\n"),
    })
}

fn xml(code: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>It went\nwrong.</Message><CanonicalRequest>tokenofsession</CanonicalRequest></Error>"
    )
}

const TAGGED: &str = "ETag: \"t1\"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";

#[test]
fn a_swap_is_one_conditional_put() {
    let server = Server::start(|_, _| (200, TAGGED, String::new()));
    let (depot, tag) = (server.depot(), Tag("\"t0\"".into()));
    let done = Swap::Done(Tag("\"t1\"".into()));
    assert_eq!(depot.swap_current(None, &sample(9)).unwrap(), done);
    assert_eq!(depot.swap_current(Some(&tag), &sample(9)).unwrap(), done);
    assert_eq!(server.lines(), ["put /bucket/some/prefix/current"; 2]);
    let asked = server.asked.lock();
    assert!(asked[0].headers.contains("if-none-match: *"));
    assert!(asked[1].headers.contains("if-match: \"t0\""));
}

#[test]
fn refusals_are_no_errors_and_outcomes_unknown_are() {
    let tag = Tag("\"t0\"".into());
    for (status, code, refused) in [
        (412, "PreconditionFailed", [true, true]),
        (409, "ConditionalRequestConflict", [true, true]),
        (404, "NoSuchKey", [false, true]),
        (404, "NoSuchBucket", [false, false]),
        (403, "AccessDenied", [false, false]),
        (501, "NotImplemented", [false, false]),
    ] {
        // A conflict of an update is tried again by the client, which takes seconds.
        let modes = if status == 409 { 1 } else { 2 };
        let server = Server::start(move |_, _| (status, "", xml(code)));
        let depot = server.depot();
        for (expected, refused) in [None, Some(&tag)].into_iter().zip(refused).take(modes) {
            match depot.swap_current(expected, &sample(9)) {
                Ok(answer) => assert!(refused && answer == Swap::Refused, "{code}"),
                Err(error) => {
                    assert!(!refused, "{code}");
                    let text = error.to_string();
                    assert!(
                        text.starts_with("s3://bucket/some/prefix/CURRENT: "),
                        "{text}"
                    );
                    assert!(text.ends_with(&format!("{code}: It went wrong.")), "{text}");
                }
            }
        }
    }
}

/// The first attempt may have succeeded: its answer was lost, and the second one is refused.
#[test]
fn a_swap_that_the_client_repeats_may_be_refused() {
    let server = Server::start(|number, _| match number {
        0 => (503, "", xml("SlowDown")),
        _ => (412, "", xml("PreconditionFailed")),
    });
    let answer = server.depot().swap_current(None, &sample(9)).unwrap();
    assert_eq!(answer, Swap::Refused);
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn a_tag_that_is_missing_is_an_error() {
    let headers = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    let server = Server::start(move |_, _| (200, headers, "x".into()));
    let depot = server.depot();
    for text in [
        depot.load_current().unwrap_err().to_string(),
        depot
            .swap_current(None, &sample(9))
            .unwrap_err()
            .to_string(),
    ] {
        assert!(text.contains("ETag"), "{text}");
    }
}

#[test]
fn a_missing_bucket_is_no_empty_store() {
    let server = Server::start(|_, asked| {
        let bucket = asked.line.starts_with("get /bucket/");
        (
            404,
            "",
            xml(if bucket { "NoSuchBucket" } else { "NoSuchKey" }),
        )
    });
    let depot = server.depot();
    let text = depot.load_current().unwrap_err().to_string();
    assert!(text.contains("NoSuchBucket"), "{text}");
    assert_eq!(kind(depot.get("a", &one(0..1))), io::ErrorKind::Other);
    let absent = Server::start(|_, _| (404, "", xml("NoSuchKey"))).depot();
    assert_eq!(absent.load_current().unwrap(), None);
    assert_eq!(kind(absent.get("a", &one(0..1))), io::ErrorKind::NotFound);
}

#[test]
fn errors_show_no_secrets() {
    let server = Server::start(|_, _| (403, "", xml("SignatureDoesNotMatch")));
    let depot = server.depot();
    let names = ["a".to_owned()];
    for error in [
        depot.get("a", &one(0..1)).unwrap_err(),
        depot.put("a", Content::Bytes(&sample(3))).unwrap_err(),
        depot.delete(&names).unwrap_err(),
        depot.list("").unwrap_err(),
        depot.load_current().unwrap_err(),
    ] {
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("SignatureDoesNotMatch: It went wrong."),
            "{text}"
        );
        assert!(
            !text.contains("token") && !text.contains("sesame"),
            "{text}"
        );
    }
    let shown = format!("{depot:?}");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn a_range_behind_the_end_is_an_early_end() {
    let server = Server::start(|_, _| (416, "", xml("InvalidRange")));
    assert_eq!(
        kind(server.depot().get("a", &one(5..6))),
        io::ErrorKind::UnexpectedEof
    );
}

/// Five bytes are all that a block of this object has.
#[test]
fn the_last_block_is_asked_for_in_full_and_is_short() {
    let server = Server::start(|_, asked| {
        assert!(asked.headers.contains("range: bytes=0-65535"), "{asked:?}");
        let headers =
            "Content-Range: bytes 0-4/5\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
        (206, headers, "abcde".into())
    });
    let folder = TempDir::new().unwrap();
    let depot = server.caching(Some(cached::settings(folder.path())));
    for _ in 0..2 {
        assert_eq!(depot.get("a", &[1..3, 0..5]).unwrap(), ["bc", "abcde"]);
    }
    assert_eq!(server.lines().len(), 1);
    assert_eq!(
        kind(depot.get("a", &one(4..6))),
        io::ErrorKind::UnexpectedEof
    );
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn parts_of_a_failed_upload_are_removed() {
    let begun =
        "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
    for failing in ["part", "completion"] {
        let server = Server::start(move |_, asked| match &asked.line[..4] {
            "post" if asked.line.contains("?uploads") => (200, "", begun.into()),
            "put " if failing == "part" => (403, "", xml("AccessDenied")),
            "put " => (200, TAGGED, String::new()),
            "dele" => (204, "", String::new()),
            _ => (403, "", xml("AccessDenied")),
        });
        let folder = TempDir::new().unwrap();
        let file = file(&folder, &sample(2 * PART_BYTES as usize + 5));
        let error = server.depot().put("a", Content::File(&*file));
        assert_eq!(kind(error), io::ErrorKind::PermissionDenied);
        let lines = server.lines();
        assert_eq!(
            lines.last().unwrap(),
            "delete /bucket/some/prefix/a?uploadid=u1",
            "{lines:?}"
        );
    }
}

#[test]
fn errors_of_single_objects_are_errors_of_a_deletion() {
    let body = "<DeleteResult><Deleted><Key>some/prefix/a</Key></Deleted><Error><Key>some/prefix/b</Key><Code>CODE</Code><Message>No.</Message></Error></DeleteResult>";
    for (code, done) in [("NoSuchKey", true), ("AccessDenied", false)] {
        let body = body.replace("CODE", code);
        let server = Server::start(move |_, _| (200, "", body.clone()));
        let deleted = server.depot().delete(&["a".into(), "b".into()]);
        assert_eq!(deleted.is_ok(), done, "{deleted:?}");
        if let Err(error) = deleted {
            assert!(
                error.to_string().starts_with("s3://bucket/some/prefix/b: "),
                "{error}"
            );
        }
    }
}

#[test]
fn an_endpoint_without_encryption_is_on_this_machine() {
    let place = DepotUrl::parse(URL).unwrap();
    let client = |endpoint: &str, allow: Option<bool>| {
        let settings = AmazonS3Builder::new().with_endpoint(endpoint);
        let settings = match allow {
            Some(allow) => settings.with_allow_http(allow),
            None => settings,
        };
        connect::client(settings, &place).map(|_| ())
    };
    for here in [
        "http://127.0.0.1:9000",
        "http://localhost/",
        "http://[::1]:9000",
    ] {
        client(here, None).unwrap();
    }
    client("https://s3.example.com", None).unwrap();
    client("http://s3.example.com", Some(true)).unwrap();
    for there in [
        "http://s3.example.com",
        "http://127.0.0.1.example.com",
        "http://10.0.0.1:80",
    ] {
        let error = client(there, None).unwrap_err();
        assert!(error.contains("AWS_ALLOW_HTTP=true"), "{error}");
        assert!(client(there, Some(false)).is_err());
    }
    assert!(
        client("s3.example.com", None)
            .unwrap_err()
            .contains("does not begin with https://")
    );
    let error = client("http://me:sesame@127.0.0.1", None).unwrap_err();
    assert!(error.contains('@') && !error.contains("sesame"), "{error}");
}

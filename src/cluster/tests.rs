use std::time::Instant;

use axum::body::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use query::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// The behaviour of a server: the bytes of its answer to a request, or silence. It gets the first
/// line of a request, and its body in the next line.
pub(super) type Behaviour = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;
/// The requests that a server got, in the same form.
pub(super) type Heard = Arc<Mutex<Vec<String>>>;

pub(super) fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn state_of(store: &str) -> String {
    state_with(store, "t1", ("v1", Some(PeerTables::default())))
}

fn state_with(store: &str, token: &str, tables: (&str, Option<PeerTables>)) -> String {
    let told = PeerSnapshot {
        token: token.to_owned(),
        store: store.to_owned(),
        end_seq: 0,
        version: tables.0.to_owned(),
        tables: tables.1,
    };
    answer("200 OK", &serde_json::to_string(&told).expect("JSON"))
}

/// Returns a server that tells its state, and answers requests with these bytes.
pub(super) fn peer_with(store: &str, to_requests: Option<&str>) -> Behaviour {
    let (state, to_requests) = (state_of(store), to_requests.map(str::to_owned));
    Box::new(move |line| match line {
        _ if line.contains(SNAPSHOTS) => Some(state.clone()),
        _ if line.contains("/health") => Some(answer("200 OK", "ok\n")),
        _ => to_requests.clone(),
    })
}

/// Reads a request; returns its first line, and its body in the next one.
async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = socket.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&read).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let text = String::from_utf8_lossy(&read);
                let (head, body) = text.split_once("\r\n\r\n")?;
                return Some(format!("{}\n{body}", head.lines().next()?));
            }
        }
    }
}

/// Serves one request on each connection. It stays open unless the answer says that it closes.
pub(super) async fn serve(behaviour: Behaviour) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let heard = Heard::default();
    let (noted, behaviour) = (Arc::clone(&heard), Arc::new(behaviour));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (noted, behaviour) = (Arc::clone(&noted), Arc::clone(&behaviour));
            tokio::spawn(async move {
                let Some(line) = read_request(&mut socket).await else {
                    return;
                };
                let bytes = behaviour(&line);
                noted.lock().push(line);
                let bytes = bytes.unwrap_or_default();
                let _gone = socket.write_all(bytes.as_bytes()).await;
                if !bytes.contains("Connection: close") {
                    // Until the client has gone.
                    let _gone = socket.read(&mut [0]).await;
                }
            });
        }
    });
    (url, heard)
}

fn peers(urls: &[&str]) -> Peers {
    let mut config = Config::default();
    config.cluster.peers = urls.iter().map(|url| (*url).to_owned()).collect();
    let peers = Peers::of(&config, &Handle::current()).expect("no files to read");
    peers.expect("peers are named")
}

async fn wait_for(heard: &Heard, begins: &str) {
    let is_heard = || heard.lock().iter().any(|line| line.starts_with(begins));
    while !is_heard() {
        tokio::task::yield_now().await;
    }
}

async fn send(state: &Arc<dyn Peer>) -> (Vec<u8>, Option<query::Error>) {
    let mut pieces = match state.send(Bytes::from_static(b"question")).await {
        Ok(pieces) => pieces,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => whole.extend_from_slice(&piece),
            Err(error) => return (whole, Some(error)),
        }
    }
    (whole, None)
}

#[test]
fn a_server_without_peers_has_none() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let none = Peers::of(&Config::default(), runtime.handle());
    assert!(none.expect("nothing to read").is_none());
}

#[tokio::test]
async fn a_state_is_asked_for_read_and_given_back() {
    let whole = answer("200 OK", "the answer");
    let (url, heard) = serve(peer_with("s1", Some(&whole))).await;
    let all = peers(&[&format!("{url}/")]);
    let (states, missing) = all.states("s0").await;
    let gone = missing.gone();
    assert!(gone.is_empty(), "{gone:?}");
    assert_eq!(states[0].name(), url);
    let (read, error) = send(&states[0]).await;
    assert_eq!((&*read, error.is_none()), (&b"the answer"[..], true));
    assert!(!format!("{states:?}").contains("t1"), "the token is shown");
    drop(states);
    wait_for(&heard, "DELETE /api/v1/cluster/snapshots/t1 ").await;
    wait_for(&heard, "POST /api/v1/cluster/snapshots ").await;
    wait_for(&heard, "POST /api/v1/cluster/requests?snapshot=t1 ").await;
}

fn tables_of(stream: &str) -> PeerTables {
    let columns = query::StreamColumns {
        kind: storage::StreamKind::Access,
        columns: Vec::new(),
    };
    let name = storage::Name::new(stream).expect("a name");
    PeerTables {
        streams: [(name, columns)].into(),
        ..PeerTables::default()
    }
}

#[test]
fn a_server_tells_tables_in_another_version_than_the_known_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = storage::Store::open(dir.path(), storage::Options::default());
    let snapshot = store.expect("a store").snapshot();
    let told = |stream, known: Option<&str>| {
        PeerSnapshot::of(&snapshot, tables_of(stream), "t1".to_owned(), known)
    };
    let first = told("a", None);
    assert_eq!(first.tables, Some(tables_of("a")));
    let version = first.version.as_str();
    assert_eq!(told("a", Some(version)).tables, None);
    assert_eq!(told("a", Some("v1")).tables, Some(tables_of("a")));
    let other = told("b", Some(version));
    assert_eq!(other.tables, Some(tables_of("b")));
    assert_ne!(other.version, version);
}

#[tokio::test]
async fn tables_are_told_where_they_have_changed_and_a_request_gives_states_back() {
    let asked = Mutex::new(0);
    let (url, heard) = serve(Box::new(move |request| {
        if !request.starts_with("POST") {
            return Some(answer("200 OK", "{}"));
        }
        *asked.lock() += 1;
        Some(match *asked.lock() {
            1 => state_with("s1", "t1", ("v1", Some(tables_of("a")))),
            2 => state_with("s1", "t2", ("v1", None)),
            3 => answer("503 Service Unavailable", "{}"),
            4 => state_with("s1", "t4", ("v2", Some(tables_of("b")))),
            _ => state_with("s1", "t5", ("v3", None)),
        })
    }))
    .await;
    let all = peers(&[&url]);
    let told = async || {
        let (states, missing) = all.states("s0").await;
        let tables = states.first().map(|state| Arc::clone(state.tables()));
        (tables, missing.gone().pop().map(|gone| gone.why))
    };
    let first = told().await.0.expect("tables");
    assert_eq!(*first, tables_of("a"));
    let again = told().await.0.expect("tables");
    assert!(Arc::ptr_eq(&first, &again), "one copy of them");
    assert_eq!(told().await.0, None, "it refuses");
    assert_eq!(*told().await.0.expect("tables"), tables_of("b"));
    let why = told().await.1.expect("a version that nobody knows");
    assert!(why.starts_with("it has not told its tables"), "{why}");
    wait_for(&heard, "DELETE /api/v1/cluster/snapshots/t5 ").await;
    let heard = heard.lock().clone();
    let mut known = Vec::new();
    // A request that is late leaves a state to a request of its own.
    let mut given_back: Vec<&str> = heard
        .iter()
        .filter_map(|request| request.strip_prefix("DELETE /api/v1/cluster/snapshots/"))
        .filter_map(|rest| rest.split(' ').next())
        .collect();
    let posts = heard.iter().filter(|request| request.starts_with("POST"));
    let bodies: Vec<SnapshotRequest> = posts
        .filter_map(|request| serde_json::from_str(request.split_once('\n')?.1).ok())
        .collect();
    for (nth, body) in bodies.iter().enumerate() {
        known.push(body.known.as_deref());
        // The third request fails.
        if nth != 2 {
            given_back.extend(body.given_back.iter().map(String::as_str));
        }
    }
    assert_eq!(
        known,
        [None, Some("v1"), Some("v1"), Some("v1"), Some("v2")]
    );
    given_back.sort_unstable();
    assert_eq!(given_back, ["t1", "t2", "t4", "t5"]);
}

#[tokio::test]
async fn a_peer_that_tells_no_state_is_gone_with_its_reason() {
    let refuses = Box::new(|_: &str| {
        let body = r#"{"error":{"code":"forbidden","message":"no","hint":"ask"}}"#;
        Some(answer("403 Forbidden", body))
    });
    let (refuses, _) = serve(refuses).await;
    let (says_nothing, _) = serve(Box::new(|_| None)).await;
    let (is_another, _) = serve(Box::new(|_| Some(answer("200 OK", "{}")))).await;
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let refused = format!("http://{}", unused.local_addr().expect("an address"));
    drop(unused);
    let urls = [&*refuses, &*says_nothing, &*is_another, &*refused];
    let began = Instant::now();
    let all = peers(&urls);
    let (states, missing) = all.states("s0").await;
    let gone = missing.gone();
    assert!(began.elapsed() >= STATE_WITHIN);
    assert!(states.is_empty(), "{states:?}");
    for (gone, (url, why)) in gone.iter().zip(urls.iter().zip([
        "it answered 403 Forbidden: no; ask",
        "it does not answer within 800 ms",
        "its answer cannot be read",
        "refused",
    ])) {
        assert_eq!(gone.name, **url);
        assert!(gone.why.contains(why), "{gone:?}");
    }
    assert_eq!(gone.len(), 4);
}

#[tokio::test]
async fn no_store_counts_twice() {
    let (one, _) = serve(peer_with("s1", None)).await;
    let (again, _) = serve(peer_with("s1", None)).await;
    let (own, heard) = serve(peer_with("s0", None)).await;
    let all = peers(&[&one, &again, &own]);
    let (states, missing) = all.states("s0").await;
    let gone = missing.gone();
    assert_eq!(states.len(), 1);
    assert_eq!(gone[0].name, again);
    assert!(
        gone[0].why.contains(&format!("the same store as {one},")),
        "{gone:?}"
    );
    assert!(
        gone[1].why.contains("the same store as this server,"),
        "{gone:?}"
    );
    // The states that are not read are given back.
    wait_for(&heard, "DELETE ").await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    for cut in [
        "Content-Length: 10\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let cut = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{cut}");
        let (url, _) = serve(peer_with("s1", Some(&cut))).await;
        let (states, _) = peers(&[&url]).states("s0").await;
        let (_, error) = send(&states[0]).await;
        let error = error.expect("an error");
        assert_eq!(error.kind(), Kind::Peer);
        assert!(error.message().contains("its answer broke off"), "{error}");
        assert!(error.message().contains(&url), "{error}");
    }
}

#[tokio::test]
async fn a_refused_request_has_the_words_of_the_refusal() {
    let refused = answer("404 Not Found", r#"{"error":{"message":"no such state"}}"#);
    let (url, _) = serve(peer_with("s1", Some(&refused))).await;
    let (states, _) = peers(&[&url]).states("s0").await;
    let (_, error) = send(&states[0]).await;
    let told = error.expect("an error").message();
    assert!(
        told.ends_with("it answered 404 Not Found: no such state"),
        "{told}"
    );
}

#[tokio::test]
async fn silence_is_an_error_only_of_a_peer_that_is_not_healthy() {
    let begun = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for to_requests in [None, Some(begun)] {
        let healthy = peer_with("s1", None);
        let (url, heard) = serve(Box::new(move |line| match line.contains("/health") {
            true => None,
            false if line.contains(REQUESTS) => to_requests.map(str::to_owned),
            false => healthy(line),
        }))
        .await;
        let (states, _) = peers(&[&url]).states("s0").await;
        let began = Instant::now();
        let (_, error) = send(&states[0]).await;
        let told = error.expect("an error").message();
        assert!(told.ends_with("it does not answer"), "{told}");
        assert!(began.elapsed().as_millis() >= 1000);
        wait_for(&heard, "GET /health ").await;
    }
    let (url, heard) = serve(peer_with("s1", None)).await;
    let (states, _) = peers(&[&url]).states("s0").await;
    let waits = tokio::time::timeout(Duration::from_millis(1700), send(&states[0])).await;
    assert!(waits.is_err(), "a healthy peer may think: {waits:?}");
    let asked = heard
        .lock()
        .iter()
        .filter(|line| line.contains("/health"))
        .count();
    assert!(asked >= 2, "{asked}");
}

#[tokio::test]
async fn a_stream_that_is_dropped_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        read_request(&mut socket).await.expect("a request");
        let state = state_of("s1");
        socket.write_all(state.as_bytes()).await.expect("written");
        drop(socket);
        let (mut socket, _) = listener.accept().await.expect("a connection");
        read_request(&mut socket).await.expect("a request");
        let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
        socket.write_all(endless.as_bytes()).await.expect("written");
        // The end of the connection, or its reset.
        socket.read(&mut [0]).await.unwrap_or(0)
    });
    let (states, _) = peers(&[&url]).states("s0").await;
    let mut pieces = states[0].send(Bytes::new()).await.expect("an answer");
    let first = pieces.next().await.expect("a piece").expect("read");
    assert_eq!(&*first, b"x");
    drop(pieces);
    assert_eq!(serving.await.expect("no panic"), 0);
}

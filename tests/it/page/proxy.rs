//! A proxy between the browser and the server, so that the browser's virtual time can pass: a
//! stream of events that never ends would hold it. `/api/v1/tail` is answered with some events
//! and an end, and from then on with 204, at which a browser does not connect again; all else is
//! passed on unchanged. A driver is a script of the test that runs in the page, as a part of its
//! own: it clicks and reads. It requests `/test/down` and `/test/up` to put the server out of
//! reach and back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A proxy on a port that the system picks; its thread ends with the process.
pub(super) struct Proxy {
    pub(super) url: String,
    tail_told: Arc<AtomicBool>,
}

/// State of one connection.
#[derive(Clone)]
struct Way {
    address: String,
    tail: String,
    driver: String,
    told: Arc<AtomicBool>,
    down: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy to the server at `address`; `tail` is the content of the stream of events.
    pub(super) fn start(address: String, tail: String) -> Self {
        Self::with_driver(address, tail, String::new())
    }

    /// Does the same with a script that is appended to the page's own.
    pub(super) fn with_driver(address: String, tail: String, driver: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let tail_told = Arc::new(AtomicBool::new(false));
        let way = Way {
            address,
            tail,
            driver,
            told: Arc::clone(&tail_told),
            down: Arc::new(AtomicBool::new(false)),
        };
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let way = way.clone();
                // A connection that the browser drops is no failure of the test.
                std::thread::spawn(move || pass(socket, &way).unwrap_or_default());
            }
        });
        Self { url, tail_told }
    }

    /// Returns whether the events were requested since the last call; then they can be requested
    /// again.
    pub(super) fn took_tail(&self) -> bool {
        self.tail_told.swap(false, Ordering::SeqCst)
    }
}

fn pass(socket: TcpStream, way: &Way) -> std::io::Result<()> {
    let mut from = BufReader::new(socket.try_clone()?);
    let mut to = socket;
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim_end().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        // A connection has one request, so that the end of an answer is the end of the
        // connection. The server gets its own name, as a proxy may do it.
        if lower.starts_with("host:") {
            head += &format!("Host: {}\r\n", way.address);
        } else if lower.starts_with("origin:") {
            head += &format!("Origin: http://{}\r\n", way.address);
        } else if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    if let Some(state) = head.strip_prefix("GET /test/") {
        way.down.store(state.starts_with("down"), Ordering::SeqCst);
        return to.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
    if way.down.load(Ordering::SeqCst) {
        // The browser sees a connection that ends without an answer.
        return Ok(());
    }
    if head.starts_with("GET /page.js") && !way.driver.is_empty() {
        let page = dashboards::asset("/page.js").expect("BUG: the page has its script");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nConnection: close\r\n\r\n";
        to.write_all(head.as_bytes())?;
        to.write_all(page.body)?;
        return to.write_all(way.driver.as_bytes());
    }
    if head.starts_with("GET /api/v1/tail") {
        return if way.told.swap(true, Ordering::SeqCst) {
            to.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        } else {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            to.write_all(format!("{head}{}", way.tail).as_bytes())
        };
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    let mut server = TcpStream::connect(&way.address)?;
    server.write_all(head.as_bytes())?;
    server.write_all(b"Connection: close\r\n\r\n")?;
    server.write_all(&body)?;
    std::io::copy(&mut server, &mut to)?;
    Ok(())
}

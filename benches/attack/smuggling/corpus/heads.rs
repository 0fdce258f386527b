//! Heads, request lines and names of hosts.

use super::{EVENT, Maker, Must, STREAM};

impl Maker {
    pub(super) fn heads(&mut self) {
        let length = "Content-Length: 8\r\n";
        for (name, line) in [
            ("a space before the colon", "X : a\r\n"),
            ("a tab before the colon", "X\t: a\r\n"),
            ("a line that is folded", "X: a\r\n b\r\n"),
            ("a line that is folded at once", "X:\r\n\ta\r\n"),
            ("NUL in a value", "X: a\0b\r\n"),
            ("NUL in a name", "X\0Y: a\r\n"),
            ("CR in a value", "X: a\rY: b\r\n"),
            ("DEL in a value", "X: a\u{7f}\r\n"),
            ("a name of no bytes", ": a\r\n"),
            ("a space in a name", "X Y: a\r\n"),
            ("a letter beyond ASCII in a name", "Ünicode: a\r\n"),
            ("a line without a colon", "X\r\n"),
        ] {
            self.faulty(name, &format!("{line}{length}"), EVENT);
        }
        self.faulty(
            "a space before the colon of the length",
            "Content-Length : 8\r\n",
            EVENT,
        );
        self.faulty("a folded length", "Content-Length:\r\n 8\r\n", EVENT);
        let head = format!("{}{length}\r\n", self.begun());
        let line_feeds = head.replace("\r\n", "\n") + EVENT + &self.next;
        self.lenient("a head with LF alone", &line_feeds);
        let returns = head.replace("\r\n", "\r") + EVENT + &self.next;
        self.push("a head with CR alone", returns, Must::Refuse);
        let begins = head.replacen("\r\n", "\r\n ", 1) + EVENT + &self.next;
        self.push(
            "a first header that begins with a space",
            begins,
            Must::Refuse,
        );
    }

    pub(super) fn lines(&mut self) {
        let head = format!(
            "{}Content-Length: 8\r\n\r\n{EVENT}{}",
            self.begun(),
            self.next
        );
        let path = format!("/api/v1/ingest/{STREAM}");
        let line = format!("POST {path} HTTP/1.1");
        for (name, other) in [
            (
                "two spaces before the target",
                format!("POST  {path} HTTP/1.1"),
            ),
            (
                "two spaces behind the target",
                format!("POST {path}  HTTP/1.1"),
            ),
            (
                "tabs in the request line",
                format!("POST\t{path}\tHTTP/1.1"),
            ),
            ("a space behind the version", format!("{line} ")),
            ("a space before the method", format!(" {line}")),
            ("version 1.2", format!("POST {path} HTTP/1.2")),
            ("version 9.9", format!("POST {path} HTTP/9.9")),
            (
                "a version in small letters",
                format!("POST {path} http/1.1"),
            ),
            ("no version", format!("POST {path}")),
            ("NUL in the target", format!("POST {path}\0 HTTP/1.1")),
            ("a space in the target", format!("POST {path} x HTTP/1.1")),
            (
                "a target without a slash",
                format!("POST {} HTTP/1.1", &path[1..]),
            ),
            ("a method with a colon", format!("PO:ST {path} HTTP/1.1")),
        ] {
            self.push(name, head.replacen(&line, &other, 1), Must::Refuse);
        }
        let line_feed = head.replacen(&line, &format!("{line}\nX: a"), 1);
        self.lenient("LF behind the request line", &line_feed);
        let line_feed = head.replacen(&line, &format!("{line}\r\nX: a\nY: b"), 1);
        self.lenient("LF behind a header", &line_feed);
    }

    /// Adds requests under a foreign name or two. They end where they seem to, so that nothing
    /// follows them.
    pub(super) fn hosts(&mut self) {
        let host = self.host.clone();
        let path = format!("/api/v1/ingest/{STREAM}");
        let own = format!("Host: {host}\r\n");
        for (name, target, hosts) in [
            (
                "a foreign name in the target",
                format!("http://evil.example{path}"),
                own.clone(),
            ),
            (
                "a foreign Host behind an own target",
                format!("http://{host}{path}"),
                "Host: evil.example\r\n".to_owned(),
            ),
            (
                "two Hosts",
                path.clone(),
                format!("{own}Host: evil.example\r\n"),
            ),
            (
                "two Hosts, the own one last",
                path.clone(),
                format!("Host: evil.example\r\n{own}"),
            ),
            ("one Host twice", path.clone(), own.repeat(2)),
            ("no Host", path.clone(), String::new()),
            ("an empty Host", path.clone(), "Host:\r\n".to_owned()),
            (
                "a list of Hosts",
                path.clone(),
                format!("Host: {host}, evil.example\r\n"),
            ),
            (
                "a user before the Host",
                path.clone(),
                format!("Host: evil.example@{host}\r\n"),
            ),
            (
                "a path behind the Host",
                path.clone(),
                format!("Host: {host}/evil\r\n"),
            ),
            (
                "a space in the Host",
                path.clone(),
                format!("Host: {host} evil.example\r\n"),
            ),
            (
                "a user in the target",
                format!("http://evil@{host}{path}"),
                own.clone(),
            ),
        ] {
            let bytes = format!(
                "POST {target} HTTP/1.1\r\n{hosts}Authorization: Bearer {}\r\nContent-Length: 8\r\n\r\n{EVENT}",
                self.token
            );
            self.push(name, bytes, Must::Refuse);
        }
    }
}

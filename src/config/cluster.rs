//! The section `[cluster]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::host::Authority;

/// The first key of the section: an error about another key lists the known ones in their order.
pub(super) const FIRST_KEY: &str = "peers";

/// `[cluster]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cluster {
    /// URLs of the servers whose stores take part in the questions of this one:
    /// `http://host:7070`.
    pub(crate) peers: Vec<String>,
    /// A file with the token that every peer gets, or with lines of a URL and its token.
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates in PEM that https peers are trusted by, instead of the public authorities.
    pub(crate) ca_file: Option<PathBuf>,
}

impl Cluster {
    /// Replaces the peers by those of the command line.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub(crate) fn name_peers(&mut self, peers: Vec<String>) -> Result<(), String> {
        self.peers = peers;
        self.wrong_peers().next().map_or(Ok(()), Err)
    }

    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        let wrong = self.wrong_peers();
        problems.extend(wrong.map(|why| format!("[cluster] peers: {why}")));
    }

    fn wrong_peers(&self) -> impl Iterator<Item = String> {
        let bare = |url: &String| url.trim_end_matches('/').to_ascii_lowercase();
        self.peers.iter().enumerate().filter_map(move |(at, url)| {
            let is_again = self.peers[..at]
                .iter()
                .any(|other| bare(other) == bare(url));
            match check_peer(url) {
                Err(why) => Some(why),
                Ok(()) if is_again => Some(format!("{url} is named twice; name it once")),
                Ok(()) => None,
            }
        })
    }
}

fn check_peer(url: &str) -> Result<(), String> {
    // Before any message that has the URL in it.
    if url.contains('@') {
        return Err(
            "leave user and password out of the URL of a peer; write a token into a file, and its name into token_file of [cluster]"
                .into(),
        );
    }
    let host = url.strip_prefix("http://");
    let host = host.or_else(|| url.strip_prefix("https://"));
    let host = host.map(|host| host.strip_suffix('/').unwrap_or(host));
    match host.and_then(Authority::parse) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{url:?} is not the URL of a server: write it as http://host:7070 or https://host:7070"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(peers: &[&str]) -> Vec<String> {
        let peers = peers.iter().map(|url| (*url).to_owned()).collect();
        let cluster = Cluster {
            peers,
            ..Cluster::default()
        };
        cluster.wrong_peers().collect()
    }

    #[test]
    fn a_peer_is_the_url_of_a_server_and_is_named_once() {
        let good = ["http://a:7070", "https://b.example.org/", "http://[::1]:1"];
        assert_eq!(wrong(&good), Vec::<String>::new());
        for url in [
            "",
            "a:7070",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://a:x",
        ] {
            let told = wrong(&[url]).concat();
            assert!(told.contains("write it as http://"), "{url}: {told}");
        }
        let told = wrong(&["http://a:1", "http://A:1/"]).concat();
        assert!(told.contains("named twice"), "{told}");
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let told = wrong(&["http://ann:secret@a:7070"]).concat();
        assert!(told.contains("token_file"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

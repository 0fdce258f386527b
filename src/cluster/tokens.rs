//! The tokens that peers get.
//!
//! A file has one token for all peers, or lines of a URL and its token: each store makes tokens of
//! its own. A token goes to no other peer than its own.

use std::fmt::Display;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::access::token::Token;
use crate::failure::{Failure, Result};

/// The tokens of a file.
#[derive(Debug, Default)]
pub(super) struct PeerTokens {
    of_all: Option<SecretString>,
    of_one: Vec<(String, SecretString)>,
}

impl PeerTokens {
    /// Reads the tokens of peers. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// If the file cannot be read, a line is neither of the two forms, or its URL is no peer's.
    pub(super) fn read(file: &Path, peers: &[String]) -> Result<Self> {
        let named = |why: &dyn Display| {
            Failure::config(format!("[cluster] token_file = {}: {why}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|e| named(&e))?;
        let text = Zeroizing::new(text);
        let mut tokens = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |why: &str| named(&format!("line {number} {why}"));
            let words: Vec<&str> = line.split_whitespace().collect();
            let (url, token) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [token] => (None, token),
                [url, token] => (Some(url), token),
                _ => return Err(wrong("has more than a URL and its token")),
            };
            let token = SecretString::from(token);
            if Token::parse(token.expose_secret()).is_none() {
                return Err(wrong(
                    "has no token; write the output of `logmill token create` there",
                ));
            }
            match url {
                None => tokens.of_all = Some(token),
                Some(url) if peers.iter().any(|peer| is_same(peer, url)) => {
                    tokens.of_one.push((url.to_owned(), token));
                }
                Some(_) => return Err(wrong("names a URL that is none of the peers")),
            }
        }
        match tokens.of_all.is_none() && tokens.of_one.is_empty() {
            true => Err(named(
                &"the file holds no token; write the output of `logmill token create` into it",
            )),
            false => Ok(tokens),
        }
    }

    /// Returns the token of all peers.
    pub(super) fn of_all(&self) -> Option<SecretString> {
        self.of_all.clone()
    }

    /// Returns the token of a peer.
    pub(super) fn of(&self, url: &str) -> Option<SecretString> {
        let own = self.of_one.iter().find(|(peer, _)| is_same(peer, url));
        own.map(|(_, token)| token)
            .or(self.of_all.as_ref())
            .cloned()
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [&str; 2] = ["http://a:1", "http://b:1/"];

    fn read(text: &str) -> Result<PeerTokens, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("tokens");
        std::fs::write(&file, text).expect("written");
        PeerTokens::read(&file, &PEERS.map(str::to_owned)).map_err(|e| e.to_string())
    }

    fn shown(tokens: &PeerTokens, url: &str) -> Option<String> {
        let token = tokens.of(url)?;
        Some(token.expose_secret().to_owned())
    }

    #[test]
    fn a_peer_gets_its_own_token_or_that_of_all() {
        let [all, own] = [Token::create(), Token::create()];
        let [all, own] = [all.reveal(), own.reveal()];
        let tokens = read(&format!("{all}\n")).expect("reads");
        assert_eq!(shown(&tokens, PEERS[0]).as_deref(), Some(all));
        let tokens = read(&format!("# ours\n\nhttp://B:1 {own}\n")).expect("reads");
        assert_eq!(shown(&tokens, PEERS[1]).as_deref(), Some(own));
        assert_eq!(shown(&tokens, PEERS[0]), None);
        let tokens = read(&format!("http://b:1 {own}\n{all}")).expect("reads");
        assert_eq!(shown(&tokens, PEERS[1]).as_deref(), Some(own));
        assert_eq!(shown(&tokens, PEERS[0]).as_deref(), Some(all));
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        let token = Token::create();
        let token = token.reveal();
        for (text, said) in [
            (String::new(), "the file holds no token"),
            ("# nothing\n".to_owned(), "the file holds no token"),
            (format!("\n{}", &token[1..]), "line 2 has no token"),
            (format!("http://c:1 {token}"), "line 1 names a URL"),
            (format!("http://a:1 {token} {token}"), "line 1 has more"),
        ] {
            let told = read(&text).expect_err(&text);
            assert!(told.contains(said), "{told}");
            assert!(!told.contains(&token[8..20]), "{told}");
        }
    }
}

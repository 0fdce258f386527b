//! Tokens and verifiers of passwords, as text.

use crate::access::Verifier;
use crate::access::token::Token;

/// Parses a text as a token, and as the verifier of a password. Each that is accepted is written as
/// it was read, and no other spelling of a token is accepted.
pub(crate) fn secrets(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(token) = Token::parse(text) {
        assert_eq!(token.reveal(), text);
        assert_eq!(token.hash().as_str().len(), 64);
        let padded = [format!("{text} "), format!(" {text}"), format!("{text}0")];
        assert!(padded.iter().all(|other| Token::parse(other).is_none()));
    }
    if let Ok(verifier) = text.parse::<Verifier>() {
        let written = String::from(verifier.clone());
        let again: Verifier = written.parse().expect("a written verifier is read");
        assert!(again == verifier);
    }
}

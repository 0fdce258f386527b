//! Tokens: `lm_`, 32 random bytes in base 62 (43 digits), and a checksum of 6 digits.
//!
//! The prefix lets scanners of repositories and logs recognise a token, and the checksum tells a
//! token that was cut off from one that was revoked. The store has the SHA-256 of a token: its
//! 256 random bits cannot be guessed, so that the hash needs no salt and no repetition.

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "lm_";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits of 256 bits: 62^43 > 2^256.
const RANDOM_DIGITS: usize = 43;
/// Digits of a CRC-32: 62^6 > 2^32.
const CHECK_DIGITS: usize = 6;

/// A token. It is shown once, when it is created.
#[derive(Debug)]
pub(crate) struct Token(SecretString);

/// SHA-256 of a token, hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TokenHash(String);

impl TokenHash {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Token {
    /// Creates a token.
    pub(crate) fn create() -> Self {
        let mut text = String::with_capacity(PREFIX.len() + RANDOM_DIGITS + CHECK_DIGITS);
        text += PREFIX;
        text.extend(random_digits(RANDOM_DIGITS));
        text += &checksum(&text);
        Self(SecretString::from(text))
    }

    /// Parses a token; `None` if the text is not a whole one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_whole = digits.len() == RANDOM_DIGITS + CHECK_DIGITS
            && digits.bytes().all(|b| b.is_ascii_alphanumeric());
        let (body, check) = text.split_at_checked(PREFIX.len() + RANDOM_DIGITS)?;
        (is_whole && checksum(body) == check).then(|| Self(SecretString::from(text)))
    }

    /// Returns whether a text may be a token, whole or not: it is shown nowhere.
    pub(super) fn is_like(text: &str) -> bool {
        text.starts_with(PREFIX) && text.len() > 16
    }

    /// Returns the hash that the store keeps.
    pub(crate) fn hash(&self) -> TokenHash {
        hash_of(self.0.expose_secret())
    }

    /// Returns the text, to show it to its owner.
    pub(crate) fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

/// Returns the hash of a secret with at least 128 random bits.
pub(super) fn hash_of(secret: &str) -> TokenHash {
    let hash = digest(&SHA256, secret.as_bytes());
    TokenHash(hash.as_ref().iter().map(|b| format!("{b:02x}")).collect())
}

/// Returns a secret of random digits. Its text has one place in memory, which is cleared when it is
/// dropped: it does not move while it grows.
pub(crate) fn random_secret(digits: usize) -> SecretString {
    let mut text = String::with_capacity(digits);
    text.extend(random_digits(digits));
    SecretString::from(text)
}

/// Returns random digits in base 62, each as likely as the others.
fn random_digits(count: usize) -> impl Iterator<Item = char> {
    let random = SystemRandom::new();
    let draw = move || {
        let mut byte = [0];
        random.fill(&mut byte).expect("the system has random bytes");
        usize::from(byte[0])
    };
    // A byte from 248 on would favour the first digits: 248 = 4 × 62.
    std::iter::repeat_with(draw)
        .filter(|byte| *byte < 248)
        .map(|byte| char::from(DIGITS[byte % DIGITS.len()]))
        .take(count)
}

fn checksum(body: &str) -> String {
    let mut rest = u64::from(crc32fast::hash(body.as_bytes()));
    let mut digits = [b'0'; CHECK_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_whole_and_with_no_character_changed() {
        let token = Token::create();
        let text = token.reveal();
        assert_eq!(text.len(), 3 + 43 + 6);
        assert_eq!(Token::parse(text).expect("whole").hash(), token.hash());
        for at in 0..text.len() {
            assert!(Token::parse(&text[..at]).is_none(), "cut at {at}");
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(Token::parse(&changed).is_none(), "changed at {at}");
        }
        for wrong in ["", "lm_", "lm_é", &format!("{text}0"), &format!(" {text}")] {
            assert!(Token::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn no_two_tokens_are_the_same_and_debug_shows_none() {
        let (one, other) = (Token::create(), Token::create());
        assert_ne!(one.hash(), other.hash());
        assert!(!format!("{one:?}").contains(one.reveal()));
    }

    #[test]
    fn every_digit_is_about_as_likely_as_another() {
        let mut counts = [0_u32; 62];
        for digit in random_digits(62_000) {
            let at = DIGITS.iter().position(|d| char::from(*d) == digit);
            counts[at.expect("a digit")] += 1;
        }
        // 1,000 each is expected; 8 standard deviations are 253.
        assert!(counts.iter().all(|n| (747..1253).contains(n)), "{counts:?}");
    }
}

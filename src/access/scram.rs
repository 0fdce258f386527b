//! SCRAM-SHA-256 verifiers of passwords (RFC 5802, RFC 7677), in the form in which PostgreSQL
//! writes them: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, the binary parts in
//! base 64.
//!
//! A verifier checks a password, and is all that a server needs for the handshakes of PostgreSQL
//! and MongoDB. A password cannot be computed from it, only guessed at the price of the
//! iterations.

mod exchange;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) use exchange::Exchange;

const NAME: &str = "SCRAM-SHA-256";
const ITERATIONS: u32 = 32_768;
/// Iterations that a verifier from elsewhere must have; the first figure is MongoDB's default.
const ITERATIONS_TAKEN: std::ops::RangeInclusive<u32> = 15_000..=1_000_000;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

type ScramKey = [u8; KEY_BYTES];

/// The verifier of a password. Its text is kept in the store, and shown nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: ScramKey,
    server_key: ScramKey,
}

impl Verifier {
    /// Computes the verifier of a password with a new salt. It takes some 10 ms.
    pub(crate) fn of(password: &SecretString) -> Self {
        let mut salt = vec![0; SALT_BYTES];
        let random = SystemRandom::new();
        random.fill(&mut salt).expect("the system has random bytes");
        let iterations = NonZeroU32::new(ITERATIONS).expect("BUG: more than none");
        Self::derive(password, salt, iterations)
    }

    /// Computes a verifier that no password matches: it takes the time of a real one.
    pub(super) fn of_nobody() -> Self {
        let mut key = [0; KEY_BYTES];
        let random = SystemRandom::new();
        random.fill(&mut key).expect("the system has random bytes");
        Self {
            iterations: NonZeroU32::new(ITERATIONS).expect("BUG: more than none"),
            salt: key[..SALT_BYTES].to_vec(),
            stored_key: key,
            server_key: key,
        }
    }

    fn derive(password: &SecretString, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        let prepared = prepare(password);
        // Whoever has these two logs in as well as with the password.
        let mut salted = Zeroizing::new([0; KEY_BYTES]);
        let secret = prepared.expose_secret().as_bytes();
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            &salt,
            secret,
            &mut *salted,
        );
        let client_key = Zeroizing::new(mac(&*salted, b"Client Key"));
        Self {
            iterations,
            salt,
            stored_key: sha256(&*client_key),
            server_key: mac(&*salted, b"Server Key"),
        }
    }

    /// Returns whether the password is the one of this verifier.
    pub(crate) fn matches(&self, password: &SecretString) -> bool {
        let given = Self::derive(password, self.salt.clone(), self.iterations);
        bool::from(given.stored_key.ct_eq(&self.stored_key))
    }
}

/// Prepares a password as SASLprep says (RFC 4013). As in PostgreSQL, a password that it does not
/// allow is used as it is.
fn prepare(password: &SecretString) -> SecretString {
    match stringprep::saslprep(password.expose_secret()) {
        Ok(prepared) => SecretString::from(prepared.into_owned()),
        Err(_) => password.clone(),
    }
}

fn mac(key: &[u8], message: &[u8]) -> ScramKey {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("BUG: SHA-256 has 32 bytes")
}

fn sha256(bytes: &[u8]) -> ScramKey {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().try_into().expect("BUG: SHA-256 has 32 bytes")
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl From<Verifier> for String {
    fn from(verifier: Verifier) -> Self {
        let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        format!(
            "{NAME}${}:{}${}:{}",
            verifier.iterations,
            text(&verifier.salt),
            text(&verifier.stored_key),
            text(&verifier.server_key)
        )
    }
}

impl TryFrom<String> for Verifier {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Verifier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let rest = text.strip_prefix(NAME)?.strip_prefix('$')?;
            let (salted, keys) = rest.split_once('$')?;
            let (iterations, salt) = salted.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
            let salt = bytes(salt).filter(|salt| salt.len() >= 8)?;
            Some(Self {
                iterations: iterations.parse().ok()?,
                salt,
                stored_key: bytes(stored)?.try_into().ok()?,
                server_key: bytes(server)?.try_into().ok()?,
            })
        };
        let parsed = parse().ok_or_else(|| {
            format!("a verifier is written {NAME}$<iterations>:<salt>$<StoredKey>:<ServerKey>")
        })?;
        if !ITERATIONS_TAKEN.contains(&parsed.iterations.get()) {
            return Err(format!(
                "a verifier has {} iterations; the limits are {} and {}",
                parsed.iterations,
                ITERATIONS_TAKEN.start(),
                ITERATIONS_TAKEN.end()
            ));
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    /// The exchange of RFC 7677, section 3: its proof and signature follow from the verifier.
    #[test]
    fn the_keys_are_those_of_the_published_exchange() {
        let decode = |text| BASE64_STANDARD.decode(text).expect("base 64");
        let salt = decode("W22ZaJ0SNY7soEsUEjb6gQ==");
        let iterations = NonZeroU32::new(4096).expect("some");
        let verifier = Verifier::derive(&secret("pencil"), salt, iterations);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = mac(&verifier.server_key, message.as_bytes());
        assert_eq!(
            signature.to_vec(),
            decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
        );
        let proof = decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let signed = mac(&verifier.stored_key, message.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(signed).map(|(a, b)| a ^ b).collect();
        assert_eq!(sha256(&client_key), verifier.stored_key);
    }

    #[test]
    fn a_verifier_matches_its_password_alone_and_survives_its_text() {
        let verifier = Verifier::of(&secret("pass$word:ü"));
        let text = String::from(verifier.clone());
        let read: Verifier = text.parse().expect("as written");
        assert_eq!(read, verifier);
        assert!(read.matches(&secret("pass$word:ü")));
        assert!(!read.matches(&secret("pass$word:u")));
        assert!(!read.matches(&secret("")));
        assert!(!Verifier::of_nobody().matches(&secret("")));
        assert_ne!(String::from(Verifier::of(&secret("pass$word:ü"))), text);
        assert!(!format!("{verifier:?}").contains(&text[20..40]));
    }

    #[test]
    fn a_password_is_prepared_before_it_is_hashed() {
        // A soft hyphen maps to nothing, and a ligature to its letters (RFC 4013).
        let verifier = Verifier::of(&secret("I\u{ad}X\u{fb01}"));
        assert!(verifier.matches(&secret("IXfi")));
    }

    #[test]
    fn a_wrong_verifier_is_refused() {
        let text = String::from(Verifier::of(&secret("a")));
        for wrong in [
            String::new(),
            text.replace("SCRAM-SHA-256", "SCRAM-SHA-1"),
            text.replace("32768", "4096"),
            text.replace("32768", "4000000000"),
            text.replace("32768", "0"),
            text[..text.len() - 5].to_owned(),
            text.replace(':', ""),
        ] {
            assert!(wrong.parse::<Verifier>().is_err(), "{wrong}");
        }
    }
}

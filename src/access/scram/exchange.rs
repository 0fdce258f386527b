//! The server's side of a SCRAM-SHA-256 exchange (RFC 5802, section 5; RFC 7677), without channel
//! binding.
//!
//! # Invariants
//! * An exchange for an unknown user goes the same way to its end, and the salt of a name stays the
//!   same, so that a client does not learn which users exist.
//! * No message of a client makes more work than two codes of SHA-256.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::{KEY_BYTES, SALT_BYTES, Verifier, mac, sha256};

const NONCE_BYTES: usize = 18;
/// Maximum bytes of a message of a client.
const MESSAGE_BYTES_MAX: usize = 4096;

/// An exchange that waits for the proof of the client.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    /// The messages so far, without the header of the client's.
    begun: String,
    nonce: String,
    /// The base64 of the header, which the proof repeats.
    header: String,
}

impl Exchange {
    /// Begins an exchange with the client's first message. Returns it with the answer; `None` if
    /// the message is not one.
    pub(crate) fn begin(verifier: Verifier, client_first: &str) -> Option<(Self, String)> {
        if client_first.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        // `n,,`: no channel binding. `y,,`: the client knows it and takes the server for one that
        // does not, which is so. `p=` asks for it.
        let (header, bare) = ["n,", "y,"].iter().find_map(|flag| {
            let (identity, bare) = client_first.strip_prefix(flag)?.split_once(',')?;
            let is_identity = identity.is_empty() || identity.starts_with("a=");
            is_identity.then(|| client_first.split_at(client_first.len() - bare.len()))
        })?;
        let mut fields = bare.split(',');
        // The name in here may be empty, as libpq leaves it: the connection has told it before.
        fields.next().filter(|name| name.starts_with("n="))?;
        let client_nonce = fields.next()?.strip_prefix("r=")?;
        let is_printable = |b: u8| b.is_ascii_graphic() && b != b',';
        if client_nonce.is_empty() || !client_nonce.bytes().all(is_printable) {
            return None;
        }
        let mut random = [0; NONCE_BYTES];
        let filled = SystemRandom::new().fill(&mut random);
        filled.expect("the system has random bytes");
        let nonce = format!("{client_nonce}{}", BASE64_STANDARD.encode(random));
        let salt = BASE64_STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let exchange = Self {
            verifier,
            begun: format!("{bare},{answer}"),
            nonce,
            header: BASE64_STANDARD.encode(header),
        };
        Some((exchange, answer))
    }

    /// Checks the client's last message. Returns the server's signature if the proof is right.
    pub(crate) fn finish(self, client_final: &str) -> Option<String> {
        if client_final.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let (rest, proof) = client_final.rsplit_once(",p=")?;
        let mut fields = rest.split(',');
        let is_same = fields.next()?.strip_prefix("c=")? == self.header
            && fields.next()?.strip_prefix("r=")? == self.nonce;
        let proof: [u8; KEY_BYTES] = BASE64_STANDARD.decode(proof).ok()?.try_into().ok()?;
        let message = format!("{},{rest}", self.begun);
        let signed = mac(&self.verifier.stored_key, message.as_bytes());
        let mut client_key = [0; KEY_BYTES];
        for ((key, proof), signed) in client_key.iter_mut().zip(proof).zip(signed) {
            *key = proof ^ signed;
        }
        let is_right = sha256(&client_key).ct_eq(&self.verifier.stored_key);
        (is_same && bool::from(is_right)).then(|| {
            let signature = mac(&self.verifier.server_key, message.as_bytes());
            format!("v={}", BASE64_STANDARD.encode(signature))
        })
    }
}

impl Verifier {
    /// Returns the verifier of an unknown user: no proof is right for it. Its salt depends on the
    /// name and on `secret`.
    pub(crate) fn of_unknown(name: &str, secret: &[u8]) -> Self {
        let code = mac(secret, name.as_bytes());
        Self {
            salt: code[..SALT_BYTES].to_vec(),
            ..Self::of_nobody()
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::{ScramKey, Verifier};
    use super::*;

    /// The client's side, from the text of RFC 5802 alone.
    fn proof(password: &str, begun: &str, last: &str, salt: &[u8], iterations: u32) -> String {
        let mut salted: ScramKey = [0; KEY_BYTES];
        ring::pbkdf2::derive(
            ring::pbkdf2::PBKDF2_HMAC_SHA256,
            iterations.try_into().expect("some"),
            salt,
            password.as_bytes(),
            &mut salted,
        );
        let client_key = mac(&salted, b"Client Key");
        let signed = mac(&sha256(&client_key), format!("{begun},{last}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signed).map(|(a, b)| a ^ b).collect();
        BASE64_STANDARD.encode(proof)
    }

    /// Logs in; `spoil` changes the last message.
    fn log_in(password: &str, verifier: Verifier, spoil: impl Fn(String) -> String) -> bool {
        let (exchange, answer) =
            Exchange::begin(verifier, "n,,n=,r=clientnonce").expect("a first message");
        let fields: Vec<&str> = answer.split(',').collect();
        let nonce = fields[0].strip_prefix("r=").expect("a nonce");
        let salt = fields[1].strip_prefix("s=").expect("a salt");
        let salt = BASE64_STANDARD.decode(salt).expect("base 64");
        let iterations = fields[2].strip_prefix("i=").expect("iterations");
        let last = format!("c=biws,r={nonce}");
        let begun = format!("n=,r=clientnonce,{answer}");
        let iterations = iterations.parse().expect("a number");
        let proof = proof(password, &begun, &last, &salt, iterations);
        exchange
            .finish(&spoil(format!("{last},p={proof}")))
            .is_some()
    }

    #[test]
    fn the_right_password_alone_is_let_in_and_no_changed_message() {
        let verifier = Verifier::of(&SecretString::from("pencil"));
        assert!(log_in("pencil", verifier.clone(), |last| last));
        assert!(!log_in("pen", verifier.clone(), |last| last));
        assert!(!log_in("", Verifier::of_unknown("x", b"key"), |last| last));
        for (from, to) in [
            ("c=biws", "c=eSws"),
            ("r=clientnonce", "r=clientnoncd"),
            (",p=", ",q="),
        ] {
            assert!(!log_in("pencil", verifier.clone(), |last| last.replace(from, to)));
        }
        assert!(!log_in("pencil", verifier.clone(), |last| last + "A"));
        assert!(!log_in("pencil", verifier, |_| String::new()));
    }

    #[test]
    fn a_first_message_that_is_none_is_refused() {
        let verifier = Verifier::of_nobody();
        for wrong in [
            "",
            "n,,",
            "n,,n=a",
            "p=tls-unique,,n=,r=a",
            "n,x,n=,r=a",
            "n,,n=,r=",
            "n,,n=,r=a b",
        ] {
            assert!(
                Exchange::begin(verifier.clone(), wrong).is_none(),
                "{wrong}"
            );
        }
        assert!(Exchange::begin(verifier.clone(), &"n,,n=,r=a".repeat(999)).is_none());
        for right in [
            "n,,n=,r=a",
            "y,,n=user,r=a",
            "n,a=other,n=user,r=a,x=extension",
        ] {
            assert!(
                Exchange::begin(verifier.clone(), right).is_some(),
                "{right}"
            );
        }
    }

    #[test]
    fn the_salt_of_an_unknown_user_stays_the_same() {
        let salt = |name, key: &[u8]| Verifier::of_unknown(name, key).salt;
        assert_eq!(salt("x", b"key"), salt("x", b"key"));
        assert_ne!(salt("x", b"key"), salt("y", b"key"));
        assert_ne!(salt("x", b"key"), salt("x", b"other"));
    }
}

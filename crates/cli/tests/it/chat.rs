//! `doran chat` through a pipe.

use crate::program::{Server, fresh, text, told};

#[test]
fn the_next_process_remembers() {
    let here = fresh("chat");
    let first = told(&here, &["chat"], "내 이름은 김도란이야.\n연차휴가는 며칠인가요?\n");
    let stdout = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(stdout.contains("이 대화에 적어 두었습니다: 이름 = 김도란.\n"), "{stdout}");
    assert!(stdout.contains("연차휴가 15일을 준다.\" [3]\n  [3] 휴가 규정 › 연차휴가\n"), "{stdout}");
    let second = text(&told(&here, &["chat"], "\n내 이름이 뭐라고 했지?\n").stdout);
    assert!(second.starts_with("김도란입니다.") && second.matches("김도란입니다.").count() == 1, "{second}");
    let other = text(&told(&here, &["chat", "--thread", "다른 대화"], "내 이름이 뭐라고 했지?\n").stdout);
    assert!(!other.contains("김도란"), "{other}");
}

#[test]
fn a_second_process_is_told_who_has_the_data() {
    let here = fresh("second");
    let server = Server::start(&here, None);
    let output = told(&here, &["chat"], "안녕?\n");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    let pid = server.child.id();
    assert!(
        stderr.contains(&format!("another doran (process {pid}) is using the data directory")),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn an_agent_that_does_not_exist_is_named() {
    let here = fresh("agent");
    let output = told(&here, &["chat", "--agent", "nobody"], "안녕?\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`nobody`"), "{}", text(&output.stderr));
}

//! What `doran` alone shows on a terminal: what is in use here, and the commands to begin with.

use doran_offline::OFFLINE_MODEL;
use doran_retrieval::Language;

use crate::agent_client;
use crate::config::{self, SettingFlags};
use crate::environment::Environment;
use crate::output::{TerminalOutput, bilingual};

/// Prints it, by the settings that hold here without flags.
pub(crate) fn print_start_screen(output: TerminalOutput) -> anyhow::Result<()> {
    let loaded = config::load(&SettingFlags::new(), None, &Environment::from_process()?)?;
    let config = &loaded.config;
    let server = agent_client::running_server(config).map(|client| format!("http://{}", client.address));
    let data_dir = config.data_dir.display().to_string();
    output.print_data(&start_screen(&data_dir, &config.model, server.as_deref(), config.language))
}

fn start_screen(data_dir: &str, model: &str, server: Option<&str>, language: Language) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let server = server.unwrap_or(language.pick("실행 중이 아닙니다", "not running"));
    let about = match model == OFFLINE_MODEL {
        true => language.pick(" (내장 모델, LLM 아님)", " (built in, not an LLM)"),
        false => "",
    };
    let screen = bilingual!(
        "Doran {version}\n데이터  {data_dir}\n모델    {model}{about}\n서버    {server}\n\n  doran chat          터미널에서 대화합니다\n  doran ask '질문'    질문 하나에 답합니다\n  doran serve         HTTP 서버와 웹 화면을 시작합니다\n  doran ingest 파일   파일을 문서로 추가합니다\n  doran --help        모든 명령과 설정을 보여 줍니다\n",
        "Doran {version}\ndata    {data_dir}\nmodel   {model}{about}\nserver  {server}\n\n  doran chat             chat in the terminal\n  doran ask 'QUESTION'   ask one question\n  doran serve            start the HTTP server and the page\n  doran ingest FILE      add files to the document library\n  doran --help           show all commands and settings\n"
    );
    screen.text(language).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::display_width;

    #[test]
    fn the_start_screen_is_short_and_straight_in_both_languages() {
        for (language, words) in
            [(Language::Korean, "실행 중이 아닙니다"), (Language::English, "not running")]
        {
            let screen = start_screen("/data", OFFLINE_MODEL, None, language);
            assert!(screen.lines().count() <= 12 && screen.contains(words), "{screen}");
            assert!(screen.contains("/data") && screen.contains(OFFLINE_MODEL), "{screen}");
            let commands: Vec<&str> = screen.lines().filter(|line| line.starts_with("  doran ")).collect();
            let column = |line: &&str| line.rfind("  ").map(|gap| display_width(&line[..gap + 2]));
            assert!(commands.iter().all(|line| column(line) == column(&commands[0])), "{screen}");
            assert_eq!(commands.len(), 5, "{screen}");
        }
        let screen = start_screen("/data", "far", Some("http://127.0.0.1:1"), Language::English);
        assert!(
            screen.contains("server  http://127.0.0.1:1\n") && screen.contains("model   far\n"),
            "{screen}"
        );
    }
}

//! `doran demo`: a real server, asked a few questions over its real interface, with what it did printed.

use std::fmt::Write;
use std::io::IsTerminal;
use std::net::SocketAddr;

use doran_engine::ThreadId;
use doran_server::Keys;
use doran_server::api::StartRun;
use tokio::net::TcpListener;

use crate::answer::Answer;
use crate::assemble::{self, House};
use crate::client;
use crate::commands::serve::{Serving, bind};
use crate::config::Config;
use crate::output::{Output, both};

/// Ports tried after the one in the settings.
const MORE_PORTS: u16 = 20;

/// Two from documents, one that says something, one that wants it back.
const QUESTIONS: [&str; 4] = [
    "육아휴직은 최대 얼마나 쓸 수 있나요?",
    "When must receipts be uploaded?",
    "제 이름은 김도란입니다.",
    "제 이름이 뭐라고 했죠?",
];

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after the questions; so it does when stdout is no terminal · 질문이 끝나면 마친다. 표준 출력이 터미널이 아니어도 그렇다
    #[arg(long)]
    once: bool,
}

/// Asks, prints, and serves on.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let listener = free_port(config.listen).await?;
    let house = assemble::house(config).await?;
    let serving = Serving::start(&house, listener, config.retention).await?;
    let asked = tokio::select! {
        asked = questions(&house, config, serving.address, output) => asked,
        trouble = house.trouble() => Err(trouble.error().into()),
    };
    if asked.is_err() || args.once || !std::io::stdout().is_terminal() {
        serving.end(&house).await?;
        return asked;
    }
    let address = serving.address;
    output.tell(&both!("열기: http://{address}   Ctrl-C로 멈춤", "open: http://{address}   Ctrl-C stops it"));
    serving.until_stopped(&house, output).await
}

/// The port in the settings, or the next that is free.
async fn free_port(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let first = bind(address).await;
    let (Err(error), true) = (&first, address.ip().is_loopback()) else { return Ok(first?) };
    tracing::debug!(%error, "the port is taken");
    for more in 1..=MORE_PORTS {
        let port = address.port().saturating_add(more);
        if let Ok(listener) = doran_server::bind(SocketAddr::new(address.ip(), port), &Keys::default()).await
        {
            return Ok(listener);
        }
    }
    Ok(bind(SocketAddr::new(address.ip(), 0)).await?)
}

async fn questions(house: &House, config: &Config, server: SocketAddr, output: Output) -> anyhow::Result<()> {
    let (version, data) = (env!("CARGO_PKG_VERSION"), &config.database);
    let model = &house.model.name;
    let made = both!(" (새로 만듦)", " (new)");
    let age = if house.new { made.text(output.language) } else { "" };
    let head = both!(
        "doran {version}   데이터: {data}{age}   모델: {model} (내장, LLM 아님: 글을 찾아 인용합니다)\n",
        "doran {version}   data: {data}{age}   model: {model} (built in, NOT an LLM: it finds text and cites it)\n"
    );
    output.data(head.text(output.language))?;
    let thread = format!("demo-{}", ThreadId::random());
    let (mut steps, mut tokens) = (0, 0);
    for (question, nth) in QUESTIONS.iter().zip(1..) {
        let run = StartRun::new("assistant", *question);
        let mut answer = Answer::default();
        client::ask(server, &thread, &run, |event| answer.take(event).map(drop)).await?;
        if let Some(failure) = answer.failure {
            return Err(failure.into());
        }
        (steps, tokens) = (steps + answer.steps.len(), tokens + answer.tokens);
        output.data(&told(nth, question, &answer, output)?)?;
    }
    let runs = QUESTIONS.len();
    let sum = both!(
        "실행 {runs}번, 단계 {steps}개, 토큰 약 {tokens}개(어림), 비용 0원. 대화 `{thread}`에 모두 남아 있습니다.\n",
        "{runs} runs, {steps} steps, about {tokens} tokens (estimated), cost 0. All of it is kept in thread `{thread}`.\n"
    );
    output.data(sum.text(output.language))
}

fn told(nth: usize, question: &str, answer: &Answer, output: Output) -> anyhow::Result<String> {
    let steps: Vec<&str> = answer.steps.iter().map(|step| step.text(output.language)).collect();
    let mut text = format!("[{nth}/{}] Q: {question}\n", QUESTIONS.len());
    writeln!(text, "      {}", steps.join(" → "))?;
    writeln!(text, "      A: {}", answer.text.replace('\n', "\n         "))?;
    for source in &answer.sources {
        writeln!(text, "         [{}] {}  ({})", source.number, source.title, source.document)?;
    }
    Ok(text)
}

//! `doran chat`: talk in the terminal, or ask line by line through a pipe.

use std::io::{BufRead, IsTerminal};

use doran_agents::AskOptions;
use doran_engine::{EngineError, StartOptions, ThreadId, ThreadKey, Until};
use doran_server::api::Event;
use tokio::sync::mpsc::{Receiver, channel};

use crate::answer::Answer;
use crate::assemble::{self, House};
use crate::config::Config;
use crate::exit;
use crate::output::{Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Conversation to go on with · 이어 갈 대화
    #[arg(long, value_name = "NAME", default_value = "main")]
    thread: String,
    /// Who is asked · 물어볼 에이전트
    #[arg(long, value_name = "AGENT", default_value = "assistant")]
    agent: String,
}

/// Answers each line of standard input until it ends.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let thread = ThreadId::new(&args.thread).map_err(|error| {
        both!("`--thread`의 값이 맞지 않습니다", "the value of `--thread` does not fit").because(error)
    })?;
    let house = assemble::house(config).await?;
    // A run that was cut off last time is finished first.
    house.runtime.work().await?;
    let thread = ThreadKey { tenant: house.tenant.clone(), thread };
    let talk = async {
        settle(&house, &thread).await?;
        converse(args, &house, &thread, output).await
    };
    let ended = tokio::select! {
        ended = talk => ended,
        asked = exit::asked() => asked,
        trouble = house.trouble() => Err(trouble.error().into()),
    };
    house.runtime.shutdown(std::time::Duration::from_secs(5)).await;
    ended
}

async fn converse(args: &Args, house: &House, thread: &ThreadKey, output: Output) -> anyhow::Result<()> {
    let typed = std::io::stdin().is_terminal();
    if typed {
        let name = &house.model.name;
        output.tell(&both!(
            "{name} · LLM 아님. 글을 찾아 인용합니다. Ctrl-D로 마칩니다",
            "{name} · not an LLM. It finds text and cites it. Ctrl-D ends"
        ));
    }
    let mut lines = lines();
    loop {
        if typed {
            output.prompt("> ");
        }
        let Some(line) = lines.recv().await else { return Ok(()) };
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        answer(args, house, thread, line.trim(), output).await?;
    }
}

/// Waits for a run of an earlier life that is still under way on the thread.
async fn settle(house: &House, thread: &ThreadKey) -> anyhow::Result<()> {
    let store = house.runtime.store();
    let active = match store.thread(thread).await {
        Ok(row) => row.active,
        Err(doran_engine::store::StoreError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(run) = active {
        house.runtime.run(&thread.run(run)).await?.wait().await?;
    }
    Ok(())
}

async fn answer(
    args: &Args,
    house: &House,
    thread: &ThreadKey,
    question: &str,
    output: Output,
) -> anyhow::Result<()> {
    let Some(agent) = house.agents.iter().find(|agent| agent.name == args.agent) else {
        return Err(EngineError::UnknownGraph(args.agent.clone()).into());
    };
    let input = agent.input(question, &AskOptions::default());
    let run = house.runtime.start(&args.agent, thread, Some(&input), StartOptions::default()).await?;
    let mut watch = house.runtime.watch(&run.key(), 0, Until::Rest).await?;
    let mut answer = Answer::default();
    while let Some(event) = watch.next().await? {
        output.data(&answer.take(&Event::of(thread.thread.as_str(), &event)?)?)?;
    }
    if let Some(failure) = answer.failure {
        return Err(failure.into());
    }
    let sources: String =
        answer.sources.iter().map(|source| format!("  [{}] {}\n", source.number, source.title)).collect();
    output.data(&format!("\n{sources}"))
}

/// Lines of standard input. Read by a thread of their own, because reading cannot be given up.
fn lines() -> Receiver<std::io::Result<String>> {
    let (sender, lines) = channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

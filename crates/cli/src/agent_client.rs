//! Where questions are put: to the agents of this process, or to the server that has the data directory already.

use std::collections::BTreeMap;

use doran_engine::store::StoreError;
use doran_engine::{EngineError, RunKey, StartOptions, ThreadId, ThreadKey, WatchUntil};
use doran_server::api::{RunEvent, StartRun};
use serde_json::{Map, Value, json};

use crate::assemble::{self, App, RecordReplay};
use crate::client::{ServerHttpClient, percent_encode};
use crate::config::{Config, Database};
use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};

/// Who is asked.
pub(crate) enum AgentClient {
    /// The agents here.
    Local(Box<App>),
    /// A server of ours.
    Remote(ServerHttpClient),
}

/// The server that has the data directory, if one does.
pub(crate) fn running_server(config: &Config) -> Option<ServerHttpClient> {
    let alone = matches!(config.database, Database::Sqlite(_));
    (alone && data_dir::is_locked(&config.data_dir))
        .then(|| ServerHttpClient::from_data_dir(&config.data_dir))
        .flatten()
}

/// A thread by the name a person gave.
pub(crate) fn parse_thread_name(name: &str) -> Result<ThreadId, BilingualMessage> {
    ThreadId::new(name).map_err(|error| {
        bilingual!("`--thread`의 값이 맞지 않습니다", "the value of `--thread` does not fit")
            .with_cause(error)
    })
}

impl AgentClient {
    /// Finds out who is to be asked.
    pub(crate) async fn open(config: &Config, tape: &RecordReplay) -> anyhow::Result<Self> {
        if let Some(client) = running_server(config) {
            if tape.record.is_some() || tape.replay.is_some() {
                return Err(bilingual!(
                    "데이터 디렉터리를 쓰는 서버가 답합니다. `--record`와 `--replay`는 그 서버를 시작할 때 주세요",
                    "the server that has the data directory answers; give `--record` and `--replay` when it is started"
                )
                .into());
            }
            return Ok(Self::Remote(client));
        }
        let house = assemble::assemble_app(config, tape).await?;
        // A run that was cut off last time is finished first.
        house.runtime.start_worker().await?;
        Ok(Self::Local(Box::new(house)))
    }

    /// Asks, and hands every event to `each`, until the answer is there or the run waits.
    pub(crate) async fn ask(
        &self,
        thread: &ThreadId,
        run: &StartRun,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs", percent_encode(thread.as_str()));
                client.stream_events(&path, Some(run), each).await
            }
            Self::Local(house) => {
                let key = ThreadKey { tenant: house.tenant.clone(), thread: thread.clone() };
                let started = start_run(house, &key, run).await?;
                watch_run(house, &started, 0, each).await
            }
        }
    }

    /// Answers what a run asked, and hands the events after that to `each`.
    pub(crate) async fn resume_with_answers(
        &self,
        thread: &ThreadId,
        run: &str,
        after: u64,
        answers: &BTreeMap<String, Value>,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs/{run}", percent_encode(thread.as_str()));
                client.post(&format!("{path}/resume"), &json!({ "answers": answers })).await?;
                client.stream_events(&format!("{path}/events?after={after}"), None::<&Value>, each).await
            }
            Self::Local(house) => {
                let key = ThreadKey { tenant: house.tenant.clone(), thread: thread.clone() };
                let run = key.run(run.parse()?);
                house.runtime.answer(&run, answers).await?;
                watch_run(house, &run, after, each).await
            }
        }
    }

    /// Waits for a run of an earlier life that is still under way on the thread.
    pub(crate) async fn wait_for_active_run(&self, thread: &ThreadId) -> anyhow::Result<()> {
        let Self::Local(house) = self else { return Ok(()) };
        let key = ThreadKey { tenant: house.tenant.clone(), thread: thread.clone() };
        if let Some(run) = house.runtime.active_run(&key).await? {
            run.wait().await?;
        }
        Ok(())
    }

    /// Hands the events of a run that waits for answers on the thread to `each`, up to its questions; none if none waits.
    pub(crate) async fn watch_waiting_run(
        &self,
        thread: &ThreadId,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let listed = client.get("/api/approvals").await?;
                let open = listed["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let mine = open.iter().find(|asked| asked["thread"] == thread.as_str());
                let Some(run) = mine.and_then(|asked| asked["run"].as_str()) else { return Ok(()) };
                let path = format!("/api/threads/{}/runs/{run}/events", percent_encode(thread.as_str()));
                client.stream_events(&path, None::<&Value>, each).await
            }
            Self::Local(house) => {
                let key = ThreadKey { tenant: house.tenant.clone(), thread: thread.clone() };
                let asked = match house.runtime.open_questions(&key).await {
                    Ok(asked) => asked,
                    Err(EngineError::Store(StoreError::NotFound { .. })) => Vec::new(),
                    Err(error) => return Err(error.into()),
                };
                let Some((run, _)) = asked.first() else { return Ok(()) };
                watch_run(house, run, 0, each).await
            }
        }
    }

    /// Ends the run that is under way on the thread, if one is, and waits until it is over.
    pub(crate) async fn cancel_active_run(&self, thread: &ThreadId) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}", percent_encode(thread.as_str()));
                let row = client.get(&path).await?;
                let Some(run) = row["active"].as_str() else { return Ok(()) };
                let path = format!("{path}/runs/{run}");
                client.post(&format!("{path}/cancel"), &json!({})).await?;
                client.stream_events(&format!("{path}/events"), None::<&Value>, |_| Ok(())).await
            }
            Self::Local(house) => {
                let key = ThreadKey { tenant: house.tenant.clone(), thread: thread.clone() };
                let Some(run) = house.runtime.active_run(&key).await? else { return Ok(()) };
                house.runtime.cancel(&run.key()).await?;
                run.wait().await?;
                Ok(())
            }
        }
    }

    /// Ends when a write here failed in a way that only a new start can settle.
    pub(crate) async fn wait_for_unknown_write(&self) -> crate::exit::UnknownWriteOutcome {
        match self {
            Self::Local(house) => house.wait_for_unknown_write().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Lets go in order.
    pub(crate) async fn close(&self) {
        if let Self::Local(house) = self {
            house.runtime.shutdown(std::time::Duration::from_secs(5)).await;
        }
    }
}

async fn start_run(house: &App, thread: &ThreadKey, run: &StartRun) -> anyhow::Result<RunKey> {
    let Some(agent) = house.agents.iter().find(|agent| agent.name == run.agent) else {
        return Err(
            unknown_agent_error(&run.agent, house.agents.iter().map(|agent| agent.name.as_str())).into()
        );
    };
    if house.runtime.find_thread_row(thread).await?.is_none() {
        let title: String = run.message.lines().next().unwrap_or_default().chars().take(60).collect();
        let about = [("title", json!(title)), ("agent", json!(run.agent))];
        let about: Map<String, Value> =
            about.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        house.runtime.put_thread(thread, &about).await?;
    }
    let input = agent.input(&run.message, &run.options());
    let started = house.runtime.start(&run.agent, thread, Some(&input), StartOptions::default()).await;
    let name = &thread.thread;
    match started {
        Ok(started) => Ok(started.key()),
        Err(EngineError::Store(StoreError::Busy { .. })) => Err(bilingual!(
            "이 대화에는 끝나지 않은 실행이 있습니다. `doran chat --thread '{name}'`나 웹 화면에서 그 실행에 답하거나, `--thread`로 다른 대화를 고르세요",
            "this conversation has a run that is not over; answer it with `doran chat --thread '{name}'` or on the page, or choose another with `--thread`"
        )
        .with_code("thread_busy")
        .into()),
        Err(error) => Err(error.into()),
    }
}

/// The sentence for an agent that there is not.
pub(crate) fn unknown_agent_error<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> BilingualMessage {
    let known = known.collect::<Vec<_>>().join(", ");
    bilingual!(
        "`{asked}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
        "there is no agent `{asked}`; there are: {known}"
    )
    .with_code("unknown_agent")
}

async fn watch_run(
    house: &App,
    run: &RunKey,
    after: u64,
    mut each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let row = house.runtime.run_row(run).await?;
    let mut watch = house.runtime.watch(run, after, WatchUntil::RunEndedOrPaused).await?;
    let agent = house.agents.iter().find(|agent| agent.name == row.graph);
    while let Some(event) = watch.try_next().await? {
        each(&RunEvent::from_engine(row.thread.thread.as_str(), agent, &event)?)?;
    }
    Ok(())
}

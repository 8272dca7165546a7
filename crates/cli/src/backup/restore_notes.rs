//! What a restore says besides that it is done: what is different in the settings, and what the next commands read.

use std::path::Path;

use super::restored_settings::RestoredSettings;
use super::{BackupManifest, SETTINGS_NAME, absolute};
use crate::assemble::agents_by_storage;
use crate::config::{Config, Database, SearchStore};
use crate::output::{BilingualMessage, bilingual};

/// What became of the settings file.
pub(super) enum SettingsOutcome {
    /// The backup has none.
    None,
    Restored(RestoredSettings),
    /// It is kept under another name, under which Doran does not read it.
    SetAside,
}

/// The name of a settings file that is kept but not read.
pub(super) const SET_ASIDE_NAME: &str = "doran.toml.backup";

/// What is different in the restored settings, and which servers they use.
pub(super) fn settings_notes(config: &Config, settings: &SettingsOutcome) -> Vec<BilingualMessage> {
    let settings = match settings {
        SettingsOutcome::None => return Vec::new(),
        SettingsOutcome::Restored(settings) => settings,
        SettingsOutcome::SetAside => {
            let shown = config.data_dir.join(SET_ASIDE_NAME).display().to_string();
            return vec![bilingual!(
                "백업의 설정은 쓰지 않습니다. 데이터 디렉터리 밖으로 이어지는 경로가 있고 자동으로 고칠 수 없습니다. `{shown}`을(를) 고친 뒤 이름을 `{SETTINGS_NAME}`로 바꾸세요",
                "the settings of the backup are not in use, because they lead out of the data directory and cannot be changed safely; correct `{shown}` and rename it to `{SETTINGS_NAME}`"
            )];
        }
    };
    let mut notes: Vec<BilingualMessage> = settings.changes.iter().map(|change| change.message()).collect();
    notes.extend(settings.addresses.iter().map(|address| {
        bilingual!(
            "복원한 설정은 `{address}`을(를) 그대로 씁니다. 이 디렉터리에서 실행하는 명령은 그 서버에서 읽고 그 서버에 씁니다",
            "the restored settings still use `{address}`: commands on this directory read from that server and write to it"
        )
    }));
    notes
}

/// The settings file in force, unless it is the restored one: that of an earlier restore which was not completed.
pub(super) fn other_settings_file(config: &Config) -> Option<&Path> {
    let restored = absolute(&config.data_dir).join(SETTINGS_NAME);
    config.file.as_deref().filter(|file| absolute(file) != restored)
}

/// Settings in force that make the next commands read something else than what was restored.
pub(super) fn conflict_notes(
    config: &Config,
    manifest: &BackupManifest,
    settings_are_readable: bool,
) -> Vec<BilingualMessage> {
    let mut notes = Vec::new();
    let data_dir = absolute(&config.data_dir);
    let shown_dir = config.data_dir.display();
    let other_file = other_settings_file(config);
    if let Some(file) = other_file.filter(|_| settings_are_readable) {
        let (file, restored) = (file.display(), config.data_dir.join(SETTINGS_NAME));
        let restored = restored.display();
        notes.push(bilingual!(
            "설정 파일 `{file}`이(가) 적용 중이므로 복원한 설정은 읽지 않습니다. 복원한 설정을 쓰려면 명령에 `--config {restored}`를 붙이세요",
            "the settings file `{file}` is in force, so the restored settings are not read; to use them, add `--config {restored}` to commands"
        ));
    }
    let mut outside = Vec::new();
    if let Database::Sqlite(path) = &config.database
        && absolute(path) != data_dir.join("doran.db")
    {
        outside.push(("database".to_owned(), path.clone()));
    }
    if let SearchStore::Local(path) = &config.search.store
        && !absolute(path).starts_with(&data_dir)
    {
        outside.push(("index_path".to_owned(), path.clone()));
    }
    // Without another settings file in force, agents are those of the restored one.
    if other_file.is_some()
        && let Ok(storage) = agents_by_storage(config, &config.tables.agent_settings())
    {
        for (path, agents) in &storage {
            let Some(path) = path else { continue };
            let restored = |agent: &String| {
                let mut databases = manifest.thread_databases.iter();
                let one = databases.find(|one| one.agents.contains(agent))?;
                Some(data_dir.join(&one.path))
            };
            let moved = agents.iter().filter(|agent| match restored(agent) {
                Some(place) => place != absolute(path),
                None => !absolute(path).starts_with(&data_dir),
            });
            outside.extend(moved.map(|agent| (format!("agents.{agent}.checkpoint_db_path"), path.clone())));
        }
        for one in &manifest.thread_databases {
            let has_file = |agent: &String| {
                storage.iter().any(|(path, agents)| path.is_some() && agents.contains(agent))
            };
            for agent in one.agents.iter().filter(|agent| !has_file(agent)) {
                let place = data_dir.join(&one.path);
                let place = place.display();
                notes.push(bilingual!(
                    "에이전트 `{agent}`의 스레드는 `{place}`에 있지만 적용 중인 설정은 그 파일을 쓰지 않습니다. `[agents.{agent}]`에 `checkpoint_db_path`로 적으세요",
                    "the threads of the agent `{agent}` are in `{place}`, which the settings in force do not use; set it as `checkpoint_db_path` of the agent"
                ));
            }
        }
    }
    for (key, path) in outside {
        let path = path.display();
        notes.push(bilingual!(
            "적용 중인 설정(파일, 환경 변수, 플래그)의 `{key}`은(는) `{path}`입니다. 복원한 `{shown_dir}`이(가) 아니라 그곳을 읽고 씁니다",
            "`{key}` of the settings in force (file, environment or flags) is `{path}`: commands read and write there, and not in the restored `{shown_dir}`"
        ));
    }
    notes
}

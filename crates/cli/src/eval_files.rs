//! The files of evaluations: sets of questions, the last reports and the last run of each, and what all of them used. The page edits
//! the sets, `doran eval agent` reads a set anywhere.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use doran_agents::Agent;
use doran_agents::eval::{AgentEvalReport, EvalDocuments, EvalVariant};
use doran_engine::TenantId;
use doran_retrieval::{DocumentIndex, Language, RamKeywordIndex};
use doran_server::api::EvalRunInfo;
use doran_server::{EvalStore, EvalStoreError, EvalUsage, EvalUsageStore, ModelRegistry, StoredEvalSet};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::assemble::{self, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::eval_folder::{EvalFile, EvalFolder, ReplacedFile, stem_of_path};
use crate::output::{BilingualMessage, bilingual};

/// How a file with a set ends.
const SET_EXTENSION: &str = "toml";
/// How many variants of a set keep their last report.
const MAX_REPORTS: usize = 16;
/// How many days it is known what evaluations used: more than can be requested.
const MAX_USAGE_DAYS: i64 = 400;
const DAY_MILLIS: i64 = 86_400_000;

/// The reports of a set.
pub(crate) struct EvalReportFiles {
    folder: EvalFolder,
    tenant: TenantId,
    stem: String,
}

impl EvalReportFiles {
    /// The reports of the set in this file, below this data directory. Two sets with the same name are two.
    pub(crate) fn of_set(data_dir: &Path, file: &Path) -> Self {
        let folder = EvalFolder::in_directory(data_dir);
        Self { folder, tenant: TenantId::local(), stem: stem_of_path(file) }
    }

    /// Reports with the configured models have the plain name.
    fn name_of(&self, variant: &EvalVariant) -> String {
        let stem = &self.stem;
        if *variant == EvalVariant::default() {
            return format!("{stem}.json");
        }
        let EvalVariant { model, instructions } = variant;
        let digest = Sha256::digest(format!("{model:?}\n{instructions:?}"));
        format!("{stem}.{}.json", hex::encode(&digest[..6]))
    }

    /// The last report of a variant.
    pub(crate) async fn read(
        &self,
        variant: &EvalVariant,
    ) -> Result<Option<AgentEvalReport>, BilingualMessage> {
        self.read_file(&self.name_of(variant)).await
    }

    async fn read_file(&self, name: &str) -> Result<Option<AgentEvalReport>, BilingualMessage> {
        read_json(&self.folder, &self.tenant, name).await
    }

    /// The last report of every variant, the newest first.
    async fn read_all(&self) -> Result<Vec<AgentEvalReport>, BilingualMessage> {
        let mut reports = Vec::new();
        for (name, _) in self.names().await? {
            reports.extend(self.read_file(&name).await?);
        }
        reports.sort_by_key(|report| std::cmp::Reverse(report.ended_at));
        Ok(reports)
    }

    /// The report that was written last. The others are not read.
    async fn read_newest(&self) -> Result<Option<AgentEvalReport>, BilingualMessage> {
        match self.names().await?.into_iter().max_by_key(|(_, written_at)| *written_at) {
            Some((name, _)) => self.read_file(&name).await,
            None => Ok(None),
        }
    }

    /// The names of the files, and when they were written.
    async fn names(&self) -> Result<Vec<(String, i64)>, BilingualMessage> {
        let is_ours = |name: &str| {
            let rest = name.strip_prefix(self.stem.as_str()).and_then(|rest| rest.strip_suffix(".json"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let files = self.folder.list(&self.tenant).await?.into_iter().filter(|file| is_ours(&file.name));
        Ok(files.map(|file| (file.name, file.written_at)).collect())
    }

    /// Stores a report in place of the last one of its variant. Reports of variants that were not run for long are removed.
    pub(crate) async fn save(&self, report: &AgentEvalReport) -> Result<(), BilingualMessage> {
        write_json(&self.folder, &self.tenant, &self.name_of(&report.variant), report).await?;
        for old in self.read_all().await?.iter().skip(MAX_REPORTS) {
            self.folder.remove(&self.tenant, &self.name_of(&old.variant)).await?;
        }
        Ok(())
    }
}

async fn read_json<T: DeserializeOwned>(
    folder: &EvalFolder,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<T>, BilingualMessage> {
    let file = folder.read(tenant, name).await?;
    file.map(|file| parse_json(name, &file)).transpose()
}

fn parse_json<T: DeserializeOwned>(name: &str, file: &EvalFile) -> Result<T, BilingualMessage> {
    serde_json::from_slice(&file.bytes).map_err(|error| {
        bilingual!(
            "`evals/`의 `{name}`을(를) 읽을 수 없습니다. 지우면 처음부터 시작합니다",
            "cannot read `{name}` in `evals/`; remove it to start anew"
        )
        .with_cause(error)
    })
}

async fn write_json<T: Serialize + Sync>(
    folder: &EvalFolder,
    tenant: &TenantId,
    name: &str,
    value: &T,
) -> Result<(), BilingualMessage> {
    folder.write(tenant, name, ReplacedFile::Any, &to_json(name, value)?).await?;
    Ok(())
}

fn to_json<T: Serialize>(name: &str, value: &T) -> Result<Vec<u8>, BilingualMessage> {
    serde_json::to_vec_pretty(value).map_err(|error| {
        bilingual!("`{name}`에 쓸 수 없습니다", "cannot write to `{name}`").with_cause(error)
    })
}

/// What evaluations used: a file for each day, UTC.
pub(crate) struct EvalUsageFiles(EvalFolder);

impl EvalUsageFiles {
    pub(crate) fn new(folder: EvalFolder) -> Self {
        Self(folder)
    }

    fn name_of(day: i64) -> String {
        format!("usage.{day}.json")
    }

    /// The days with a file, oldest first.
    async fn days(&self, tenant: &TenantId) -> Result<Vec<i64>, BilingualMessage> {
        let day = |name: &str| name.strip_prefix("usage.")?.strip_suffix(".json")?.parse().ok();
        let mut days: Vec<i64> =
            self.0.list(tenant).await?.iter().filter_map(|file| day(&file.name)).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// Adds what one question used.
    pub(crate) async fn add_usage(
        &self,
        tenant: &TenantId,
        usage: &EvalUsage,
    ) -> Result<(), BilingualMessage> {
        let day = usage.at.div_euclid(DAY_MILLIS);
        let name = Self::name_of(day);
        loop {
            let file = self.0.read(tenant, &name).await?;
            let mut rows: Vec<EvalUsage> = match &file {
                Some(file) => parse_json(&name, file)?,
                None => {
                    for old in self.days(tenant).await?.into_iter().filter(|old| old + MAX_USAGE_DAYS < day) {
                        self.0.remove(tenant, &Self::name_of(old)).await?;
                    }
                    Vec::new()
                }
            };
            usage.clone().add_to(&mut rows);
            let replaced = ReplacedFile::Revision(file.map(|file| file.revision));
            // Another process may have written meanwhile.
            if self.0.write(tenant, &name, replaced, &to_json(&name, &rows)?).await? {
                return Ok(());
            }
        }
    }

    async fn usage_since(&self, tenant: &TenantId, since: i64) -> Result<Vec<EvalUsage>, BilingualMessage> {
        let mut usage = Vec::new();
        for day in self.days(tenant).await?.into_iter().filter(|day| (day + 1) * DAY_MILLIS > since) {
            let rows: Option<Vec<EvalUsage>> = read_json(&self.0, tenant, &Self::name_of(day)).await?;
            usage.extend(rows.into_iter().flatten().filter(|row| row.at >= since));
        }
        Ok(usage)
    }
}

#[async_trait]
impl EvalUsageStore for EvalUsageFiles {
    async fn add(&self, tenant: &TenantId, usage: EvalUsage) -> Result<(), EvalStoreError> {
        self.add_usage(tenant, &usage).await.map_err(|error| store_error(&error))
    }

    async fn since(&self, tenant: &TenantId, since: i64) -> Result<Vec<EvalUsage>, EvalStoreError> {
        self.usage_since(tenant, since).await.map_err(|error| store_error(&error))
    }
}

/// The evaluations of a server.
pub(crate) struct EvalFiles {
    config: Config,
    folder: EvalFolder,
    index: Arc<dyn DocumentIndex>,
    models: Arc<dyn ModelRegistry>,
}

impl EvalFiles {
    pub(crate) fn new(
        config: Config,
        folder: EvalFolder,
        index: Arc<dyn DocumentIndex>,
        models: Arc<dyn ModelRegistry>,
    ) -> Self {
        Self { config, folder, index, models }
    }

    fn report_files(&self, tenant: &TenantId, name: &str) -> EvalReportFiles {
        let stem = self.folder.report_stem(tenant, name, &set_file(name));
        EvalReportFiles { folder: self.folder.clone(), tenant: tenant.clone(), stem }
    }

    async fn remove_set(&self, tenant: &TenantId, name: &str) -> Result<(), BilingualMessage> {
        // The names of the reports may come from the path of the file, which has to be there.
        let reports = self.report_files(tenant, name).names().await?;
        for file in
            [set_file(name), run_file(name)].into_iter().chain(reports.into_iter().map(|(name, _)| name))
        {
            self.folder.remove(tenant, &file).await?;
        }
        Ok(())
    }

    async fn assemble(&self, documents: EvalDocuments) -> anyhow::Result<Vec<Agent>> {
        let index: Arc<dyn DocumentIndex> = match documents {
            EvalDocuments::Library => self.index.clone(),
            EvalDocuments::Samples => {
                let index = Arc::new(RamKeywordIndex::default());
                assemble::samples::add_samples(index.as_ref()).await?;
                index
            }
        };
        let replay = RecordReplay::default();
        // The default may have been changed on the page since the server was started.
        let mut config = self.config.clone();
        if let Some(default) = self.models.options().into_iter().find(|option| option.is_default) {
            config.model = default.id;
        }
        let staff = assemble::assemble_agents(&config, &replay, index, DataDirWrites::Forbidden).await?;
        Ok(staff.agents)
    }
}

fn set_file(name: &str) -> String {
    format!("{name}.{SET_EXTENSION}")
}

/// No name of a set holds a dot, so no other file is called that.
fn run_file(name: &str) -> String {
    format!("run.{name}.json")
}

#[async_trait]
impl EvalStore for EvalFiles {
    async fn names(&self, tenant: &TenantId) -> Result<Vec<String>, EvalStoreError> {
        let files = self.folder.list(tenant).await.map_err(|error| store_error(&error))?;
        let end = format!(".{SET_EXTENSION}");
        Ok(files.iter().filter_map(|file| file.name.strip_suffix(&end).map(str::to_owned)).collect())
    }

    async fn read(&self, tenant: &TenantId, name: &str) -> Result<Option<StoredEvalSet>, EvalStoreError> {
        let file = self.folder.read(tenant, &set_file(name)).await.map_err(|error| store_error(&error))?;
        let Some(EvalFile { bytes, revision }) = file else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|error| {
            let wrong = bilingual!(
                "평가 파일 `{name}`을(를) 읽을 수 없습니다",
                "cannot read the questions in `{name}`"
            );
            store_error(&wrong.with_cause(error))
        })?;
        Ok(Some(StoredEvalSet { text, revision }))
    }

    async fn write(
        &self,
        tenant: &TenantId,
        name: &str,
        replaced: Option<u64>,
        text: &str,
    ) -> Result<bool, EvalStoreError> {
        let replaced = ReplacedFile::Revision(replaced);
        let written = self.folder.write(tenant, &set_file(name), replaced, text.as_bytes()).await;
        written.map_err(|error| store_error(&error))
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), EvalStoreError> {
        self.remove_set(tenant, name).await.map_err(|error| store_error(&error))
    }

    async fn reports(&self, tenant: &TenantId, name: &str) -> Result<Vec<AgentEvalReport>, EvalStoreError> {
        self.report_files(tenant, name).read_all().await.map_err(|error| store_error(&error))
    }

    async fn newest_report(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<AgentEvalReport>, EvalStoreError> {
        self.report_files(tenant, name).read_newest().await.map_err(|error| store_error(&error))
    }

    async fn save_report(
        &self,
        tenant: &TenantId,
        name: &str,
        report: &AgentEvalReport,
    ) -> Result<(), EvalStoreError> {
        self.report_files(tenant, name).save(report).await.map_err(|error| store_error(&error))
    }

    async fn last_run(&self, tenant: &TenantId, set: &str) -> Result<Option<EvalRunInfo>, EvalStoreError> {
        read_json(&self.folder, tenant, &run_file(set)).await.map_err(|error| store_error(&error))
    }

    async fn save_run(&self, tenant: &TenantId, run: &EvalRunInfo) -> Result<(), EvalStoreError> {
        let saved = write_json(&self.folder, tenant, &run_file(&run.set), run).await;
        saved.map_err(|error| store_error(&error))
    }

    async fn agents(&self, documents: EvalDocuments) -> Result<Vec<Agent>, EvalStoreError> {
        self.assemble(documents).await.map_err(|error| EvalStoreError {
            en: format!("the agents cannot be made: {error:#}"),
            ko: format!("에이전트를 만들 수 없습니다: {error:#}"),
        })
    }
}

fn store_error(error: &BilingualMessage) -> EvalStoreError {
    EvalStoreError {
        en: error.text(Language::English).to_owned(),
        ko: error.text(Language::Korean).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use doran_agents::eval::EvalCaseUsage;
    use doran_engine::store::{RamStore, RunUsage};

    use super::*;
    use crate::replica::SharedValues;
    use crate::test_directory::TestDirectory;

    fn report(model: Option<&str>, ended_at: i64) -> AgentEvalReport {
        let variant = EvalVariant { model: model.map(str::to_owned), instructions: None };
        AgentEvalReport { variant, ended_at, ..AgentEvalReport::default() }
    }

    #[tokio::test]
    async fn each_variant_keeps_its_last_report_and_old_ones_are_removed() {
        let directory = TestDirectory::new();
        let files = EvalReportFiles::of_set(directory.path(), &directory.path().join("leave.toml"));
        let other = EvalReportFiles::of_set(directory.path(), &directory.path().join("leave-2.toml"));
        other.save(&report(None, 1)).await.expect("saved");
        for at in 0..20 {
            files.save(&report(Some(&format!("m{at}")), at)).await.expect("saved");
        }
        files.save(&report(None, 100)).await.expect("saved");
        files.save(&report(Some("m19"), 101)).await.expect("saved");
        let all = files.read_all().await.expect("reports");
        assert_eq!(all.len(), MAX_REPORTS);
        assert_eq!((all[0].ended_at, all[1].ended_at), (101, 100), "the newest first");
        assert!(all.iter().all(|one| one.variant.model.as_deref() != Some("m0")), "the oldest are gone");
        let default = files.read(&EvalVariant::default()).await.expect("read");
        assert_eq!(default.map(|one| one.ended_at), Some(100));
        assert!(files.read_newest().await.expect("read").is_some());
        assert_eq!(other.read_all().await.expect("reports").len(), 1, "another set has its own");
    }

    #[tokio::test]
    async fn what_was_used_is_kept_for_a_year_by_tenant() {
        let directory = TestDirectory::new();
        let values: SharedValues = Arc::new(RamStore::new());
        let here = TenantId::local();
        for folder in
            [EvalFolder::new(directory.path(), None), EvalFolder::new(directory.path(), Some(&values))]
        {
            // Two processes have the same files.
            let (files, again) = (EvalUsageFiles::new(folder.clone()), EvalUsageFiles::new(folder.clone()));
            let usage = |day: i64| {
                let used = RunUsage { input_tokens: 1, output_tokens: 1, cost_micros: 10 };
                let usage = EvalCaseUsage { turns: 1, used, model_calls: Vec::new(), is_exact: true };
                EvalUsage::of_case(day * DAY_MILLIS, "react", None, usage)
            };
            for day in [10, 700, 701, 701] {
                files.add(&here, usage(day)).await.expect("added");
                again.add(&here, usage(day)).await.expect("added");
            }
            let cost = async |since: i64| {
                let rows = files.since(&here, since * DAY_MILLIS).await.expect("rows");
                rows.iter().map(|row| row.used.cost_micros).sum::<u64>()
            };
            assert_eq!(cost(701).await, 40);
            assert_eq!(cost(0).await, 60, "what is older than a year is forgotten");
            let other = TenantId::new("b").expect("a name");
            assert_eq!(files.since(&other, 0).await.expect("rows"), []);
        }
    }
}

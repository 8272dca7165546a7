//! The files of evaluations: sets of questions in `evals/` of the data directory, and the last report of each set. The page edits the
//! sets there, `doran eval agent` reads a set anywhere.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_agents::Agent;
use doran_agents::eval::{AgentEvalReport, EvalDocuments, EvalVariant};
use doran_engine::TenantId;
use doran_retrieval::{DocumentIndex, Language, RamKeywordIndex};
use doran_server::{EvalStore, EvalStoreError, ModelRegistry};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};

use crate::assemble::{self, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};

/// The folder in the data directory.
const EVALS_FOLDER: &str = "evals";
/// How a file with a set ends.
const SET_EXTENSION: &str = "toml";
/// How many variants of a set keep their last report.
const MAX_REPORTS: usize = 16;
/// The most bytes of a file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The reports of a set. The names of their files depend on the full path of the set, so two sets with the same name are two.
pub(crate) struct EvalReportFiles {
    folder: PathBuf,
    stem: String,
}

impl EvalReportFiles {
    /// The reports of the set in this file, below this data directory.
    pub(crate) fn of_set(data_dir: &Path, file: &Path) -> Self {
        Self::in_folder(data_dir.join(EVALS_FOLDER), file)
    }

    fn in_folder(folder: PathBuf, file: &Path) -> Self {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let place = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
        Self { folder, stem: format!("{stem}-{}", hex::encode(&digest[..4])) }
    }

    /// What is asked with what is set up has the plain name.
    fn path_of(&self, variant: &EvalVariant) -> PathBuf {
        let stem = &self.stem;
        if *variant == EvalVariant::default() {
            return self.folder.join(format!("{stem}.json"));
        }
        let EvalVariant { model, instructions } = variant;
        let digest = Sha256::digest(format!("{model:?}\n{instructions:?}"));
        self.folder.join(format!("{stem}.{}.json", hex::encode(&digest[..6])))
    }

    /// The last report of a variant.
    pub(crate) fn read(&self, variant: &EvalVariant) -> Result<Option<AgentEvalReport>, BilingualMessage> {
        read_report(&self.path_of(variant))
    }

    /// The last report of every variant, the newest first.
    fn read_all(&self) -> Result<Vec<AgentEvalReport>, BilingualMessage> {
        let mut reports = Vec::new();
        for path in self.paths()? {
            reports.extend(read_report(&path)?);
        }
        reports.sort_by_key(|report| std::cmp::Reverse(report.ended_at));
        Ok(reports)
    }

    /// The report that was written last. The others are not read.
    fn read_newest(&self) -> Result<Option<AgentEvalReport>, BilingualMessage> {
        let written = |path: &PathBuf| fs::metadata(path).and_then(|about| about.modified()).ok();
        match self.paths()?.into_iter().max_by_key(written) {
            Some(path) => read_report(&path),
            None => Ok(None),
        }
    }

    fn paths(&self) -> Result<Vec<PathBuf>, BilingualMessage> {
        let is_ours = |name: &str| {
            let rest = name.strip_prefix(self.stem.as_str()).and_then(|rest| rest.strip_suffix(".json"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        Ok(list_folder(&self.folder)?
            .into_iter()
            .filter(|name| is_ours(name))
            .map(|name| self.folder.join(name))
            .collect())
    }

    /// Stores a report in place of the last one of its variant. Reports of variants that were not asked for long are removed.
    pub(crate) fn save(&self, report: &AgentEvalReport) -> Result<(), BilingualMessage> {
        let path = self.path_of(&report.variant);
        let shown = path.display();
        let wrong = || bilingual!("결과를 `{shown}`에 둘 수 없습니다", "cannot keep the report in `{shown}`");
        data_dir::ensure_private_dir(&self.folder)?;
        let bytes = serde_json::to_vec_pretty(report).map_err(|error| wrong().with_cause(error))?;
        data_dir::write_private_file(&path, &bytes).map_err(|error| wrong().with_cause(error))?;
        for old in self.read_all()?.iter().skip(MAX_REPORTS) {
            fs::remove_file(self.path_of(&old.variant)).map_err(|error| wrong().with_cause(error))?;
        }
        Ok(())
    }
}

fn read_report(path: &Path) -> Result<Option<AgentEvalReport>, BilingualMessage> {
    let shown = path.display();
    let wrong = || {
        bilingual!(
            "지난 결과 `{shown}`을(를) 읽을 수 없습니다. 지우면 처음부터 비교합니다",
            "cannot read the last report `{shown}`; remove it to start anew"
        )
    };
    match read_bounded(path) {
        Ok(Some(bytes)) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong().with_cause(error))
        }
        Ok(None) => Ok(None),
        Err(error) => Err(wrong().with_cause(error)),
    }
}

/// The bytes of a file, if there is one.
fn read_bounded(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(about) if about.len() > MAX_FILE_BYTES => Err(std::io::Error::other("the file is too large")),
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of the files in a folder; none if it is not there.
fn list_folder(folder: &Path) -> Result<Vec<String>, BilingualMessage> {
    let shown = folder.display();
    let wrong = || bilingual!("폴더 `{shown}`을(를) 읽을 수 없습니다", "cannot read the folder `{shown}`");
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong().with_cause(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| wrong().with_cause(error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

/// The evaluations of a server.
pub(crate) struct EvalFiles {
    config: Config,
    index: Arc<dyn DocumentIndex>,
    models: Arc<dyn ModelRegistry>,
}

impl EvalFiles {
    pub(crate) fn new(config: Config, index: Arc<dyn DocumentIndex>, models: Arc<dyn ModelRegistry>) -> Self {
        Self { config, index, models }
    }

    /// Each tenant has a folder. That of a program without keys is the one that the command line uses.
    fn folder(&self, tenant: &TenantId) -> PathBuf {
        let folder = self.config.data_dir.join(EVALS_FOLDER);
        if *tenant == TenantId::local() {
            return folder;
        }
        // The names of two tenants may differ in capital letters only, which some file systems do not tell apart.
        let digest = Sha256::digest(tenant.as_str().as_bytes());
        folder.join(format!("tenant-{}", hex::encode(&digest[..16])))
    }

    fn set_path(&self, tenant: &TenantId, name: &str) -> PathBuf {
        self.folder(tenant).join(format!("{name}.{SET_EXTENSION}"))
    }

    fn report_files(&self, tenant: &TenantId, name: &str) -> EvalReportFiles {
        EvalReportFiles::in_folder(self.folder(tenant), &self.set_path(tenant, name))
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

impl EvalStore for EvalFiles {
    fn names(&self, tenant: &TenantId) -> Result<Vec<String>, EvalStoreError> {
        let names = list_folder(&self.folder(tenant)).map_err(|error| store_error(&error))?;
        let set_name = |name: String| name.strip_suffix(&format!(".{SET_EXTENSION}")).map(str::to_owned);
        Ok(names.into_iter().filter_map(set_name).collect())
    }

    fn read(&self, tenant: &TenantId, name: &str) -> Result<Option<String>, EvalStoreError> {
        let path = self.set_path(tenant, name);
        let shown = path.display();
        let wrong = || {
            bilingual!("평가 파일 `{shown}`을(를) 읽을 수 없습니다", "cannot read the questions in `{shown}`")
        };
        let bytes = read_bounded(&path).map_err(|error| store_error(&wrong().with_cause(error)))?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|error| store_error(&wrong().with_cause(error)))
    }

    fn write(&self, tenant: &TenantId, name: &str, text: &str) -> Result<(), EvalStoreError> {
        let path = self.set_path(tenant, name);
        let shown = path.display();
        let wrong =
            || bilingual!("평가 파일 `{shown}`에 쓸 수 없습니다", "cannot write the questions to `{shown}`");
        data_dir::ensure_private_dir(&self.config.data_dir.join(EVALS_FOLDER))
            .and_then(|()| data_dir::ensure_private_dir(&self.folder(tenant)))
            .map_err(|error| store_error(&error))?;
        data_dir::write_private_file(&path, text.as_bytes())
            .map_err(|error| store_error(&wrong().with_cause(error)))
    }

    fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), EvalStoreError> {
        let path = self.set_path(tenant, name);
        // The names of the reports come from the path of the file, which has to be there.
        let reports = self.report_files(tenant, name).paths().map_err(|error| store_error(&error))?;
        for path in [path].into_iter().chain(reports) {
            let shown = path.display();
            fs::remove_file(&path).map_err(|error| {
                let wrong = bilingual!("`{shown}`을(를) 지울 수 없습니다", "cannot delete `{shown}`");
                store_error(&wrong.with_cause(error))
            })?;
        }
        Ok(())
    }

    fn reports(&self, tenant: &TenantId, name: &str) -> Result<Vec<AgentEvalReport>, EvalStoreError> {
        self.report_files(tenant, name).read_all().map_err(|error| store_error(&error))
    }

    fn newest_report(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<AgentEvalReport>, EvalStoreError> {
        self.report_files(tenant, name).read_newest().map_err(|error| store_error(&error))
    }

    fn save_report(
        &self,
        tenant: &TenantId,
        name: &str,
        report: &AgentEvalReport,
    ) -> Result<(), EvalStoreError> {
        self.report_files(tenant, name).save(report).map_err(|error| store_error(&error))
    }

    fn agents(&self, documents: EvalDocuments) -> BoxFuture<'_, Result<Vec<Agent>, EvalStoreError>> {
        async move {
            self.assemble(documents).await.map_err(|error| EvalStoreError {
                en: format!("the agents cannot be made: {error:#}"),
                ko: format!("에이전트를 만들 수 없습니다: {error:#}"),
            })
        }
        .boxed()
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
    use super::*;
    use crate::test_directory::TestDirectory;

    fn report(model: Option<&str>, ended_at: i64) -> AgentEvalReport {
        let variant = EvalVariant { model: model.map(str::to_owned), instructions: None };
        AgentEvalReport { variant, ended_at, ..AgentEvalReport::default() }
    }

    #[test]
    fn each_variant_keeps_its_last_report_and_old_ones_are_removed() {
        let directory = TestDirectory::new();
        let files = EvalReportFiles::of_set(directory.path(), &directory.path().join("leave.toml"));
        let other = EvalReportFiles::of_set(directory.path(), &directory.path().join("leave-2.toml"));
        other.save(&report(None, 1)).expect("saved");
        for at in 0..20 {
            files.save(&report(Some(&format!("m{at}")), at)).expect("saved");
        }
        files.save(&report(None, 100)).expect("saved");
        files.save(&report(Some("m19"), 101)).expect("saved");
        let all = files.read_all().expect("reports");
        assert_eq!(all.len(), MAX_REPORTS);
        assert_eq!((all[0].ended_at, all[1].ended_at), (101, 100), "the newest first");
        assert!(all.iter().all(|one| one.variant.model.as_deref() != Some("m0")), "the oldest are gone");
        assert_eq!(files.read(&EvalVariant::default()).expect("read").map(|one| one.ended_at), Some(100));
        assert!(files.read_newest().expect("read").is_some());
        assert_eq!(other.read_all().expect("reports").len(), 1, "another set has its own");
    }
}

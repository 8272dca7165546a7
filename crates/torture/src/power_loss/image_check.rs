//! Opens a disk image with the real store and compares it with what had been promised.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::consistency_check::{check_thread, check_threads};
use crate::ledger::{TortureLedger, Violation};
use crate::power_loss::simulated_disk::DiskImage;
use crate::seeded_rng::SeededRng;
use crate::torture_clients::{UnknownCallPolicy, answer_open_questions};
use crate::victim::{VictimOptions, VictimSession};
use crate::victim_process::{VictimLaunch, VictimProcess};
use crate::victim_protocol::{ThreadDump, VictimRequest};

/// How long the runs of an image may take to rest.
const REST_MS: u64 = 20_000;

/// Checks images, one after another, in a folder of its own.
pub struct ImageCheck<'a> {
    folder: PathBuf,
    threads: &'a [String],
    runtime: tokio::runtime::Runtime,
}

impl<'a> ImageCheck<'a> {
    pub fn new(folder: &Path, threads: &'a [String]) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(Self { folder: folder.to_owned(), threads, runtime: runtime.map_err(|error| error.to_string())? })
    }

    /// Looks at an image. What is wrong goes into the ledger. With `resume`, the environment of a victim, its runs go
    /// on until they end.
    pub fn check(
        &self,
        image: &DiskImage,
        ledger: &Arc<TortureLedger>,
        resume: Option<Vec<(String, String)>>,
    ) -> Result<(), String> {
        self.write(image).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        self.runtime.block_on(self.read(ledger));
        match resume {
            Some(env) if ledger.has_no_violations() => {
                self.write(image).map_err(|error| format!("{}: {error}", self.folder.display()))?;
                self.resume(ledger, env)
            }
            _ => Ok(()),
        }
    }

    fn write(&self, image: &DiskImage) -> std::io::Result<()> {
        image.write_to(&self.folder)
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.join("doran.db").display())
    }

    /// Reads everything.
    async fn read(&self, ledger: &TortureLedger) {
        let options =
            VictimOptions { url: self.url(), lease: Duration::from_secs(10), abort_on_failure: true };
        let session = match VictimSession::open(&options).await {
            Ok(session) => session,
            Err(why) => {
                return ledger.record_violation(Violation::Damaged, format!("cannot be opened: {why}"));
            }
        };
        if let Err(error) = session.handle_request(VictimRequest::Whole).await {
            ledger.record_violation(Violation::Damaged, format!("the integrity check: {error:?}"));
        }
        for name in self.threads {
            match session.dump_thread_if_there(name).await {
                Ok(Some(dump)) => check_thread(name, &dump, ledger),
                Ok(None) => check_thread(name, &ThreadDump::empty(), ledger),
                Err(error) => {
                    let what = format!("thread {name} cannot be read: {error:?}");
                    ledger.record_violation(Violation::Damaged, what);
                }
            }
        }
    }

    /// Lets a victim go on where the power failed: what was done before is not done again, and every run ends.
    fn resume(&self, ledger: &Arc<TortureLedger>, env: Vec<(String, String)>) -> Result<(), String> {
        let launch = VictimLaunch {
            url: self.url(),
            lease: Duration::from_secs(10),
            abort_on_failure: true,
            log: &self.folder.join("victims.log"),
            env,
        };
        let victim = VictimProcess::start(&launch, ledger)?;
        victim.wait_until_ready()?;
        let mut rng = SeededRng::new(0);
        for turn in 0..20 {
            let rest = VictimRequest::Rest { threads: self.threads.to_vec(), ms: REST_MS };
            for run in victim.ask_or_error(rest)?.as_array().into_iter().flatten() {
                ledger.record_violation(
                    Violation::Stuck,
                    format!("{run} does not move after the power came back"),
                );
            }
            check_threads(&victim, self.threads, ledger)?;
            let before = ledger.call_count();
            for thread in self.threads {
                let name = format!("resumed-{turn}");
                answer_open_questions(&victim, ledger, thread, &mut rng, &name, UnknownCallPolicy::Settle);
            }
            if !ledger.has_no_violations() || ledger.call_count() == before {
                break;
            }
        }
        Ok(())
    }
}

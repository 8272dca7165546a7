//! Reads one file inside the jail, as `doran __extract` does.

use std::process::ExitCode;

use doran_agents::retrieval::ingest;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(ingest::EXTRACT_WORKER_ARG) => ingest::extract_worker_main(),
        Some(_) | None => ExitCode::from(2),
    }
}

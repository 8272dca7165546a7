//! The worker of `python_repl` as a program, as the tests start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    doran_agents::tools::python::worker_main()
}

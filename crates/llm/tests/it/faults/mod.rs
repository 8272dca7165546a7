//! Everything a vendor can do wrong, and what comes of it: in every dialect, streamed and whole.
//!
//! Each row is a fault, the turns of the server, and the outcome: the words or the error's code, and how many requests
//! it took.

mod answer;
mod calls;
mod server;
mod whole;

use doran_llm::{ChatModel, Said, ScriptedServer, Turn, Wire, collect};

use crate::{KEY, MODES, Mode, model, question};

fn good(wire: Wire, mode: Mode) -> Turn {
    mode.turn(wire, &Said::text("안녕하세요 반갑습니다"))
}

fn failing(status: u16, body: &str) -> Turn {
    Turn::json(status, body)
}

/// The outcome of a request in words.
async fn told(model: &dyn ChatModel, server: &ScriptedServer) -> String {
    let outcome = match collect(model.stream(question())).await {
        Ok(reply) => format!("{:?} {:?}", reply.text, reply.finish),
        Err(error) => {
            let shown =
                format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
            assert!(!shown.contains(KEY) && !shown.contains("<html"), "told too much: {shown}");
            error.code().to_owned()
        }
    };
    format!("{outcome} after {}", server.heard().len())
}

async fn check(fault: &str, turns: impl Fn(Wire, Mode) -> Vec<Turn>, expected: &str) {
    for wire in Wire::ALL {
        for mode in MODES {
            let server = ScriptedServer::playing(turns(wire, mode)).await.expect("server");
            let model = model(wire, mode, &server);
            assert_eq!(told(model.as_ref(), &server).await, expected, "{fault}: {wire:?} {mode:?}");
        }
    }
}

const ANSWERED_AT_ONCE: &str = "\"안녕하세요 반갑습니다\" Stop after 1";
const ANSWERED_SECOND: &str = "\"안녕하세요 반갑습니다\" Stop after 2";

#[tokio::test]
async fn f00_no_fault() {
    check("F00", |wire, mode| vec![good(wire, mode)], ANSWERED_AT_ONCE).await;
}

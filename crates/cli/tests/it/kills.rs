//! The program killed at any moment of an answer, started again, and the stream gone on with from where it was.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::program::{Server, fresh};

const ASK: &str = r#"{"agent":"contract","message":"중도에 해지하면 위약금은 얼마인가요?"}"#;

/// The numbers and names of whole frames. What was cut off in the middle counts for nothing.
fn frames(bytes: &[u8]) -> Vec<(u64, String)> {
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let id = |frame: &str| frame.lines().find_map(|line| line.strip_prefix("id: ")?.parse().ok());
    let name = |frame: &str| frame.lines().find_map(|line| Some(line.strip_prefix("event: ")?.to_owned()));
    whole.split("\n\n").filter_map(|frame| Some((id(frame)?, name(frame)?))).collect()
}

#[test]
fn whatever_a_kill_cuts_off_is_told_after_the_next_start() {
    let here = fresh("kills");
    let mut server = Server::start(&here, None);
    for (round, most) in [0, 700, 2500, 6000].into_iter().enumerate() {
        let mut socket = TcpStream::connect(&server.address).expect("connected");
        let length = ASK.len();
        let head = format!(
            "POST /api/threads/t{round}/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{ASK}"
        );
        socket.write_all(head.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let mut byte = [0];
        // The head of the answer says that the question is on disk; after it the line is cut at some byte.
        while !answer.ends_with(b"\r\n\r\n") && socket.read(&mut byte).expect("a head") == 1 {
            answer.push(byte[0]);
        }
        let told = String::from_utf8(answer).expect("text");
        let place =
            told.lines().find_map(|line| line.strip_prefix("location: ")).expect("a place").to_owned();
        let mut seen = Vec::new();
        while seen.len() < most && socket.read(&mut byte).is_ok_and(|read| read == 1) {
            seen.push(byte[0]);
        }
        server.child.kill().expect("killed");
        server.child.wait().expect("gone");

        server = Server::start(&here, None);
        let mut all = frames(&seen);
        let last = all.last().map_or(0, |(n, _)| *n);
        let rest = server.request(&format!("GET {place}?after={last}"), "");
        all.extend(frames(rest.split_once("\r\n\r\n").expect("a body").1.replace("\r\n", "\n").as_bytes()));
        let numbers: Vec<u64> = all.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "round {round}: {all:?}\n{rest}");
        let count = |name: &str| all.iter().filter(|(_, one)| one == name).count();
        assert_eq!(
            (count("started"), count("finished"), count("failed")),
            (1, 1, 0),
            "round {round}: {all:?}"
        );
        assert_eq!(all.last().map(|(_, name)| name.as_str()), Some("finished"));
    }
}

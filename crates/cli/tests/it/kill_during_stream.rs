//! The program killed at any moment of an answer, started again, and the stream continues after its last event.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::program::{ServerProcess, fresh_directory};

const QUESTION_BODY: &str = r#"{"agent":"contract","message":"중도에 해지하면 위약금은 얼마인가요?"}"#;

/// The number, the name and the words of a frame.
type NumberedSseFrame = (u64, String, String);

/// How often the program is killed.
const KILL_COUNT: usize = 8;

/// Whole frames with a number. What was cut off in the middle counts for nothing.
fn parse_frames(bytes: &[u8]) -> Vec<NumberedSseFrame> {
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let id = |frame: &str| frame.lines().find_map(|line| line.strip_prefix("id: ")?.parse().ok());
    let name = |frame: &str| frame.lines().find_map(|line| Some(line.strip_prefix("event: ")?.to_owned()));
    let data = |frame: &str| frame.lines().find_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    whole.split("\n\n").filter_map(|frame| Some((id(frame)?, name(frame)?, data(frame)?))).collect()
}

/// The frames of an answer to its end.
fn read_frames(server: &ServerProcess, path: &str) -> Vec<NumberedSseFrame> {
    let answer = server.request(&format!("GET {path}"), "");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    parse_frames(body.replace("\r\n", "\n").as_bytes())
}

/// A number to begin with: the one that was given, to see the same again, or another each time.
fn random_seed() -> u64 {
    let given = std::env::var("DORAN_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    given.unwrap_or_else(|| now.map_or(1, |now| u64::from(now.subsec_nanos()) | 1))
}

#[test]
fn whatever_a_kill_cuts_off_is_shown_after_the_next_start() {
    let here = fresh_directory("kills");
    let seed = random_seed();
    println!("DORAN_TEST_SEED={seed}");
    let mut dice = seed;
    let mut server = ServerProcess::start(&here, None);
    // What an answer has in bytes when nobody cuts it off.
    let stream_bytes = server.request("POST /api/threads/whole/runs", QUESTION_BODY).len() as u64;
    for round in 0..KILL_COUNT {
        let mut socket = TcpStream::connect(&server.address).expect("connected");
        let length = QUESTION_BODY.len();
        let head = format!(
            "POST /api/threads/t{round}/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{QUESTION_BODY}"
        );
        socket.write_all(head.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let mut byte = [0];
        // The head of the answer says that the question is on disk; after it the line is cut at some byte.
        while !answer.ends_with(b"\r\n\r\n") && socket.read(&mut byte).expect("a head") == 1 {
            answer.push(byte[0]);
        }
        let head = String::from_utf8(answer).expect("text");
        let place =
            head.lines().find_map(|line| line.strip_prefix("location: ")).expect("a place").to_owned();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The first is killed before a byte was read.
        let cut = if round == 0 { 0 } else { (dice >> 33) % stream_bytes };
        let mut seen = Vec::new();
        while (seen.len() as u64) < cut && socket.read(&mut byte).is_ok_and(|read| read == 1) {
            seen.push(byte[0]);
        }
        server.child.kill().expect("killed");
        server.child.wait().expect("gone");

        server = ServerProcess::start(&here, None);
        let about = format!("DORAN_TEST_SEED={seed}, round {round}, cut after {cut} bytes");
        let mut all = parse_frames(&seen);
        let last = all.last().map_or(0, |(n, ..)| *n);
        all.extend(read_frames(&server, &format!("{place}?after={last}")));
        let numbers: Vec<u64> = all.iter().map(|(n, ..)| *n).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{about}: {all:?}");
        let count = |name: &str| all.iter().filter(|(_, one, _)| one == name).count();
        assert_eq!((count("started"), count("finished"), count("failed")), (1, 1, 0), "{about}: {all:?}");
        assert_eq!(all.last().map(|(_, name, _)| name.as_str()), Some("finished"), "{about}");
        assert_eq!(all, read_frames(&server, &place), "{about}: what was seen is what the log holds");
    }
}

//! `ingero-mcp` and clients that are odd or hostile: messages, statements, calls that take too long. Needs no root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ingero_tests::{McpServer, tool};
use serde_json::json;
use tempfile::tempdir;

/// A statement without an end.
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

#[test]
fn odd_and_hostile_messages_are_answered_and_nothing_breaks() {
    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    // Before anything was agreed.
    raw.send(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    raw.send(br#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    raw.send(b"");
    assert_eq!(
        raw.ask(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}))["error"]["code"].as_i64().map(|c| c < 0),
        Some(true)
    );
    let hello = raw.ask(&json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "clientInfo": {"name": "odd"},
        "capabilities": {"sampling": true, "elicitation": [], "roots": "yes", "experimental": null, "tools": {"x": 1}}}}));
    assert_eq!((&hello["id"], &hello["result"]["serverInfo"]["name"]), (&json!("a"), &json!("ingero-mcp")));
    raw.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#);

    for (line, id, code) in [
        (&b"{\"jsonrpc\":\"2.0\",\"id\":1,"[..], json!(null), -32700),
        (b"\xff\xfe\x00", json!(null), -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", json!(null), -32600),
        (b"{\"id\":1,\"method\":\"ping\"}", json!(1), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/destroy\"}", json!(2), -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"rm\"}}", json!(3), -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"prompts/get\",\"params\":{\"name\":\"x\"}}", json!(5), -32602),
    ] {
        raw.send(line);
        let answer = raw.next();
        let text = String::from_utf8_lossy(line);
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&id, Some(code)), "{text}: {answer}");
    }
    // Parameters that are none.
    for params in [json!({"name": 7}), json!({"arguments": {}}), json!({"name": "run_sql", "arguments": [1]})] {
        let answer = raw.ask(&json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params}));
        assert_eq!(answer["id"], 4, "{answer}");
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    // Longer than any message may be, in one line and without an end for a while.
    let huge = vec![b'x'; 9 << 20];
    raw.send(&huge);
    assert_eq!(raw.next()["error"]["code"], -32600);
    let long = json!({"sql": format!("SELECT '{}'", "x".repeat(1 << 20))});
    assert!(raw.problem("run_sql", long).contains("longer than"), "a long statement");

    assert_eq!(raw.ask(&json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}))["result"], json!({}));
    assert_eq!(raw.call("get_capture_health", json!(null))["isError"], false);
    assert_eq!(raw.end(), "");
}

#[test]
fn the_last_message_is_answered_without_a_line_break_too() {
    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    raw.hello();
    raw.send_last(br#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#);
    let answer = raw.next();
    assert_eq!((&answer["id"], &answer["result"]), (&json!(8), &json!({})));
    assert_eq!(raw.end(), "");
}

#[test]
fn a_call_that_takes_too_long_is_answered_in_time_and_can_be_repeated() {
    let mut raw = McpServer::start(&["--time-limit", "200ms", "investigations/h200-fight/run.igt"]);
    raw.hello();
    let begun = Instant::now();
    let problem = raw.problem("run_sql", json!({"sql": ENDLESS}));
    assert!(problem.starts_with("not done after 0.2 s. Reading and analysing go on"), "{problem}");
    // The statement itself has ten seconds: it was not waited for.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    // Other calls are answered meanwhile; what took too long the first time is done a little later.
    let stats = loop {
        let result = raw.call("get_trace_stats", json!({}));
        if result["isError"] == false {
            break result;
        }
        assert!(begun.elapsed() < Duration::from_secs(100), "{result}");
    };
    assert!(stats["content"][0]["text"].as_str().unwrap().contains("Phase 0"), "{stats}");
    assert_eq!(raw.end(), "");
}

#[test]
fn what_was_cancelled_before_it_began_is_never_done() {
    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    raw.hello();
    // The tables are made by the first statement, not while the clock runs.
    raw.call("run_sql", json!({"sql": "SELECT 1"}));
    let begun = Instant::now();
    // Four at work for their ten seconds each, and sixteen in the queue: a minute and more, were they all done.
    for id in 100..120 {
        raw.begin(id, "run_sql", &json!({"sql": ENDLESS}));
    }
    for id in 100..120 {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        raw.send(cancel.to_string().as_bytes());
    }
    let health = raw.call("get_capture_health", json!({}));
    assert_eq!(health["isError"], false, "{health}");
    assert!(begun.elapsed() < Duration::from_secs(28), "{:?}", begun.elapsed());
    assert_eq!(raw.end(), "");
}

/// A statement that would change something, reach elsewhere, or take everything there is.
#[test]
fn sql_can_neither_change_nor_exhaust_anything() {
    let dir = tempdir().unwrap();
    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    raw.hello();
    let count = raw.call("run_sql", json!({"sql": "SELECT count(*) AS n FROM calls"}));
    assert!(count["structuredContent"]["rows"][0][0].as_u64().unwrap() > 100, "{count}");
    let out = dir.path().join("out.sqlite").display().to_string();
    let refused = [
        format!("ATTACH '{out}' AS x"),
        format!("VACUUM INTO '{out}'"),
        "PRAGMA query_only = OFF".to_owned(),
        "PRAGMA hard_heap_limit = 0".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA temp_store_directory = '/'".to_owned(),
        "SELECT load_extension('libc.so.6')".to_owned(),
        "SELECT fts3_tokenizer('simple')".to_owned(),
        "SELECT sqlite_log(1, 'on stderr')".to_owned(),
        "SELECT readfile('/etc/passwd')".to_owned(),
        "SELECT * FROM pragma_database_list".to_owned(),
        "INSERT INTO meta VALUES ('a', 'b')".to_owned(),
        "UPDATE meta SET value = ''".to_owned(),
        "DELETE FROM meta".to_owned(),
        "CREATE TABLE t (a)".to_owned(),
        "CREATE TEMP TABLE t AS SELECT * FROM meta".to_owned(),
        "DROP VIEW calls".to_owned(),
        "BEGIN".to_owned(),
        "REINDEX".to_owned(),
        "ANALYZE".to_owned(),
        "SELECT 1; DELETE FROM meta".to_owned(),
        "WITH x AS (SELECT 1) DELETE FROM meta".to_owned(),
        "SELECT * FROM pragma_hard_heap_limit(0)".to_owned(),
        "-- nothing".to_owned(),
    ];
    for sql in &refused {
        let problem = raw.problem("run_sql", json!({"sql": sql}));
        assert!(!problem.is_empty(), "{sql}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    for (sql, needle) in [
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "longer than 10 s"),
        ("SELECT length(group_concat(hex(zeroblob(30000)), '')) FROM calls", "too big"),
        // Within one function nobody looks at the clock: each of these took minutes to hours.
        ("SELECT instr(zeroblob(1000000), CAST(zeroblob(500000) || 'x' AS BLOB))", "too big"),
        ("SELECT trim(hex(zeroblob(30000)), hex(randomblob(30000)))", "texts need no trimming"),
        ("SELECT hex(zeroblob(30000)) LIKE '%' || hex(zeroblob(400)) || '1%'", "too complex"),
        ("SELECT printf('%.*c', 900000000, 'x')", "too big"),
        (
            "SELECT sum(instr(a, b)) FROM (SELECT zeroblob(60000) AS a, CAST(zeroblob(30000) || 'x' AS BLOB) AS b), \
             sched_switch",
            "longer than 10 s",
        ),
        ("SELECT randomblob(1000000000)", "too big"),
        // One statement leaves the memory in pieces, the next one wants all of it in one.
        (
            "WITH RECURSIVE n(i, s) AS (SELECT 1, hex(randomblob(30000)) UNION SELECT i + 1, hex(randomblob(30000)) FROM n) \
             SELECT count(*) FROM n",
            "more memory than it may have",
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT json_group_array(hex(zeroblob(30000))) FROM n",
            "",
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) \
             SELECT count(DISTINCT hex(randomblob(30000))) FROM n",
            "",
        ),
    ] {
        let begun = std::time::Instant::now();
        let problem = raw.problem("run_sql", json!({"sql": sql}));
        assert!(problem.contains(needle), "{sql}: {problem}");
        assert!(begun.elapsed() < Duration::from_secs(40), "{sql}: {:?}", begun.elapsed());
    }
    // What one statement is given to look for is found in no time all the same.
    let found = raw.call(
        "run_sql",
        json!({"sql": "SELECT instr('abc', 'c'), 'cudaMemcpyAsync' LIKE '%memcpy%', replace('aa', 'a', 'b')"}),
    );
    assert_eq!(found["structuredContent"]["rows"], json!([[3, 1, "bb"]]));
    // A large answer is cut, and says so; it goes on where it was cut.
    let sql = "SELECT ts_ns, cpu, prev_tid, prev_name, next_tid, next_name FROM switches ORDER BY ts_ns";
    let first = raw.call("run_sql", json!({"sql": sql, "limit": 100_000}));
    let (rows, next) =
        (first["structuredContent"]["rows"].as_array().unwrap().len(), &first["structuredContent"]["next_offset"]);
    assert!((100..=500).contains(&rows) && next.as_u64() == Some(rows as u64), "{rows} {next}");
    assert!(first.to_string().len() < 100 << 10, "{}", first.to_string().len());
    let second = raw.call("run_sql", json!({"sql": sql, "limit": 3, "offset": next}));
    let all = raw.call("run_sql", json!({"sql": format!("{sql} LIMIT 3 OFFSET {rows}")}));
    assert_eq!(second["structuredContent"]["rows"], all["structuredContent"]["rows"]);
    let status = fs::read_to_string(format!("/proc/{}/status", raw.pid())).unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 1150 << 10, "{peak_kib} KiB");
    assert_eq!(raw.end(), "");
}

/// Where all connections are being served, nobody waits long to hear it.
#[test]
fn a_guest_who_finds_no_room_is_told_so_soon() {
    let mut server = HttpServer::start(&["--time-limit", "25s", "investigations/h200-fight/run.igt"]);
    // The tables are made by the first statement.
    assert!(server.connect(&call("SELECT 1")).answer(Duration::from_secs(60)).starts_with("HTTP/1.1 200"));
    let busy: Vec<Guest> = (0..64).map(|_| server.connect(&call(ENDLESS))).collect();
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    let late = server.connect(&call("SELECT 1")).answer(Duration::from_secs(60));
    // Two seconds, on a machine that is busy itself; the first of the statements ends after ten.
    assert!(late.starts_with("HTTP/1.1 503") && late.contains("retry-after: 1"), "{late}");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    // Whoever leaves takes the statement along: there is room at once, not after the minutes that they would have taken.
    drop(busy);
    let begun = Instant::now();
    loop {
        let answer = server.connect(&call("SELECT 2")).answer(Duration::from_secs(60));
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
    server.end();
}

fn call(sql: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_sql", "arguments": {"sql": sql}}})
        .to_string()
}

/// A server over HTTP, on a port of its choice.
struct HttpServer {
    child: Child,
    address: String,
}

/// A connection with a request under way.
struct Guest(TcpStream);

impl HttpServer {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(tool("ingero-mcp"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .args(["--http", "127.0.0.1:0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_suffix("/mcp").and_then(|l| l.split_once("http://")).unwrap().1.to_owned();
        Self { child, address }
    }

    fn connect(&mut self, body: &str) -> Guest {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             mcp-protocol-version: 2025-06-18\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        Guest(stream)
    }

    fn end(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Guest {
    fn answer(mut self, limit: Duration) -> String {
        self.0.set_read_timeout(Some(limit)).unwrap();
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// What a server made for itself goes with it, whichever way it is told to end.
#[test]
fn nothing_is_left_behind_in_the_temporary_folder() {
    for signal in ["HUP", "TERM", "INT", "KILL"] {
        let dir = tempdir().unwrap();
        let place = dir.path().display().to_string();
        let mut raw = McpServer::start_with(&["investigations/h200-fight/run.igt"], &[("TMPDIR", &place)]);
        raw.hello();
        raw.call("run_sql", json!({"sql": "SELECT 1"}));
        let count = || fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(count(), 1, "its tables");
        let pid = raw.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        raw.wait();
        // One that was killed could not: the next one does.
        if signal == "KILL" {
            assert_eq!(count(), 1);
            let mut next = McpServer::start_with(&["investigations/h200-fight/run.igt"], &[("TMPDIR", &place)]);
            next.hello();
            next.end();
        }
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let within =
            left.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().map(|entry| entry.unwrap().path());
        assert!(left.is_empty(), "{signal}: {left:?} with {:?}", within.collect::<Vec<_>>());
    }
}

/// A client that sends its last question and closes its end still gets an answer that is quick. It waits for no other: what
/// takes long ends with it, and no CPU is kept busy for nobody.
#[test]
fn what_is_due_when_the_client_leaves_is_answered_soon_or_given_up() {
    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    raw.hello();
    raw.send_last(br#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#);
    assert_eq!(raw.next()["id"], 8);
    assert_eq!(raw.end(), "");

    let mut raw = McpServer::start(&["investigations/h200-fight/run.igt"]);
    raw.hello();
    // The tables are made by the first statement, not while the clock runs.
    raw.call("run_sql", json!({"sql": "SELECT 1"}));
    raw.begin(9, "run_sql", &json!({"sql": ENDLESS}));
    let begun = Instant::now();
    let errors = raw.end();
    // The statement itself has ten seconds, and the SDK would wait for it for five more than the two for what is due.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(errors.contains("the client has closed its end"), "{errors}");
}

#[test]
fn files_that_are_no_recordings_are_listed_as_such() {
    let dir = tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let good = fs::read("../investigations/h200-fight/run.igt").unwrap();
    put("good.igt", &good);
    put("cut.igt", &good[..good.len() / 3]);
    put("text.igt", b"nothing of the kind");
    put("empty.db", b"");
    let mut raw = McpServer::start(&[dir.path().to_str().unwrap()]);
    raw.hello();
    let list = raw.call("get_capture_health", json!({}));
    let problems: Vec<_> = list["structuredContent"]["recordings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["name"].as_str().unwrap().to_owned(), r["problem"].as_str().map(str::to_owned)))
        .collect();
    let none = Some("it is neither a recording (.igt) nor a database (.db)".to_owned());
    let expected =
        [("cut.igt", None), ("empty.db", Some("it is empty".to_owned())), ("good.igt", None), ("text.igt", none)];
    assert_eq!(problems, expected.map(|(name, problem)| (name.to_owned(), problem)));
    // What was watched for in the part that is gone may have happened.
    let health = raw.call("get_capture_health", json!({"recording": "cut.igt"}));
    assert_eq!(health["structuredContent"]["health"]["watched_without_events"], json!([]), "{health}");
    // A moment that is shown can be asked about.
    let at = json!({"recording": "good.igt", "cpu": 0, "from": "1s", "to": "1s"});
    assert_eq!(raw.call("get_timeline", at)["isError"], false);
    for (tool, arguments, needle) in [
        ("get_stacks", json!({"recording": "good.igt", "tid": 999_999}), "no thread 999999 is in the recording"),
        ("get_timeline", json!({"recording": "good.igt", "cpu": 0, "limit": 0}), "limit=0 shows nothing"),
        ("get_timeline", json!({"recording": "good.igt", "cpu": 0, "offset": 1_u64 << 40}), "rows that can be skipped"),
        ("get_timeline", json!({"recording": "good.igt", "cpu": 0, "from": "-1s"}), "is negative"),
    ] {
        let problem = raw.problem(tool, arguments);
        assert!(problem.contains(needle), "{problem}");
    }
    let empty = raw.call("get_timeline", json!({"recording": "good.igt", "cpu": 0, "only": "marks"}));
    let text = empty["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("None of what `only` asks for is in this range; without it there are"), "{text}");
    let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "investigate",
        "arguments": {"recordng": "good.igt"}}});
    let problem = raw.ask(&prompt)["error"]["message"].to_string();
    assert!(problem.contains("it has recording, question"), "{problem}");
    raw.end();
}

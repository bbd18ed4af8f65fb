//! One line of ftrace text, cut into its columns.
//!
//! All forms have the same order: the task's name, `-` and its id, a group id in brackets perhaps,
//! the CPU, flags perhaps, the time, the event's name and its text. `perf script` puts blanks in place
//! of the dash:
//!
//! ```text
//!          python3-531     (    531) [003] DBZff    69.691754: cuMemAlloc_v2: (0x7f76a74df900) a0=0x7fffc6194478
//!          python3-481     [013]    34.450360: block_rq_issue: 254,0 RA 16384 () 18278984 + 32 be,0,4 [sh]
//!             perf 10836 [001]  2521.908308428:       sched:sched_waking: comm=perf-exec pid=10838 prio=120
//!     bash-9521    0.....  1065.935369: mm_page_alloc:        page=0x10b139 pfn=0x10b139 order=0
//! ```
//!
//! The name may hold any byte but a newline, so it is found from what must follow it.

use super::text::{digits, trim_start};

/// In place of the id of a thread that is ending: perf has none of it any more, and prints -1.
pub(crate) const ENDING: u32 = u32::MAX;
/// A name that says that none is known.
pub(crate) const NAMELESS: &[u8] = b"<...>";

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// An event.
    Event(EventLine<'a>),
    /// The tracer says that events of a CPU were lost, how many if it knows; of `NO_CPU` where it does not say of which.
    Lost(u32, Option<u64>),
    /// Part of a stack that an event before it printed.
    Stack,
    /// Nothing that says anything of an event.
    Other,
}

/// The columns of an event's line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventLine<'a> {
    /// Name of the current task as the tracer's cache has it: often that of a later moment.
    pub(crate) comm: &'a [u8],
    /// Thread id of the current task, or [`ENDING`].
    pub(crate) tid: u32,
    /// Its process, where the column is there and filled.
    pub(crate) tgid: Option<u32>,
    /// CPU.
    pub(crate) cpu: u32,
    /// In an interrupt or not, where the flags are there: a number of `CONTEXTS`.
    pub(crate) context: Option<u64>,
    /// Time in nanoseconds of the trace's clock.
    pub(crate) ts_ns: u64,
    /// Name of the event, with the group before it where the text has one.
    pub(crate) name: &'a [u8],
    /// What the event printed.
    pub(crate) body: &'a [u8],
    /// Whether `perf script` printed it.
    pub(crate) is_perf: bool,
}

/// Cuts a line.
pub(crate) fn parse_line(line: &[u8]) -> Result<Line<'_>, &'static str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = without_buffer(line).unwrap_or(line);
    // What looks like the dash before an id is a sign there.
    if line.trim_ascii_start().starts_with(b":-1 ")
        && let Some(event) = parse_perf(line)
    {
        return event.map(Line::Event);
    }
    // Where nobody cut the margin off, the dash stands behind 16 columns.
    let fixed = line.get(16) == Some(&b'-');
    if fixed && let Some(event) = parse_at(line, 16) {
        return event.map(Line::Event);
    }
    if let Some(other) = parse_remark(line) {
        return Ok(other);
    }
    let mut refusal = "it is not TASK-PID [CPU] TIME: EVENT";
    for at in memchr::memchr_iter(b'-', line.get(..64).unwrap_or(line)) {
        match parse_at(line, at) {
            Some(Ok(event)) => return Ok(Line::Event(event)),
            Some(Err(problem)) => refusal = problem,
            None => {}
        }
    }
    match parse_perf(line) {
        Some(Ok(event)) => Ok(Line::Event(event)),
        Some(Err(problem)) => Err(problem),
        None => Err(refusal),
    }
}

/// Reads a line of `perf script`: `COMM TID [CPU] TIME: EVENT: TEXT`, or `PID/TID` in place of `TID`. A thread that is ending is
/// `:-1`, its id -1, and so is its process's where that ends too.
fn parse_perf(line: &[u8]) -> Option<Result<EventLine<'_>, &'static str>> {
    let head = line.get(..96).unwrap_or(line);
    memchr::memmem::find_iter(head, b" [").find_map(|at| {
        let (cpu, rest) = digits(&line[at + 2..])?;
        let rest = trim_start(rest.strip_prefix(b"] ")?);
        let before = line[..at].trim_ascii_end();
        let ids = memchr::memrchr(b' ', before)?;
        let comm = before[..ids].trim_ascii();
        let (tgid, tid) = match (comm, &before[ids + 1..]) {
            (b":-1", b"-1" | b"-1/-1") => (None, None),
            (_, text) => {
                let (first, after) = digits(text)?;
                match (comm, after, after.strip_prefix(b"/").map(digits)) {
                    (b":-1", b"/-1", _) => (u32::try_from(first).ok(), None),
                    (_, _, Some(Some((tid, b"")))) => (u32::try_from(first).ok(), Some(tid)),
                    (_, b"", None) => (None, Some(first)),
                    _ => return None,
                }
            }
        };
        let (ts_ns, rest) = match parse_time(rest)? {
            Ok(time) => time,
            Err(problem) => return Some(Err(problem)),
        };
        let (name, body) = event_text(without_period(trim_start(rest)));
        let (tid, cpu) = match (tid.map_or(Ok(ENDING), parse_tid), parse_cpu(cpu)) {
            (Ok(tid), Ok(cpu)) => (tid, cpu),
            (Err(problem), _) | (_, Err(problem)) => return Some(Err(problem)),
        };
        let comm = if tid == ENDING { NAMELESS } else { comm };
        Some(Ok(EventLine { comm, tid, tgid, cpu, context: None, ts_ns, name, body, is_perf: true }))
    })
}

fn parse_tid(tid: u64) -> Result<u32, &'static str> {
    u32::try_from(tid).map_err(|_| "its task's id is no thread id: these end below 2^32")
}

fn parse_cpu(cpu: u64) -> Result<u32, &'static str> {
    let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < ingero_format::catalog::NO_CPU);
    cpu.ok_or("its CPU is none that a machine has: their numbers end below 65535")
}

/// Steps over the period that `perf script` prints in front of an event's name (`-F +period`): no event's name is a number.
fn without_period(text: &[u8]) -> &[u8] {
    match digits(text) {
        Some((_, rest)) if rest.starts_with(b" ") => trim_start(rest),
        _ => text,
    }
}

/// Cuts an event's name off what it printed.
fn event_text(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        // A name ends with a colon; the function tracer prints `callee <-caller` without one.
        Some(end) if end > 0 && text[end - 1] == b':' => (&text[..end - 1], trim_start(&text[end..])),
        _ => match text.strip_suffix(b":") {
            Some(name) if !name.contains(&b' ') => (name, &b""[..]),
            _ => (&b"function"[..], text),
        },
    }
}

/// `trace-cmd report` puts the name of an instance and a colon before its lines. Names of tasks are
/// padded to more than they can have, so that a line without it begins with a blank.
fn without_buffer(line: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr2(b' ', b':', line)?;
    let rest = line[at..].strip_prefix(b": ").filter(|_| at > 0)?;
    (rest.first() == Some(&b' ') || rest.get(8) == Some(&b'-')).then_some(rest)
}

/// Lines that are no events: comments, losses, stacks, the header of `trace-cmd report`.
fn parse_remark(line: &[u8]) -> Option<Line<'_>> {
    let text = trim_start(line);
    if text.is_empty() || text.starts_with(b"#") {
        return Some(Line::Other);
    }
    // perf script puts the frames of a stack below its event, each behind a tab.
    let is_frame = line.starts_with(b"\t") && text.first().is_some_and(u8::is_ascii_hexdigit);
    if text.starts_with(b"=> ") || is_frame {
        return Some(Line::Stack);
    }
    // bpftrace says so in front of what its probes print, and between.
    if [&b"Attaching "[..], b"Attached "].iter().any(|said| text.starts_with(said)) {
        return memchr::memmem::find(text, b" probe").map(|_| Line::Other);
    }
    if let Some((count, b" events")) = text.strip_prefix(b"Lost ").and_then(digits) {
        return Some(Line::Lost(ingero_format::catalog::NO_CPU, Some(count)));
    }
    if let Some(rest) = text.strip_prefix(b"CPU:") {
        let (cpu, rest) = digits(rest)?;
        let rest = trim_start(rest).strip_prefix(b"[")?;
        let (count, rest) = match rest.strip_prefix(b"LOST ") {
            Some(rest) => digits(rest).map(|(n, r)| (Some(n), r))?,
            None => digits(rest).map_or((None, rest), |(n, r)| (Some(n), r)),
        };
        let said = trim_start(rest);
        return (said.starts_with(b"EVENTS")).then_some(Line::Lost(u32::try_from(cpu).ok()?, count));
    }
    let header = [&b"cpus="[..], b"version = ", b"Buffer: ", b"CPU "];
    header.iter().any(|h| text.starts_with(h)).then_some(Line::Other)
}

/// Reads the columns behind the dash at `at`; `None` where the dash is part of a name.
fn parse_at(line: &[u8], at: usize) -> Option<Result<EventLine<'_>, &'static str>> {
    let (comm, rest) = (line.get(..at)?, line.get(at + 1..)?);
    let (tid, rest) = digits(rest)?;
    let mut rest = trim_start(rest.strip_prefix(b" ")?);
    let mut tgid = None;
    if let Some(inside) = rest.strip_prefix(b"(") {
        let end = memchr::memchr(b')', inside.get(..16).unwrap_or(inside))?;
        let text = trim_start(&inside[..end]);
        tgid = match digits(text) {
            Some((n, b"")) => Some(u32::try_from(n).ok()?),
            _ if text.starts_with(b"-") => None,
            _ => return None,
        };
        rest = trim_start(&inside[end + 1..]);
    }
    let (cpu, mut rest) = match rest.strip_prefix(b"[") {
        Some(inside) => {
            let (cpu, rest) = digits(inside)?;
            (cpu, trim_start(rest.strip_prefix(b"]")?))
        }
        None => digits(rest)?,
    };
    let mut context = None;
    let mut time = parse_time(rest);
    if time.is_none() {
        let end = memchr::memchr(b' ', rest.get(..16).unwrap_or(rest))?;
        context = match rest[..end].get(2) {
            Some(b's') => Some(1),
            Some(b'h' | b'H') => Some(2),
            Some(b'z' | b'Z') => Some(3),
            Some(b'.') => Some(0),
            _ => None,
        };
        rest = trim_start(&rest[end..]);
        time = parse_time(rest);
    }
    let (ts_ns, rest) = match time? {
        Ok(time) => time,
        Err(problem) => return Some(Err(problem)),
    };
    let (name, body) = event_text(trim_start(rest));
    let comm = trim_start(comm);
    let (tid, cpu) = match (parse_tid(tid), parse_cpu(cpu)) {
        (Ok(tid), Ok(cpu)) => (tid, cpu),
        (Err(problem), _) | (_, Err(problem)) => return Some(Err(problem)),
    };
    Some(Ok(EventLine { comm, tid, tgid, cpu, context, ts_ns, name, body, is_perf: false }))
}

/// Reads `seconds.fraction:`, the fraction in up to nine digits.
fn parse_time(text: &[u8]) -> Option<Result<(u64, &[u8]), &'static str>> {
    let (seconds, rest) = digits(text)?;
    if rest.starts_with(b":") {
        return Some(Err("its time is a counter; record with a clock that counts time: echo mono > trace_clock"));
    }
    let rest = rest.strip_prefix(b".")?;
    let (fraction, after) = digits(rest)?;
    let width = rest.len() - after.len();
    let after = after.strip_prefix(b":")?;
    let scale = *[1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1].get(width)?;
    // Half of the range is left to durations and to signed times.
    let ts = seconds.checked_mul(1_000_000_000).and_then(|s| s.checked_add(fraction * scale));
    Some(ts.filter(|t| *t < u64::MAX / 2).map(|t| (t, after)).ok_or("its time is beyond 292 years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_bpftrace() {
        let line =
            "standin-28947 (28947) [001] .... 3671.442276292: uretprobe:/usr/lib/libcudart.so.13:cudaMalloc: retval=0";
        let e = event(line);
        assert_eq!(
            (e.comm, e.tid, e.tgid, e.cpu, e.ts_ns),
            (&b"standin"[..], 28947, Some(28947), 1, 3_671_442_276_292)
        );
        assert_eq!((e.name, e.body), (&b"uretprobe:/usr/lib/libcudart.so.13:cudaMalloc"[..], &b"retval=0"[..]));
        assert_eq!(parse_line(b"Attaching 2 probes..."), Ok(Line::Other));
        assert_eq!(parse_line(b"Lost 21 events"), Ok(Line::Lost(ingero_format::catalog::NO_CPU, Some(21))));
        assert!(parse_line(b"Attaching myself").is_err());
    }

    fn event(text: &str) -> EventLine<'_> {
        match parse_line(text.as_bytes()) {
            Ok(Line::Event(e)) => e,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_of_the_columns() {
        let e = event("         python3-481     (    470) [013] ..s1.    34.450360: block_rq_issue: 254,0 RA");
        assert_eq!((e.comm, e.tid, e.tgid, e.cpu, e.context), (&b"python3"[..], 481, Some(470), 13, Some(1)));
        assert_eq!((e.ts_ns, e.name, e.body), (34_450_360_000, &b"block_rq_issue"[..], &b"254,0 RA"[..]));
        let e = event("          <idle>-0       (-------) [011] dNh2.    40.952211: sched_wakeup: comm=python3");
        assert_eq!((e.comm, e.tid, e.tgid, e.context), (&b"<idle>"[..], 0, None, Some(2)));
        let e = event("            bash-9391    [001]   1044.692764: sched_process_fork: comm=bash");
        assert_eq!((e.tid, e.tgid, e.cpu, e.context), (9391, None, 1, None));
        let e = event("igtconv:             bash-9521  [000]  1065.935537226: sched_switch:         bash:9521 [120] R");
        assert_eq!((e.comm, e.ts_ns, e.body), (&b"bash"[..], 1_065_935_537_226, &b"bash:9521 [120] R"[..]));
        let e = event("igtconv:     bash-9521    0.....  1065.935369: mm_page_alloc:        page=0x10b139");
        assert_eq!((e.comm, e.tid, e.cpu, e.context), (&b"bash"[..], 9521, 0, Some(0)));
        let e = event("sh-9391 [001] DBZff 1.5: probe_libcudart:cudaMalloc: (0x7f) a0=0x1");
        assert_eq!(
            (e.tid, e.ts_ns, e.name, e.context),
            (9391, 1_500_000_000, &b"probe_libcudart:cudaMalloc"[..], Some(3))
        );
        let e = event("            bash-9391    [001] .....  1044.692764: _raw_spin_lock <-try_to_wake_up");
        assert_eq!(e.name, b"function");
    }

    #[test]
    fn lines_of_perf_script() {
        let e = event("            perf 10836 [001]  2521.908308428:       sched:sched_waking: comm=x pid=7");
        assert_eq!((e.comm, e.tid, e.tgid, e.cpu, e.ts_ns), (&b"perf"[..], 10836, None, 1, 2_521_908_308_428));
        assert_eq!((e.name, e.body, e.is_perf), (&b"sched:sched_waking"[..], &b"comm=x pid=7"[..], true));
        let e = event("pool-1-thread 2 40/44 [003] 12.5: probe_libcudart:cudaMalloc__return: (7f <- 7e)");
        assert_eq!((e.comm, e.tid, e.tgid, e.cpu), (&b"pool-1-thread 2"[..], 44, Some(40), 3));
        let e = event("        codec-12 10657 [001]  2521.916347: kmem:mm_page_alloc: page=0x1");
        assert_eq!((e.comm, e.tid, e.is_perf), (&b"codec-12"[..], 10657, true));
        let e = event("standin 26910/26912 [001]  2.5:          1 sched:sched_switch: prev_comm=x");
        assert_eq!(
            (e.tgid, e.tid, e.name, e.body),
            (Some(26910), 26912, &b"sched:sched_switch"[..], &b"prev_comm=x"[..])
        );
        let e = event("standin 26910 [001]  2.5:     250000 cpu-clock:uhH:  7f00 main+0x1 (/bin/x)");
        assert_eq!(e.name, b"cpu-clock:uhH");
        let e = event("         swapper     0 [000]  2.5: sched:sched_switch: prev_comm=swapper/0");
        assert_eq!((e.comm, e.tid), (&b"swapper"[..], 0));
        for (ids, tgid) in [("24983/-1", Some(24983)), ("   -1", None), ("-1/-1", None)] {
            let text =
                format!("             :-1 {ids}    [003] 29319.477566425:       sched:sched_waking: comm=x pid=7");
            let e = event(&text);
            assert_eq!((e.comm, e.tid, e.tgid, e.cpu, e.name), (NAMELESS, ENDING, tgid, 3, &b"sched:sched_waking"[..]));
        }
        // A thread may be called so.
        let e = event("             :-1    77 [001] 2.5: sched:sched_waking: comm=x pid=7");
        assert_eq!((e.comm, e.tid), (&b":-1"[..], 77));
        let e = event("             :-1-77      [001] d..3.  1.0: x: y");
        assert_eq!((e.comm, e.tid, e.is_perf), (&b":-1"[..], 77, false));
        assert_eq!(parse_line(b"\t    7ff0f173d930 malloc+0x0 (/usr/lib/libc.so.6)"), Ok(Line::Stack));
    }

    #[test]
    fn names_may_hold_what_columns_look_like() {
        let e = event("     q-1 [000] z-9436    (   9430) [001] d..3.  1044.799311: sched_waking: comm=x");
        assert_eq!((e.comm, e.tid, e.tgid), (&b"q-1 [000] z"[..], 9436, Some(9430)));
        let e = event("          a-b-c--77      [001] d..3.  1.0: x: y");
        assert_eq!((e.comm, e.tid), (&b"a-b-c-"[..], 77));
        let e = event("a-b-c--77 [001] d..3.  1.0: x: y");
        assert_eq!((e.comm, e.tid), (&b"a-b-c-"[..], 77));
    }

    #[test]
    fn lines_that_are_no_events() {
        fn is(text: &str) -> Result<Line<'_>, &'static str> {
            parse_line(text.as_bytes())
        }
        assert_eq!(is("CPU:3 [LOST 27 EVENTS]"), Ok(Line::Lost(3, Some(27))));
        assert_eq!(is("CPU:3 [12 EVENTS DROPPED]"), Ok(Line::Lost(3, Some(12))));
        assert_eq!(is("CPU:1 [EVENTS DROPPED]"), Ok(Line::Lost(1, None)));
        assert_eq!(is(" => do_syscall_64"), Ok(Line::Stack));
        for text in ["", "# tracer: nop", "##### CPU 1 buffer started ####", "cpus=2", "CPU 0 is empty", "version = 7"]
        {
            assert_eq!(is(text), Ok(Line::Other), "{text}");
        }
        for text in ["hello", "sh-1 [001] 12", "sh-1 [99999999] 1.0: x: y", "sh-99999999999 [1] 1.0: x: y", "-"] {
            assert!(is(text).is_err(), "{text}");
        }
        assert!(is("  sh-1 [001] .....  12345: x: y").unwrap_err().contains("counter"));
        assert!(is("  sh-1 [001] .....  99999999999999999.0: x: y").is_err());
    }
}

//! Calls of probed functions: a uprobe at the entry, another at the return, one row for both.

use ingero_format::catalog::{
    Arg, Call, END_BEGAN_BEFORE, END_RETURNED, END_SKIPPED, FUNCTIONS, FuncId, Function, TaskId,
};

use super::text::{digits, word};

/// What the event of a uprobe printed.
#[expect(clippy::large_enum_variant, reason = "it lives for one line and is never stored")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// `(0x7fee9fc70d20) a0=0x7feb9be00000 a1=0x42f5b8c0`
    Entry(Slots),
    /// `(0x7fedeb9abd30 <- 0x7fee9fc70d20) rc=0`
    Return(Option<i64>),
}

/// Integer arguments by their place in the call, as far as the probe fetched them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slots([Option<u64>; 16]);

impl Slots {
    fn value(&self, arg: Arg) -> Option<u64> {
        match arg {
            Arg::Slot(n) => self.0.get(usize::from(n)).copied().flatten(),
            Arg::Slot32(n) => self.0.get(usize::from(n)).copied().flatten().map(|v| v & 0xffff_ffff),
            Arg::Always(value) => Some(value),
            // What stands behind a pointer is not in the text.
            Arg::None | Arg::Behind(..) | Arg::Out(_) => None,
        }
    }
}

/// How the event of a uprobe names and prints things.
enum Wording {
    /// The kernel's, with the addresses in front; `arg1` is the first argument, as `perf probe` has it.
    Kernel { returns: bool },
    /// bpftrace's: its provider tells entry and return apart, `arg0` is the first argument.
    Bpftrace { returns: bool },
}

impl Wording {
    /// Of a name like `uretprobe:/usr/lib/libcuda.so.1:cuInit`, or the short forms `u` and `ur`.
    fn of_bpftrace(name: &[u8]) -> Option<Self> {
        let at = memchr::memchr(b':', name)?;
        match &name[..at] {
            // A group of tracefs may have the same name; a path or a library stands between in bpftrace's alone.
            b"uprobe" | b"u" => memchr::memchr(b':', &name[at + 1..]).map(|_| Self::Bpftrace { returns: false }),
            b"uretprobe" | b"ur" => memchr::memchr(b':', &name[at + 1..]).map(|_| Self::Bpftrace { returns: true }),
            _ => None,
        }
    }
}

/// Reads the text of a uprobe's event; `None` where it has another form.
pub(crate) fn parse_probe(name: &[u8], body: &[u8]) -> Option<Probe> {
    let (wording, fields) = match Wording::of_bpftrace(name) {
        Some(wording) => (wording, body),
        None => {
            let inside = body.strip_prefix(b"(")?;
            let end = memchr::memchr(b')', inside)?;
            let returns = memchr::memmem::find(&inside[..end], b"<-").is_some();
            (Wording::Kernel { returns }, &inside[end + 1..])
        }
    };
    let fields = fields.split(|b| *b == b' ').filter_map(|field| {
        let at = memchr::memchr(b'=', field)?;
        Some((&field[..at], word(&field[at + 1..])?))
    });
    let (Wording::Kernel { returns } | Wording::Bpftrace { returns }) = wording;
    if returns {
        // A result is an int: the upper half of its register means nothing.
        let is_result = |name: &[u8]| matches!(name, b"rc" | b"ret" | b"retval" | b"arg1");
        let result = fields.into_iter().find(|(name, _)| is_result(name)).map(|(_, v)| i64::from(v as u32 as i32));
        return Some(Probe::Return(result));
    }
    let first = u64::from(matches!(wording, Wording::Kernel { .. }));
    let mut slots = Slots::default();
    for (name, value) in fields {
        let place = match name {
            [b'a', b'r', b'g', n @ ..] => digits(n).filter(|d| d.1.is_empty()).and_then(|d| d.0.checked_sub(first)),
            [b'a', n @ ..] => digits(n).filter(|d| d.1.is_empty()).map(|d| d.0),
            _ => None,
        };
        if let Some(slot) = place.and_then(|p| slots.0.get_mut(usize::try_from(p).ok()?)) {
            *slot = Some(value);
        }
    }
    Some(Probe::Entry(slots))
}

/// The function that an event's name stands for: its symbol, with the ending that tells entry and
/// return apart, and the group before it that some tools print.
pub(crate) fn function_of_event(name: &[u8]) -> Option<usize> {
    let name = memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..]);
    let number = |symbol: &[u8]| FUNCTIONS.iter().position(|f| f.symbol.as_bytes() == symbol);
    let ended = |name: &[u8]| {
        let endings = [&b"_ret"[..], b"__return", b"_return", b"_exit", b"_entry", b"_enter"];
        number(name).or_else(|| endings.iter().find_map(|ending| number(name.strip_suffix(*ending)?)))
    };
    // Of several events of one name, of copies of a library, perf probe numbers all but the first.
    let numbered = || {
        let at = memchr::memrchr(b'_', name)?;
        digits(&name[at + 1..]).filter(|d| d.1.is_empty()).and_then(|_| ended(&name[..at]))
    };
    ended(name).or_else(numbered)
}

/// A call that has been entered and not been left.
#[derive(Debug)]
struct OpenCall {
    function: usize,
    func: FuncId,
    ts_ns: u64,
    cpu: u32,
    slots: Slots,
    /// Rows of calls inside of it that began at the same instant. Readers take rows of one instant
    /// in order of writing, so these have to come after it.
    held: Vec<CallRow>,
}

/// A row to write: its time, its CPU and its fields.
pub(crate) type CallRow = (u64, u32, Call);

impl OpenCall {
    /// The call's row. `end_ns` is the time of its return, if it returned.
    fn close(&self, task: TaskId, end: u64, end_ns: Option<u64>, result: Option<i64>) -> CallRow {
        let function = FUNCTIONS.get(self.function);
        let of = |pick: fn(&Function) -> Arg| function.and_then(|f| self.slots.value(pick(f)));
        let factor = match function.map(|f| f.times) {
            None | Some(Arg::None) => Some(1),
            Some(times) => self.slots.value(times),
        };
        let bytes = of(|f| f.bytes).zip(factor).and_then(|(b, n)| b.checked_mul(n));
        let call = Call {
            task,
            func: self.func,
            dur_ns: end_ns.map(|e| e.saturating_sub(self.ts_ns)),
            end,
            result,
            ptr: of(|f| f.ptr),
            ptr2: of(|f| f.ptr2),
            bytes,
            copy: of(|f| f.copy),
            stream: of(|f| f.stream),
            device: None,
        };
        (self.ts_ns, self.cpu, call)
    }
}

/// The calls that one thread is inside of, outermost first.
#[derive(Debug, Default)]
pub(crate) struct CallStack(Vec<OpenCall>);

/// Deeper than any real nesting: entries below it will never return.
const MAX_DEPTH: usize = 256;

impl CallStack {
    /// Takes an entry. Where the stack is full, its outermost call counts as left without a return.
    pub(crate) fn enter(
        &mut self,
        task: TaskId,
        function: usize,
        func: FuncId,
        at: (u64, u32),
        slots: Slots,
        rows: &mut Vec<CallRow>,
    ) {
        if self.0.len() >= MAX_DEPTH {
            let lost = self.0.remove(0);
            rows.push(lost.close(task, END_SKIPPED, None, None));
            rows.extend(lost.held);
        }
        self.0.push(OpenCall { function, func, ts_ns: at.0, cpu: at.1, slots, held: Vec::new() });
    }

    /// Takes a return: pairs it with the innermost entry of its function. Calls inside of that one
    /// were left without a return.
    pub(crate) fn leave(
        &mut self,
        task: TaskId,
        func: FuncId,
        at: (u64, u32),
        result: Option<i64>,
        rows: &mut Vec<CallRow>,
    ) {
        match self.0.iter().rposition(|c| c.func == func) {
            Some(place) => {
                let mut made = Vec::new();
                let mut left = self.0.drain(place..);
                let outermost_ns = left.as_slice().first().map(|c| c.ts_ns);
                if let Some(call) = left.next() {
                    made.push(call.close(task, END_RETURNED, Some(at.0), result));
                    made.extend(call.held);
                }
                for call in left {
                    made.push(call.close(task, END_SKIPPED, None, None));
                    made.extend(call.held);
                }
                match self.0.last_mut().filter(|outer| Some(outer.ts_ns) == outermost_ns) {
                    Some(outer) => outer.held.extend(made),
                    None => rows.extend(made),
                }
            }
            None => {
                let call = Call {
                    task,
                    func,
                    dur_ns: None,
                    end: END_BEGAN_BEFORE,
                    result,
                    ptr: None,
                    ptr2: None,
                    bytes: None,
                    copy: None,
                    stream: None,
                    device: None,
                };
                rows.push((at.0, at.1, call));
            }
        }
    }

    /// Ends everything that is still open.
    pub(crate) fn end(&mut self, task: TaskId, end: u64, rows: &mut Vec<CallRow>) {
        for call in self.0.drain(..) {
            rows.push(call.close(task, end, None, None));
            rows.extend(call.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::{END_OPEN, function_number};

    #[test]
    fn entries_and_returns() {
        let parse_probe = |body: &[u8]| parse_probe(b"probe_libcuda:cuMemAlloc_v2", body);
        let entry = parse_probe(b"(0x7fee9fc70d20) a0=0x7feb9be00000 a1=5 arg3=0x32000 name=\"x\" a99=1");
        let Some(Probe::Entry(slots)) = entry else { panic!("{entry:?}") };
        assert_eq!(slots.0[..4], [Some(0x7feb_9be0_0000), Some(5), Some(0x32000), None]);
        assert_eq!(parse_probe(b"(0x7fedeb9abd30 <- 0x7fee9fc70d20) rc=0"), Some(Probe::Return(Some(0))));
        assert_eq!(parse_probe(b"(7f <- 7e) arg1=0xdeadbeef00000002"), Some(Probe::Return(Some(2))));
        assert_eq!(parse_probe(b"(7f <- 7e) rc=-1"), Some(Probe::Return(Some(-1))));
        assert_eq!(parse_probe(b"(7f <- 7e)"), Some(Probe::Return(None)));
        assert_eq!(parse_probe(b"comm=x"), None);
        assert_eq!(parse_probe(b"(0x7"), None);
    }

    #[test]
    fn entries_and_returns_as_bpftrace_names_them() {
        for (entry, leave) in [("uprobe", "uretprobe"), ("u", "ur")] {
            let entry = format!("{entry}:/usr/lib/libcuda.so.1:cuMemAlloc_v2");
            let Some(Probe::Entry(slots)) = parse_probe(entry.as_bytes(), b"arg0=0x7f arg1=5 a3=4") else {
                panic!("{entry}")
            };
            assert_eq!(slots.0[..4], [Some(0x7f), Some(5), None, Some(4)]);
            assert_eq!(parse_probe(entry.as_bytes(), b""), Some(Probe::Entry(Slots::default())));
            let leave = format!("{leave}:/usr/lib/libcuda.so.1:cuMemAlloc_v2");
            assert_eq!(parse_probe(leave.as_bytes(), b"retval=2"), Some(Probe::Return(Some(2))));
            assert_eq!(parse_probe(leave.as_bytes(), b""), Some(Probe::Return(None)));
            assert_eq!(function_of_event(entry.as_bytes()), function_number("cuMemAlloc_v2"));
        }
        // A group of tracefs of that name is the kernel's.
        assert_eq!(parse_probe(b"u:cuInit", b"(0x1) arg1=5"), parse_probe(b"cuInit", b"(0x1) a0=5"));
    }

    #[test]
    fn event_names() {
        let malloc = function_number("cudaMalloc");
        for name in
            ["cudaMalloc", "cudaMalloc_ret", "cudaMalloc__return", "probe_libcudart:cudaMalloc", "p:cudaMalloc_ret"]
        {
            assert_eq!(function_of_event(name.as_bytes()), malloc, "{name}");
        }
        assert_eq!(function_of_event(b"cuMemAlloc_v2_ret"), function_number("cuMemAlloc_v2"));
        assert_eq!(function_of_event(b"probe_libcuda:cuMemAlloc_v2_1"), function_number("cuMemAlloc_v2"));
        assert_eq!(function_of_event(b"cudaMalloc__return_12"), malloc);
        for name in [&b"malloc"[..], b"malloc_1", b"cudaMalloc_", b"cudaMalloc_x1"] {
            assert_eq!(function_of_event(name), None);
        }
    }

    const TASK: TaskId = TaskId(1);

    fn row(rows: &[CallRow], n: usize) -> (u64, u32, u64, Option<u64>) {
        (rows[n].0, rows[n].2.func.0, rows[n].2.end, rows[n].2.dur_ns)
    }

    #[test]
    fn calls_pair_innermost_first() {
        let mut stack = CallStack::default();
        let mut rows = Vec::new();
        for (func, ts) in [(1, 10), (1, 20), (2, 30)] {
            stack.enter(TASK, 0, FuncId(func), (ts, 0), Slots::default(), &mut rows);
        }
        stack.leave(TASK, FuncId(1), (40, 0), Some(0), &mut rows);
        stack.leave(TASK, FuncId(2), (50, 0), Some(0), &mut rows);
        stack.end(TASK, END_OPEN, &mut rows);
        assert_eq!(row(&rows, 0), (20, 1, END_RETURNED, Some(20)));
        assert_eq!(row(&rows, 1), (30, 2, END_SKIPPED, None));
        assert_eq!(row(&rows, 2), (50, 2, END_BEGAN_BEFORE, None));
        assert_eq!(row(&rows, 3), (10, 1, END_OPEN, None));
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn arguments_come_from_the_function_table() {
        let call = |symbol: &str, text: &str| {
            let mut stack = CallStack::default();
            let mut rows = Vec::new();
            let Some(Probe::Entry(slots)) = parse_probe(b"x", text.as_bytes()) else { panic!("{text}") };
            stack.enter(TASK, function_number(symbol).unwrap(), FuncId(0), (1, 0), slots, &mut rows);
            stack.leave(TASK, FuncId(0), (3, 0), Some(0), &mut rows);
            rows[0].2
        };
        let c = call("cudaMemcpyAsync", "(0x1) a0=0xd a1=0xe a2=0x32000 a3=0xffffffff00000001 a4=0x5");
        assert_eq!((c.ptr, c.ptr2, c.bytes, c.copy, c.stream), (Some(13), Some(14), Some(0x32000), Some(1), Some(5)));
        let c = call("cudaMemcpy2D", "(0x1) a0=0xd a1=0xe a2=0x9 a3=0x1 a4=100 a5=3 a6=2");
        assert_eq!((c.bytes, c.copy), (Some(300), Some(2)));
        let c = call("cudaMemcpy2D", "(0x1) a0=0xd a4=100");
        assert_eq!((c.ptr, c.bytes), (Some(13), None));
        let c = call("cuMemcpyHtoDAsync_v2", "(0x1) a0=1 a2=2 a3=7");
        assert_eq!((c.copy, c.bytes, c.stream), (Some(1), Some(2), Some(7)));
        let c = call("cudaMalloc", "(0x1) a0=0x7ffe a1=4096");
        assert_eq!((c.ptr, c.bytes), (None, Some(4096)));
    }

    #[test]
    fn endless_recursion_is_bounded() {
        let mut stack = CallStack::default();
        let mut rows = Vec::new();
        for t in 0..1000 {
            stack.enter(TASK, 0, FuncId(0), (t, 0), Slots::default(), &mut rows);
        }
        assert_eq!(rows.len(), 1000 - MAX_DEPTH);
    }

    #[test]
    fn calls_of_one_instant_are_written_from_the_outside_in() {
        let mut stack = CallStack::default();
        let mut rows = Vec::new();
        for func in [1, 2, 3] {
            stack.enter(TASK, 0, FuncId(func), (10, 0), Slots::default(), &mut rows);
        }
        for func in [3, 2] {
            stack.leave(TASK, FuncId(func), (10, 0), None, &mut rows);
        }
        assert!(rows.is_empty());
        stack.leave(TASK, FuncId(1), (11, 0), None, &mut rows);
        assert_eq!(rows.iter().map(|r| r.2.func.0).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

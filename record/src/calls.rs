//! Entries and returns become calls.

use std::collections::HashMap;

use ingero_ebpf_common::{ArgSlot, FunctionSpec, SLOTS, text_form};
use ingero_format::catalog::{
    Arg, Call, Detail, END_BEGAN_BEFORE, END_OPEN, END_RETURNED, END_SKIPPED, END_THREAD_EXIT, FUNCTIONS, FuncId,
    Function, TaskId, Text, nccl_type_bytes,
};

/// Calls of one thread that may be open at a time; deeper ones are closed as skipped, innermost last. The kernel itself
/// follows 64 returns of a thread.
const DEPTH: usize = 128;

/// A finished row and its place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRow {
    /// Entry; the return where the entry was before the recording.
    pub ts_ns: u64,
    /// CPU at that moment.
    pub cpu: u32,
    /// The call, its function still a number of [`FUNCTIONS`] in `func`.
    pub call: Call,
    /// Arguments of the function's [`Detail`](ingero_format::catalog::Detail), in their order.
    pub extra: [Option<u64>; 5],
    /// All of the return register.
    pub register: Option<u64>,
}

/// One entry as it came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub ts_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Number of the function in [`FUNCTIONS`].
    pub function: u32,
    /// Stack pointer at the first instruction.
    pub sp: u64,
    /// Argument words in the order of the function's spec.
    pub words: [u64; SLOTS],
    /// Bit per word that could not be read.
    pub unread: u8,
}

/// One return as it came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// When.
    pub ts_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Number of the function in [`FUNCTIONS`].
    pub function: u32,
    /// Stack pointer that the entry had.
    pub sp: u64,
    /// Return register.
    pub result: u64,
    /// What the function wrote behind its out pointer.
    pub out: Option<u64>,
}

/// The open calls of all threads.
///
/// A return belongs to the innermost open call of its function with its stack pointer. Everything deeper was left
/// without a return (longjmp, an exception). An entry proves the same of open calls at lower stack pointers, and of
/// one of the same function at the same pointer: this is the rule by which the kernel itself gives up on a return. Calls
/// of *different* functions at one pointer are a tail call: both return, innermost first.
#[derive(Debug, Default)]
pub struct Calls {
    threads: HashMap<TaskId, Vec<Open>>,
    /// Emptied stacks, kept so that a thread that calls again and again allocates nothing.
    spare: Vec<Vec<Open>>,
}

/// A call that has not ended.
#[derive(Debug, Clone, Copy)]
struct Open {
    entry: Entry,
    /// Whether it was handed out as open already.
    told: bool,
}

impl Calls {
    /// No call is open.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A thread entered a function. Hands out the calls that this proves skipped.
    pub fn enter(&mut self, task: TaskId, entry: Entry, mut done: impl FnMut(CallRow)) {
        let spare = &mut self.spare;
        let stack = self.threads.entry(task).or_insert_with(|| spare.pop().unwrap_or_default());
        while let Some(top) = stack.last() {
            let Entry { sp, function, .. } = top.entry;
            let stale = sp < entry.sp || (sp == entry.sp && function == entry.function);
            if !stale && stack.len() < DEPTH {
                break;
            }
            if let Some(left) = stack.pop() {
                done(left.entry.without_return(task, END_SKIPPED));
            }
        }
        stack.push(Open { entry, told: false });
    }

    /// Hands out, as open, every call that was entered at `until_ns` or before, each of them once: a kill must not
    /// take a call with it that has lasted for long. Readers drop such a row when they find the call ended. In the order
    /// of task ids.
    pub fn tell_open(&mut self, until_ns: u64, mut tell: impl FnMut(CallRow)) {
        let is_due = |open: &Open| !open.told && open.entry.ts_ns <= until_ns;
        let due = self.threads.iter().filter(|(_, stack)| stack.iter().any(is_due));
        let mut tasks: Vec<TaskId> = due.map(|(&task, _)| task).collect();
        tasks.sort_unstable();
        for task in tasks {
            for open in self.threads.get_mut(&task).into_iter().flatten().filter(|open| is_due(open)) {
                open.told = true;
                tell(open.entry.without_return(task, END_OPEN));
            }
        }
    }

    /// From here on open calls count as never handed out: another file has begun, which knows of none.
    pub fn forget_told(&mut self) {
        self.threads.values_mut().flatten().for_each(|open| open.told = false);
    }

    /// The open calls as rows, outer ones first, in the order of task ids.
    #[must_use]
    pub fn open_rows(&self) -> Vec<CallRow> {
        let mut tasks: Vec<_> = self.threads.iter().collect();
        tasks.sort_unstable_by_key(|(task, _)| **task);
        let rows = tasks
            .into_iter()
            .flat_map(|(&task, stack)| stack.iter().map(move |open| open.entry.without_return(task, END_OPEN)));
        rows.collect()
    }

    /// A thread returned from a function. Hands out that call, after those that were skipped on the way.
    pub fn leave(&mut self, task: TaskId, ret: &Return, mut done: impl FnMut(CallRow)) {
        let stack = self.threads.get_mut(&task);
        let place = stack
            .as_ref()
            .and_then(|s| s.iter().rposition(|o| (o.entry.function, o.entry.sp) == (ret.function, ret.sp)));
        let (Some(stack), Some(place)) = (stack, place) else {
            done(began_before(task, ret));
            return;
        };
        while stack.len() > place + 1 {
            if let Some(left) = stack.pop() {
                done(left.entry.without_return(task, END_SKIPPED));
            }
        }
        if let Some(open) = stack.pop() {
            done(open.entry.returned(task, ret));
        }
    }

    /// A thread ended: nothing of it returns any more.
    pub fn thread_exit(&mut self, task: TaskId, done: impl FnMut(CallRow)) {
        self.close(task, END_THREAD_EXIT, done);
    }

    /// A thread replaced its program: its frames are gone.
    pub fn exec(&mut self, task: TaskId, done: impl FnMut(CallRow)) {
        self.close(task, END_SKIPPED, done);
    }

    fn close(&mut self, task: TaskId, end: u64, mut done: impl FnMut(CallRow)) {
        if let Some(mut stack) = self.threads.remove(&task) {
            while let Some(left) = stack.pop() {
                // That it is open was said, and still holds.
                if end != END_OPEN || !left.told {
                    done(left.entry.without_return(task, end));
                }
            }
            self.spare.push(stack);
        }
    }

    /// The recording ends: whatever is open stays so. In the order of task ids. Returns how many more are open, but
    /// were told before.
    pub fn finish(&mut self, mut done: impl FnMut(CallRow)) -> u64 {
        let told = self.threads.values().flatten().filter(|open| open.told).count() as u64;
        let mut tasks: Vec<TaskId> = self.threads.keys().copied().collect();
        tasks.sort_unstable();
        for task in tasks {
            self.close(task, END_OPEN, &mut done);
        }
        told
    }
}

impl Entry {
    fn without_return(&self, task: TaskId, end: u64) -> CallRow {
        let (call, extra) = self.call(task);
        CallRow { ts_ns: self.ts_ns, cpu: self.cpu, call: Call { end, ..call }, extra, register: None }
    }

    fn returned(&self, task: TaskId, ret: &Return) -> CallRow {
        let (mut call, extra) = self.call(task);
        call.end = END_RETURNED;
        call.dur_ns = Some(ret.ts_ns.saturating_sub(self.ts_ns));
        call.result = Some(result(ret.result));
        if let Some(Function { ptr: Arg::Out(_), .. }) = function(self.function) {
            call.ptr = ret.out;
        }
        CallRow { ts_ns: self.ts_ns, cpu: self.cpu, call, extra, register: Some(ret.result) }
    }

    /// What the entry alone tells.
    fn call(&self, task: TaskId) -> (Call, [Option<u64>; 5]) {
        let mut call = blank(task, self.function);
        let Some(f) = function(self.function) else {
            return (call, [None; 5]);
        };
        let mut next = 0;
        let value = |arg: Arg| match arg {
            Arg::None | Arg::Out(_) => None,
            Arg::Always(n) => Some(n),
            Arg::Slot(_) | Arg::Slot32(_) | Arg::Behind(..) => {
                let place = next;
                next += 1;
                let word = self.words.get(place).copied().filter(|_| self.unread & (1 << place) == 0)?;
                Some(if matches!(arg, Arg::Slot32(_)) { word & 0xffff_ffff } else { word })
            }
        };
        let [ptr, ptr2, bytes, times, copy, stream, extra @ ..] = f.arguments().map(value);
        call.ptr = ptr;
        call.ptr2 = ptr2;
        call.bytes = match (bytes, f.times) {
            (bytes, Arg::None) => bytes,
            (Some(bytes), _) => times.and_then(|t| bytes.checked_mul(t)),
            (None, _) => None,
        };
        if let (Detail::Collective { .. }, [Some(count), Some(datatype), ..]) = (f.detail, extra) {
            call.bytes = nccl_type_bytes(datatype).and_then(|bytes| bytes.checked_mul(count));
        }
        call.copy = copy;
        call.stream = stream;
        (call, extra)
    }
}

fn function(number: u32) -> Option<&'static Function> {
    FUNCTIONS.get(usize::try_from(number).ok()?)
}

fn blank(task: TaskId, function: u32) -> Call {
    Call {
        task,
        func: FuncId(function),
        dur_ns: None,
        end: END_OPEN,
        result: None,
        ptr: None,
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    }
}

fn began_before(task: TaskId, ret: &Return) -> CallRow {
    let mut call = blank(task, ret.function);
    call.end = END_BEGAN_BEFORE;
    call.result = Some(result(ret.result));
    if let Some(Function { ptr: Arg::Out(_), .. }) = function(ret.function) {
        call.ptr = ret.out;
    }
    CallRow { ts_ns: ret.ts_ns, cpu: ret.cpu, call, extra: [None; 5], register: Some(ret.result) }
}

/// Results are C enumerations: the upper half of the register is noise.
fn result(register: u64) -> i64 {
    let low = u32::try_from(register & 0xffff_ffff).unwrap_or(0);
    i64::from(low.cast_signed())
}

fn slot(arg: Arg) -> Option<ArgSlot> {
    match arg {
        Arg::Slot(n) | Arg::Slot32(n) => Some(ArgSlot::argument(n)),
        Arg::Behind(n, offset) => Some(ArgSlot::pointee(n, i16::from(offset), 8)),
        Arg::None | Arg::Always(_) | Arg::Out(_) => None,
    }
}

/// Which words of a function the kernel side has to record.
#[must_use]
pub fn function_spec(f: &Function) -> FunctionSpec {
    let slots: Vec<ArgSlot> = f.arguments().into_iter().filter_map(slot).collect();
    let spec = FunctionSpec::of(&slots);
    // Every out pointer of the table is in a register; a test says so.
    let spec = if let Arg::Out(n) = f.ptr { spec.with_out_ptr(n) } else { spec };
    match f.text() {
        Some(Text::At(n)) => spec.with_text(n, text_form::BYTES),
        Some(Text::Attributes(n)) => spec.with_text(n, text_form::ATTRIBUTES),
        Some(Text::Wide) | None => spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::function_number;

    const T: TaskId = TaskId(1);

    fn number(symbol: &str) -> u32 {
        u32::try_from(function_number(symbol).unwrap()).unwrap()
    }

    fn entry(symbol: &str, ts_ns: u64, sp: u64) -> Entry {
        Entry { ts_ns, cpu: 0, function: number(symbol), sp, words: [0; SLOTS], unread: 0 }
    }

    fn ret(symbol: &str, ts_ns: u64, sp: u64) -> Return {
        Return { ts_ns, cpu: 1, function: number(symbol), sp, result: 0, out: None }
    }

    /// A script of entries (`true`) and returns, and what comes out: symbol, entry time, duration, end.
    fn play(script: &[(bool, &str, u64, u64)]) -> Vec<(&'static str, u64, Option<u64>, u64)> {
        let mut calls = Calls::new();
        let mut rows = Vec::new();
        for &(enter, symbol, ts, sp) in script {
            if enter {
                calls.enter(T, entry(symbol, ts, sp), |r| rows.push(r));
            } else {
                calls.leave(T, &ret(symbol, ts, sp), |r| rows.push(r));
            }
        }
        calls.finish(|r| rows.push(r));
        rows.iter().map(|r| (FUNCTIONS[r.call.func.index()].symbol, r.ts_ns, r.call.dur_ns, r.call.end)).collect()
    }

    const A: &str = "cudaMalloc";
    const B: &str = "cuMemAlloc_v2";
    const C: &str = "cudaFree";

    #[test]
    fn nesting() {
        assert_eq!(
            play(&[(true, A, 1, 100), (true, B, 2, 90), (false, B, 5, 90), (false, A, 9, 100)]),
            [(B, 2, Some(3), END_RETURNED), (A, 1, Some(8), END_RETURNED)]
        );
    }

    #[test]
    fn recursion_pairs_every_call() {
        let depth = 6;
        let enter = (0..depth).map(|i| (true, A, i, 100 - i));
        let leave = (0..depth).rev().map(|i| (false, A, 20 - i, 100 - i));
        let rows = play(&enter.chain(leave).collect::<Vec<_>>());
        assert_eq!(rows.len(), 6);
        for (row, i) in rows.iter().zip((0..depth).rev()) {
            assert_eq!(*row, (A, i, Some(20 - 2 * i), END_RETURNED));
        }
    }

    #[test]
    fn longjmp_over_an_inner_call() {
        assert_eq!(
            play(&[(true, A, 1, 100), (true, B, 2, 90), (false, A, 9, 100)]),
            [(B, 2, None, END_SKIPPED), (A, 1, Some(8), END_RETURNED)]
        );
    }

    #[test]
    fn longjmp_out_of_everything_never_steals_a_later_return() {
        assert_eq!(
            play(&[(true, A, 1, 100), (true, A, 2, 100), (false, A, 5, 100), (true, C, 6, 120), (false, C, 7, 120)]),
            [(A, 1, None, END_SKIPPED), (A, 2, Some(3), END_RETURNED), (C, 6, Some(1), END_RETURNED)]
        );
        // Left behind at a lower pointer: proven by the next entry above.
        assert_eq!(
            play(&[(true, B, 1, 90), (true, A, 2, 100), (false, A, 3, 100)]),
            [(B, 1, None, END_SKIPPED), (A, 2, Some(1), END_RETURNED)]
        );
    }

    #[test]
    fn a_tail_call_returns_twice_at_one_pointer() {
        assert_eq!(
            play(&[(true, A, 1, 100), (true, B, 2, 100), (false, B, 5, 100), (false, A, 6, 100)]),
            [(B, 2, Some(3), END_RETURNED), (A, 1, Some(5), END_RETURNED)]
        );
    }

    #[test]
    fn returns_without_entry_and_entries_without_return() {
        assert_eq!(
            play(&[(false, A, 5, 100), (true, A, 6, 100), (true, B, 7, 90)]),
            [(A, 5, None, END_BEGAN_BEFORE), (B, 7, None, END_OPEN), (A, 6, None, END_OPEN)]
        );
        // Another stack pointer is another call.
        assert_eq!(
            play(&[(true, A, 1, 100), (false, A, 2, 104)]),
            [(A, 2, None, END_BEGAN_BEFORE), (A, 1, None, END_OPEN)]
        );
    }

    #[test]
    fn long_calls_are_told_once_while_they_are_open() {
        let mut calls = Calls::new();
        let mut rows = Vec::new();
        calls.enter(TaskId(2), entry(A, 5, 100), |r| rows.push(r));
        calls.enter(TaskId(1), entry(A, 7, 100), |r| rows.push(r));
        calls.enter(TaskId(1), entry(B, 8, 90), |r| rows.push(r));
        calls.enter(TaskId(1), entry(C, 20, 80), |r| rows.push(r));
        for _ in 0..2 {
            calls.tell_open(10, |r| rows.push(r));
        }
        let brief =
            |rows: &[CallRow]| -> Vec<_> { rows.iter().map(|r| (r.call.task.0, r.ts_ns, r.call.end)).collect() };
        assert_eq!(brief(&rows), [(1, 7, END_OPEN), (1, 8, END_OPEN), (2, 5, END_OPEN)]);
        rows.clear();
        // The end of a call is told in any case; what is still open was told.
        calls.leave(TaskId(1), &ret(B, 30, 90), |r| rows.push(r));
        calls.thread_exit(TaskId(2), |r| rows.push(r));
        calls.finish(|r| rows.push(r));
        assert_eq!(brief(&rows), [(1, 20, END_SKIPPED), (1, 8, END_RETURNED), (2, 5, END_THREAD_EXIT)]);
    }

    #[test]
    fn threads_do_not_mix_and_end_with_what_is_open() {
        let mut calls = Calls::new();
        let mut rows = Vec::new();
        calls.enter(TaskId(1), entry(A, 1, 100), |r| rows.push(r));
        calls.enter(TaskId(2), entry(A, 2, 100), |r| rows.push(r));
        calls.leave(TaskId(2), &ret(A, 3, 100), |r| rows.push(r));
        calls.thread_exit(TaskId(1), |r| rows.push(r));
        calls.finish(|r| rows.push(r));
        let seen: Vec<_> = rows.iter().map(|r| (r.call.task.0, r.call.end)).collect();
        assert_eq!(seen, [(2, END_RETURNED), (1, END_THREAD_EXIT)]);
    }

    #[test]
    fn endless_entries_stay_bounded() {
        let mut calls = Calls::new();
        let mut skipped = 0;
        for i in 0..10_000 {
            calls.enter(T, entry(A, i, 1_000_000 - i), |_| skipped += 1);
        }
        let mut open = 0;
        calls.finish(|_| open += 1);
        assert_eq!(skipped + open, 10_000);
        assert!(open <= DEPTH);
    }

    #[test]
    fn fields_come_from_the_function_table() {
        let mut calls = Calls::new();
        let mut rows = Vec::new();
        let mut go = |symbol: &str, words: [u64; SLOTS], unread: u8, result: u64, out: Option<u64>| {
            let e = Entry { words, unread, ..entry(symbol, 1, 100) };
            let r = Return { result, out, ..ret(symbol, 2, 100) };
            calls.enter(T, e, |r| rows.push(r));
            calls.leave(T, &r, |r| rows.push(r));
            rows.pop().unwrap().call
        };
        // destination, source, bytes, direction (an int: the upper half is noise), stream
        let c = go("cudaMemcpyAsync", [1, 2, 3, 0xdead_0000_0001, 5, 0], 0, 0, None);
        assert_eq!((c.ptr, c.ptr2, c.bytes, c.copy, c.stream), (Some(1), Some(2), Some(3), Some(1), Some(5)));
        // width times height
        let c = go("cudaMemcpy2DAsync", [1, 9, 10, 20, 2, 7], 0, 0, None);
        assert_eq!((c.ptr, c.ptr2, c.bytes, c.copy, c.stream), (Some(1), Some(9), Some(200), Some(2), Some(7)));
        // a constant width needs no word
        let c = go("cuMemsetD32_v2", [1, 8, 0, 0, 0, 0], 0, 0, None);
        assert_eq!((c.ptr, c.bytes), (Some(1), Some(32)));
        let c = go("cuMemcpyHtoD_v2", [1, 2, 3, 0, 0, 0], 0, 0, None);
        assert_eq!((c.bytes, c.copy, c.stream), (Some(3), Some(1), None));
        // an allocation's pointer is known at its return
        let c = go("cudaMalloc", [4096, 0, 0, 0, 0, 0], 0, 0, Some(0x7f00));
        assert_eq!((c.ptr, c.bytes, c.result), (Some(0x7f00), Some(4096), Some(0)));
        let c = go("cudaMalloc", [4096, 0, 0, 0, 0, 0], 1, 0xffff_ffff_ffff_ffff, None);
        assert_eq!((c.ptr, c.bytes, c.result), (None, None, Some(-1)));
        let c = go("cudaMalloc", [1, 0, 0, 0, 0, 0], 0, 0xabcd_0000_0002, None);
        assert_eq!(c.result, Some(2));
        // products that overflow are unknown
        let c = go("cudaMemset2D", [1, u64::MAX, 2, 0, 0, 0], 0, 0, None);
        assert_eq!(c.bytes, None);
    }

    #[test]
    fn specs_follow_the_table() {
        for f in FUNCTIONS {
            let spec = function_spec(f);
            assert!(usize::from(spec.used) <= SLOTS, "{}", f.symbol);
            for arg in f.arguments().into_iter().skip(1) {
                assert!(!matches!(arg, Arg::Out(_)), "{}", f.symbol);
            }
            assert!(!matches!(f.ptr, Arg::Out(6..)), "{}", f.symbol);
        }
        let spec = function_spec(&FUNCTIONS[function_number("cudaLaunchKernelExC").unwrap()]);
        assert_eq!(spec.slots[..2], [ArgSlot::argument(1), ArgSlot::pointee(0, 32, 8)]);
        assert_eq!(function_spec(&FUNCTIONS[function_number("cudaMalloc").unwrap()]).out_ptr, 1);
    }
}

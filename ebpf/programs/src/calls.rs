//! Entries and returns of probed functions.
//!
//! One program serves all functions: the attach cookie says which one it is. Nothing is remembered
//! between an entry and its return, both are records and pair in user space by thread and stack pointer;
//! only where a function hands out a value through a pointer is that pointer kept.

use aya_ebpf::{
    EbpfContext,
    bindings::pt_regs,
    helpers::generated::{bpf_get_attach_cookie, bpf_probe_read_user, bpf_probe_read_user_str},
    macros::{map, uprobe, uretprobe},
    maps::{Array, HashMap},
    programs::{ProbeContext, RetProbeContext},
};
use ingero_ebpf_common::{
    ArgSlot, CallEntry, CallReturn, CallText, FunctionSpec, Kind, MAX_FUNCTIONS, OpenOut, OpenOuts, SLOTS, TEXT_BYTES,
    call_entry_args, return_flag, text_form,
};

use crate::{Task, arch, ring, targets};

/// Indexed by function id.
#[map]
static FUNCTIONS: Array<FunctionSpec> = Array::with_max_entries(MAX_FUNCTIONS, 0);

/// By thread id: calls whose out value is still to be read.
#[map]
static OPEN_OUTS: HashMap<u32, OpenOuts> = HashMap::with_max_entries(16 << 10, 0);

#[repr(C)]
struct EntryWith<const N: usize> {
    head: CallEntry,
    words: [u64; N],
}

#[repr(C)]
struct ReturnWithOut {
    head: CallReturn,
    out: u64,
}

/// At the first instruction of a function, or behind instructions that leave stack and arguments alone.
#[uprobe]
pub fn call_entry(ctx: ProbeContext) -> u32 {
    let task = Task::current();
    if !targets::followed(task) {
        return 0;
    }
    let (function, regs) = (cookie(&ctx), registers(&ctx));
    let Some(spec) = FUNCTIONS.get(function) else { return 0 };
    if spec.out_ptr != 0 {
        remember_out(
            task.tid,
            arch::entry_sp(regs),
            register(&arch::argument_registers(regs), spec.out_ptr as u64 - 1),
        );
    }
    if spec.text != 0 {
        emit_text(task, function, regs, spec);
    }
    match call_entry_args(spec.used as usize) {
        0 => emit_entry::<0>(task, function, regs, spec),
        2 => emit_entry::<2>(task, function, regs, spec),
        5 => emit_entry::<5>(task, function, regs, spec),
        _ => emit_entry::<SLOTS>(task, function, regs, spec),
    }
    0
}

/// Where the function returned to.
#[uretprobe]
pub fn call_return(ctx: RetProbeContext) -> u32 {
    let task = Task::current();
    if !targets::followed(task) {
        return 0;
    }
    let (function, regs) = (cookie(&ctx), registers(&ctx));
    let Some(spec) = FUNCTIONS.get(function) else { return 0 };
    let sp = arch::entry_sp_at_return(regs);
    let head = |header| CallReturn { header, tgid: task.tgid, function, sp, result: arch::result(regs) };
    if spec.out_ptr == 0 {
        ring::emit(Kind::CallReturn, task, 0, head);
    } else if let Some(out) = take_out(task.tid, sp).and_then(read_user::<u64>) {
        let with_out = |header| ReturnWithOut { head: head(header), out };
        ring::emit(Kind::CallReturn, task, return_flag::HAS_OUT, with_out);
    } else {
        ring::emit(Kind::CallReturn, task, return_flag::OUT_UNREAD, head);
    }
    0
}

/// Forgets what a thread left open.
#[inline(always)]
pub(crate) fn thread_died(tid: u32) {
    let _ = OPEN_OUTS.remove(tid);
}

#[inline(always)]
fn cookie(ctx: &impl EbpfContext) -> u32 {
    // SAFETY: the context of a uprobe program, as the helper wants it.
    unsafe { bpf_get_attach_cookie(ctx.as_ptr()) as u32 }
}

#[inline(always)]
fn registers(ctx: &impl EbpfContext) -> &pt_regs {
    // SAFETY: the context of a uprobe program is the registers at the probe.
    unsafe { &*ctx.as_ptr().cast::<pt_regs>() }
}

#[inline(always)]
fn read_user<T: Copy>(address: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes size_of::<T>() bytes to `value`, zeroes when it fails; T is plain data.
    unsafe {
        match bpf_probe_read_user(value.as_mut_ptr().cast(), size_of::<T>() as u32, address as *const _) {
            0 => Some(value.assume_init()),
            _ => None,
        }
    }
}

/// Records the text that an argument leads to; a record without it where it cannot be read.
#[inline(always)]
fn emit_text(task: Task, function: u32, regs: &pt_regs, spec: &FunctionSpec) {
    const BYTES_MESSAGE: u32 = 1;
    let argument = register(&arch::argument_registers(regs), spec.text as u64 - 1);
    let place = match spec.text_form {
        text_form::BYTES => Some(argument),
        text_form::ATTRIBUTES => match read_user::<u32>(argument.wrapping_add(32)) {
            Some(BYTES_MESSAGE) => read_user::<u64>(argument.wrapping_add(40)),
            _ => None,
        },
        _ => None,
    };
    let Some(mut room) = ring::reserve::<CallText>(Kind::CallText) else { return };
    let mut header = room.header(Kind::CallText, task, 0);
    let record = room.as_mut_ptr();
    // SAFETY: `record` points at room for this struct. What lies behind the text's closing zero is never looked at.
    unsafe {
        let text = &raw mut (*record).text;
        let length = match place {
            Some(place) => bpf_probe_read_user_str(text.cast(), TEXT_BYTES as u32, place as *const _),
            None => -1,
        };
        if length < 0 {
            header.flags = 1;
            text.cast::<u8>().write(0);
        }
        (&raw mut (*record).header).write(header);
        (&raw mut (*record).tgid).write(task.tgid);
        (&raw mut (*record).function).write(function);
        (&raw mut (*record).sp).write(arch::entry_sp(regs));
        room.submit();
    }
}

#[inline(always)]
fn emit_entry<const N: usize>(task: Task, function: u32, regs: &pt_regs, spec: &FunctionSpec) {
    let sp = arch::entry_sp(regs);
    let registers = if N > 0 { arch::argument_registers(regs) } else { [0; arch::REGISTER_ROOM] };
    let Some(mut room) = ring::reserve::<EntryWith<N>>(Kind::CallEntry) else { return };
    let mut header = room.header(Kind::CallEntry, task, 0);
    let record = room.as_mut_ptr();
    let mut bit = 1;
    for n in 0..N {
        let Some(slot) = spec.slots.get(n) else { break };
        let word = if n < spec.used as usize { read_slot(&registers, sp, slot) } else { Some(0) };
        header.flags |= if word.is_none() { bit } else { 0 };
        bit <<= 1;
        // SAFETY: `n` is below N, the number of words that `record` has room for.
        unsafe { (&raw mut (*record).words).cast::<u64>().add(n).write(word.unwrap_or(0)) };
    }
    // SAFETY: `record` points at room for this struct, and then all of it is written.
    unsafe {
        (&raw mut (*record).head).write(CallEntry { header, tgid: task.tgid, function, sp });
        room.submit();
    }
}

#[inline(always)]
fn register(registers: &[u64; arch::REGISTER_ROOM], n: u64) -> u64 {
    let first = registers.as_ptr();
    // SAFETY: the mask keeps the index inside the array. Volatile, or the compiler would choose between
    // addresses in the context instead, which the verifier refuses.
    unsafe { core::ptr::read_volatile(first.add((n & (arch::REGISTER_ROOM as u64 - 1)) as usize)) }
}

#[inline(always)]
fn read_slot(registers: &[u64; arch::REGISTER_ROOM], sp: u64, slot: &ArgSlot) -> Option<u64> {
    let n = u64::from(slot.arg);
    let argument = if n < arch::REGISTER_ARGUMENTS {
        register(registers, n)
    } else {
        read_user(arch::stack_argument(sp, n - arch::REGISTER_ARGUMENTS))?
    };
    let place = argument.wrapping_add_signed(i64::from(slot.offset));
    match slot.width {
        0 => Some(argument),
        4 => read_user::<u32>(place).map(u64::from),
        _ => read_user(place),
    }
}

/// Keeps the out pointer of a call. Full places are taken from calls that must be over, since they began
/// further down the stack: they were left by a longjmp.
#[inline(always)]
fn remember_out(tid: u32, sp: u64, pointer: u64) {
    let this = OpenOut { sp, pointer };
    let Some(open) = OPEN_OUTS.get_ptr_mut(tid) else {
        let mut fresh = OpenOuts { calls: [OpenOut { sp: 0, pointer: 0 }; 4] };
        let [first, ..] = &mut fresh.calls;
        *first = this;
        if OPEN_OUTS.insert(tid, fresh, 0).is_err() {
            ring::map_was_full(Kind::CallReturn);
        }
        return;
    };
    // SAFETY: the value of this very thread; nobody else touches it.
    let calls = unsafe { &mut (*open).calls };
    for call in calls.iter_mut() {
        if call.sp == 0 || call.sp == sp {
            *call = this;
            return;
        }
    }
    for call in calls.iter_mut() {
        if call.sp < sp {
            *call = this;
            return;
        }
    }
    ring::map_was_full(Kind::CallReturn);
}

/// The out pointer of the call that began at this stack pointer; its place is free again.
#[inline(always)]
fn take_out(tid: u32, sp: u64) -> Option<u64> {
    let open = OPEN_OUTS.get_ptr_mut(tid)?;
    // SAFETY: the value of this very thread; nobody else touches it.
    for call in unsafe { &mut (*open).calls } {
        if call.sp == sp {
            call.sp = 0;
            return Some(call.pointer);
        }
    }
    None
}

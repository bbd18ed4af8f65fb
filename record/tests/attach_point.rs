//! A probe behind `endbr64` sees what a probe at the first instruction sees. Needs root.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

use ingero_record::kernel::{ArgSlot, FunctionSpec, Kernel, Options, Probe, WireEvent};
use ingero_record::processor::Processor;

const INNER: u32 = 11;
const OUTER: u32 = 12;
const CALLS: u64 = 50;
const ROLE: &str = "INGERO_ATTACH_POINT_CHILD";

// As compilers begin functions with indirect branch tracking switched on.
std::arch::global_asm!(
    ".globl ingero_test_inner",
    "ingero_test_inner:",
    "endbr64",
    "push rbp",
    "mov rbp, rsp",
    "lea rax, [rdi + rsi]",
    "pop rbp",
    "ret",
    ".globl ingero_test_outer",
    "ingero_test_outer:",
    "endbr64",
    "push rbp",
    "mov rbp, rsp",
    "push rdi",
    "push rdi",
    "add rdi, 1",
    "call ingero_test_inner",
    "pop rdi",
    "pop rdi",
    "add rax, rdi",
    "pop rbp",
    "ret",
);

unsafe extern "C" {
    fn ingero_test_inner(a: u64, b: u64) -> u64;
    fn ingero_test_outer(a: u64, b: u64) -> u64;
}

/// The role of the process that calls.
#[test]
fn child() {
    if std::env::var_os(ROLE).is_some() {
        for a in 0..CALLS {
            // SAFETY: a function of two numbers.
            assert_eq!(unsafe { ingero_test_outer(a, 7) }, 2 * a + 8);
        }
    }
}

/// What a call looked like: function, arguments or result, stack pointer relative to the first one.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Entry(u32, u64, u64),
    Return(u32, u64),
}

/// Everything that the child did, and whether each return had the stack pointer of its entry.
fn observed(behind: bool) -> Vec<Seen> {
    let mut kernel = Kernel::load(&Options { all_processes: true, ..Options::default() }).unwrap();
    let mut drain = kernel.take_drain().unwrap();
    let functions =
        [(INNER, ingero_test_inner as *const () as usize), (OUTER, ingero_test_outer as *const () as usize)];
    let probes = functions.map(|(function, address)| {
        kernel.set_function_spec(function, &FunctionSpec::of(&[ArgSlot::argument(0), ArgSlot::argument(1)])).unwrap();
        // SAFETY: the function's own first bytes.
        let head = unsafe { std::slice::from_raw_parts(address as *const u8, 8) };
        let further = Processor::X86_64.cheapest(head);
        assert_eq!(further, 4);
        Probe { offset: file_offset(address) + if behind { further } else { 0 }, function }
    });
    let attached = kernel.attach_calls("/proc/self/exe", &probes).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env(ROLE, "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    drop(attached);
    let (mut seen, mut open) = (Vec::new(), Vec::new());
    while drain
        .read(1000, |event| match event {
            WireEvent::CallEntry(call, words) => {
                seen.push(Seen::Entry(call.function, words[0], words[1]));
                assert!(open.last().is_none_or(|&(_, sp)| call.sp < sp), "nested further down the stack");
                open.push((call.function, call.sp));
            }
            WireEvent::CallReturn(call, _) => {
                seen.push(Seen::Return(call.function, call.result));
                assert_eq!(open.pop(), Some((call.function, call.sp)), "the innermost one returns");
            }
            _ => {}
        })
        .unwrap()
        > 0
    {}
    assert_eq!(open, []);
    seen
}

#[test]
fn arguments_results_and_nesting_are_the_same() {
    let expected: Vec<Seen> = (0..CALLS)
        .flat_map(|a| {
            [
                Seen::Entry(OUTER, a, 7),
                Seen::Entry(INNER, a + 1, 7),
                Seen::Return(INNER, a + 8),
                Seen::Return(OUTER, 2 * a + 8),
            ]
        })
        .collect();
    for behind in [false, true] {
        assert_eq!(observed(behind), expected, "behind endbr64: {behind}");
    }
}

/// Where a byte of this program's code lies in its file.
fn file_offset(address: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let place = maps.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-')?;
        (hex(start)..hex(end)).contains(&(address as u64)).then(|| address as u64 - hex(start) + hex(fields[2]))
    });
    place.unwrap()
}

//! Functions to probe, and what is asked of them.

use std::hint::black_box;

use ingero_record::kernel::{ArgSlot, FunctionSpec, Kernel, Probe};

#[repr(C)]
pub(crate) struct Shape {
    pub(crate) padding: u32,
    pub(crate) small: u32,
    pub(crate) large: u64,
}

#[inline(never)]
pub(crate) extern "C" fn eight_arguments(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64) -> u64 {
    black_box(a + b + c + d + e + f + g + h)
}

#[inline(never)]
pub(crate) extern "C" fn by_pointer(shape: *const Shape, other: u64) -> i32 {
    black_box((shape, other));
    -7
}

/// Hands out a value, and calls another function that does.
#[inline(never)]
pub(crate) extern "C" fn outer_out(out: *mut u64, size: u64) -> i32 {
    let mut inner = 0;
    inner_out(&raw mut inner, size);
    // SAFETY: callers pass a local.
    unsafe { out.write(black_box(inner + 1)) };
    0
}

#[inline(never)]
extern "C" fn inner_out(out: *mut u64, size: u64) -> i32 {
    // SAFETY: callers pass a local.
    unsafe { out.write(black_box(size * 1000)) };
    0
}

#[inline(never)]
pub(crate) extern "C" fn recursive(depth: u64) -> u64 {
    if depth == 0 { black_box(0) } else { black_box(recursive(depth - 1)) + 1 }
}

#[inline(never)]
extern "C" fn numbered<const N: usize>() -> usize {
    black_box(N)
}

macro_rules! numbered {
    ($($tens:literal)*) => { [$(numbered!(@ten $tens)),*].concat() };
    (@ten $tens:literal) => { numbered!(@each $tens 0 1 2 3 4 5 6 7 8 9) };
    (@each $tens:literal $($ones:literal)*) => { [$(numbered::<{ $tens * 10 + $ones }> as extern "C" fn() -> usize),*] };
}

pub(crate) fn five_hundred() -> Vec<extern "C" fn() -> usize> {
    numbered!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49)
}

/// Where an address of this binary's code is in its file.
pub(crate) fn file_offset(address: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        if (hex(start)..hex(end)).contains(&(address as u64)) {
            return address as u64 - hex(start) + hex(fields[2]);
        }
    }
    panic!("{address:#x} is not mapped");
}

pub(crate) const EIGHT: u32 = 3;
pub(crate) const POINTER: u32 = 4;
pub(crate) const OUTER: u32 = 5;
pub(crate) const INNER: u32 = 6;
pub(crate) const RECURSIVE: u32 = 4095;

pub(crate) fn probes() -> Vec<Probe> {
    [
        (eight_arguments as *const () as usize, EIGHT),
        (by_pointer as *const () as usize, POINTER),
        (outer_out as *const () as usize, OUTER),
        (inner_out as *const () as usize, INNER),
        (recursive as *const () as usize, RECURSIVE),
    ]
    .into_iter()
    .map(|(address, function)| Probe { offset: file_offset(address), function })
    .collect()
}

pub(crate) fn describe_functions(kernel: &Kernel) {
    let argument = ArgSlot::argument;
    for (function, spec) in [
        (EIGHT, FunctionSpec::of(&[argument(7), argument(0), argument(5), argument(6), argument(3)])),
        (POINTER, FunctionSpec::of(&[ArgSlot::pointee(0, 4, 4), ArgSlot::pointee(0, 8, 8), ArgSlot::pointee(1, 0, 8)])),
        (OUTER, FunctionSpec::of(&[argument(1)]).with_out_ptr(0)),
        (INNER, FunctionSpec::NONE.with_out_ptr(0)),
        (RECURSIVE, FunctionSpec::of(&[argument(0)])),
    ] {
        kernel.set_function_spec(function, &spec).unwrap();
    }
}

//! What NVTX 3 loads into a recorded program, so that its ranges and marks can be probed.
//!
//! NVTX 3 is header-only: without a tool, its functions are a load and a branch in the program's own code, with nothing that a
//! probe could be set on. With a tool, each goes through a pointer into the library that `NVTX_INJECTION64_PATH` names (see
//! `nvtxInit.h` and `nvtxTypes.h` of NVIDIA's NVTX, version 3). This is such a library. It does nothing but give each function a
//! place with a name, the name that NVTX 2 had for it, and say what it was called with in the plainest form: registered and wide
//! texts become bytes, which is what a probe can read.
//!
//! Built by `build.rs` for the recorded program's sake: no standard library, nothing that needs to be found beside it, four
//! functions of the C library that the program itself has.
#![no_std]

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

unsafe extern "C" {
    fn abort() -> !;
    fn malloc(bytes: usize) -> *mut c_void;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: takes nothing, and does not return.
    unsafe { abort() }
}

/// What the core library's unwinding tables name, and nothing here gets to: a panic aborts.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Bytes of a text that a recording keeps, with the zero at the end.
const TEXT: usize = 128;

/// `nvtxEventAttributes_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

/// Ways of [`Attributes::message_type`].
const ASCII: i32 = 1;
const WIDE: i32 = 2;
const REGISTERED: i32 = 3;

/// `NVTX_NO_PUSH_POP_TRACKING`: this tool does not count how deep ranges are nested.
const UNCOUNTED: c_int = -2;

/// The functions that are probed, each with the arguments that NVTX 2 has under this name.
macro_rules! probed {
    ($($name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty = $value:expr)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[inline(never)]
            extern "C" fn $name($($arg: $kind),*) $(-> $result)? {
                // What a probe reads has to be there, though nothing here reads it; and of two functions with the same code the
                // compiler would make one with two names.
                // SAFETY: does nothing.
                $(unsafe { asm!("/* {} */", in(reg) $arg) };)*
                unsafe { asm!(concat!("/* ", stringify!($name), " */")) };
                $($value)?
            }
        )*
    };
}

type Text = *const c_char;
type Event = *const Attributes;
type Domain = *const c_void;

/// Ids of started ranges, and of domains.
static LAST_RANGE: AtomicU64 = AtomicU64::new(0);
static LAST_DOMAIN: AtomicUsize = AtomicUsize::new(0);

fn new_range() -> u64 {
    LAST_RANGE.fetch_add(1, Relaxed).wrapping_add(1)
}

probed! {
    nvtxMarkA(message: Text);
    nvtxMarkEx(event: Event);
    nvtxRangeStartA(message: Text) -> u64 = new_range();
    nvtxRangeStartEx(event: Event) -> u64 = new_range();
    nvtxRangeEnd(id: u64);
    nvtxRangePushA(message: Text) -> c_int = UNCOUNTED;
    nvtxRangePushEx(event: Event) -> c_int = UNCOUNTED;
    nvtxRangePop() -> c_int = UNCOUNTED;
    nvtxDomainMarkEx(domain: Domain, event: Event);
    nvtxDomainRangeStartEx(domain: Domain, event: Event) -> u64 = new_range();
    nvtxDomainRangeEnd(domain: Domain, id: u64);
    nvtxDomainRangePushEx(domain: Domain, event: Event) -> c_int = UNCOUNTED;
    nvtxDomainRangePop(domain: Domain) -> c_int = UNCOUNTED;
}

/// A wide text (`wchar_t` has 32 bits on Linux) as UTF-8, cut where a recording would cut it.
unsafe fn narrow(wide: *const u32, into: &mut [u8; TEXT]) -> Text {
    if wide.is_null() {
        return ptr::null();
    }
    let mut at = 0;
    let mut next = wide;
    loop {
        // SAFETY: the caller's text ends with a zero, where this loop ends too.
        let code = unsafe { *next };
        let letter = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let Some(room) = into.get_mut(at..TEXT - 1).filter(|room| code != 0 && room.len() >= letter.len_utf8()) else {
            break;
        };
        at += letter.encode_utf8(room).len();
        // SAFETY: behind a letter there is another one, or the end.
        next = unsafe { next.add(1) };
    }
    if let Some(end) = into.get_mut(at) {
        *end = 0;
    }
    into.as_ptr().cast()
}

/// Calls `then` with the event as a probe can read it.
unsafe fn plainly<R>(event: Event, then: impl FnOnce(Event) -> R) -> R {
    // SAFETY: either there is none, or it is one.
    let Some(given) = (unsafe { event.as_ref() }) else { return then(event) };
    let mut text = [0; TEXT];
    let message = match given.message_type {
        // What `register` returned is where the text lies.
        REGISTERED => given.message,
        // SAFETY: the type says what the pointer leads to.
        WIDE => unsafe { narrow(given.message.cast(), &mut text) },
        _ => return then(event),
    };
    then(&Attributes { message_type: ASCII, message, ..*given })
}

/// What stands in NVTX's tables where a text needs to be made plain first.
macro_rules! plain {
    ($($name:ident$([$before:ident: $kind:ty])? -> $result:ty = $to:ident;)*) => {
        $(
            unsafe extern "C" fn $name($($before: $kind,)? event: Event) -> $result {
                // SAFETY: NVTX hands on what the program gave it.
                unsafe { plainly(event, |event| $to($($before,)? event)) }
            }
        )*
    };
}

plain! {
    mark_event -> () = nvtxMarkEx;
    start_event -> u64 = nvtxRangeStartEx;
    push_event -> c_int = nvtxRangePushEx;
    domain_mark_event[domain: Domain] -> () = nvtxDomainMarkEx;
    domain_start_event[domain: Domain] -> u64 = nvtxDomainRangeStartEx;
    domain_push_event[domain: Domain] -> c_int = nvtxDomainRangePushEx;
}

macro_rules! wide {
    ($($name:ident -> $result:ty = $to:ident;)*) => {
        $(
            unsafe extern "C" fn $name(message: *const u32) -> $result {
                let mut text = [0; TEXT];
                // SAFETY: NVTX hands on what the program gave it.
                $to(unsafe { narrow(message, &mut text) })
            }
        )*
    };
}

wide! {
    mark_wide -> () = nvtxMarkA;
    start_wide -> u64 = nvtxRangeStartA;
    push_wide -> c_int = nvtxRangePushA;
}

/// Keeps a text for good, as registered ones are: its place is its handle.
unsafe fn keep(text: &[u8]) -> *const c_void {
    let text = text.get(..text.len().min(TEXT - 1)).unwrap_or_default();
    // SAFETY: any size may be asked for.
    let place = unsafe { malloc(TEXT) }.cast::<u8>();
    if !place.is_null() {
        // SAFETY: the place has room for the text, which was cut, and its end.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
            *place.add(text.len()) = 0;
        }
    }
    place.cast()
}

unsafe extern "C" fn register(_domain: Domain, text: Text) -> *const c_void {
    if text.is_null() {
        return ptr::null();
    }
    // SAFETY: a text of the program's, with a zero at its end.
    unsafe { keep(CStr::from_ptr(text).to_bytes()) }
}

unsafe extern "C" fn register_wide(domain: Domain, wide: *const u32) -> *const c_void {
    let mut text = [0; TEXT];
    // SAFETY: as in `register`.
    unsafe { register(domain, narrow(wide, &mut text)) }
}

/// A handle that no other domain has. Nothing lies there.
extern "C" fn create_domain(_name: *const c_void) -> Domain {
    ptr::without_provenance(LAST_DOMAIN.fetch_add(1, Relaxed).wrapping_add(1))
}

/// `NvtxExportTableVersionInfo`, as far as it is asked.
#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
}

/// An array of places that hold a function's pointer each.
type Table = *const *mut *const c_void;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    bytes: usize,
    table_of: Option<unsafe extern "C" fn(module: c_uint, table: *mut Table, count: *mut c_uint) -> c_int>,
}

/// Ids of export tables.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;

/// Numbers of the modules, and in each the numbers of the functions.
const CORE: c_uint = 1;
const CORE2: c_uint = 5;

unsafe fn fill(callbacks: &Callbacks, module: c_uint, functions: &[(usize, *const c_void)]) {
    let Some(table_of) = callbacks.table_of else { return };
    let (mut table, mut count) = (ptr::null(), 0);
    // SAFETY: two places of this function.
    if unsafe { table_of(module, &raw mut table, &raw mut count) } == 0 || table.is_null() {
        return;
    }
    for &(number, function) in functions {
        // An older header has fewer.
        if number < count as usize {
            // SAFETY: the table has `count` entries, each null or a place for a pointer.
            unsafe {
                let place = *table.add(number);
                if !place.is_null() {
                    *place = function;
                }
            }
        }
    }
}

/// NVTX calls it once, at the program's first use of NVTX. 0 says that there is no tool.
///
/// # Safety
/// To be called by NVTX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(export: unsafe extern "C" fn(u32) -> *const c_void) -> c_int {
    // SAFETY: a table is null or what its id says.
    let (version, callbacks) = unsafe {
        (export(VERSION_INFO).cast::<VersionInfo>().as_ref(), export(CALLBACKS).cast::<Callbacks>().as_ref())
    };
    // NVTX 2 is a library, whose functions are probed where they are: each call would be seen twice.
    if version.is_none_or(|info| info.version < 3) {
        return 0;
    }
    let Some(callbacks) = callbacks else { return 0 };
    macro_rules! at {
        ($($number:literal $function:ident,)*) => { &[$(($number, $function as *const c_void),)*] };
    }
    // SAFETY: each function has the arguments that NVTX's table has for its number.
    unsafe {
        let core = at![
            1 mark_event, 2 nvtxMarkA, 3 mark_wide,
            4 start_event, 5 nvtxRangeStartA, 6 start_wide, 7 nvtxRangeEnd,
            8 push_event, 9 nvtxRangePushA, 10 push_wide, 11 nvtxRangePop,
        ];
        fill(callbacks, CORE, core);
        let core2 = at![
            1 domain_mark_event, 2 domain_start_event, 3 nvtxDomainRangeEnd,
            4 domain_push_event, 5 nvtxDomainRangePop,
            10 register, 11 register_wide, 12 create_domain, 13 create_domain,
        ];
        fill(callbacks, CORE2, core2);
    }
    1
}

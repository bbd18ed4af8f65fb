//! LLVM bitcode in, BPF object out, through the C interface of a libLLVM loaded at run time.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    path::Path,
    ptr::null_mut,
};

use super::Failure;
use libloading::{Library, Symbol};

type Ptr = *mut c_void;
type Message = *mut c_char;

/// Values of LLVM's C enums, fixed by its stable interface.
const INTERNAL_LINKAGE: c_uint = 8;
const EVERY_ATTRIBUTE_PLACE: c_uint = c_uint::MAX;
const OPTIMISE_DEFAULT: c_int = 2;
const OBJECT_FILE: c_uint = 1;
const SEVERITY_ERROR: c_int = 0;
const SEVERITY_WARNING: c_int = 1;

/// BPF instruction set: v3 has 32-bit jumps, which every kernel with a ring buffer knows.
const CPU: &CStr = c"v3";

/// Whether this library can be loaded and targets BPF.
pub(crate) fn can_load(llvm: &Path) -> Result<(), String> {
    // SAFETY: libLLVM's initialisers are those of a well-behaved library.
    let library = unsafe { Library::new(llvm) }.map_err(|error| error.to_string())?;
    // SAFETY: only the symbol's presence is asked for.
    unsafe { library.get::<unsafe extern "C" fn()>(b"LLVMInitializeBPFTarget\0") }
        .map(|_| ())
        .map_err(|error| error.to_string())
}

macro_rules! llvm_functions {
    ($($name:ident : fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case, reason = "LLVM's own names")]
        struct Llvm<'lib> { $($name: Symbol<'lib, unsafe extern "C" fn($($argument),*) $(-> $result)?>,)* }
        impl<'lib> Llvm<'lib> {
            fn of(library: &'lib Library) -> Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of llvm-c, which keeps them stable.
                unsafe { Ok(Self { $($name: library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

llvm_functions! {
    LLVMInitializeBPFTargetInfo: fn();
    LLVMInitializeBPFTarget: fn();
    LLVMInitializeBPFTargetMC: fn();
    LLVMInitializeBPFAsmPrinter: fn();
    LLVMParseCommandLineOptions: fn(c_int, *const *const c_char, *const c_char);
    LLVMContextCreate: fn() -> Ptr;
    LLVMContextSetDiagnosticHandler: fn(Ptr, unsafe extern "C" fn(Ptr, Ptr), Ptr);
    LLVMGetDiagInfoDescription: fn(Ptr) -> Message;
    LLVMGetDiagInfoSeverity: fn(Ptr) -> c_int;
    LLVMCreateMemoryBufferWithContentsOfFile: fn(*const c_char, *mut Ptr, *mut Message) -> c_int;
    LLVMParseBitcodeInContext2: fn(Ptr, Ptr, *mut Ptr) -> c_int;
    LLVMGetTargetFromTriple: fn(*const c_char, *mut Ptr, *mut Message) -> c_int;
    LLVMCreateTargetMachine: fn(Ptr, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int) -> Ptr;
    LLVMCreateTargetDataLayout: fn(Ptr) -> Ptr;
    LLVMSetTarget: fn(Ptr, *const c_char);
    LLVMSetModuleDataLayout: fn(Ptr, Ptr);
    LLVMStripModuleDebugInfo: fn(Ptr) -> c_int;
    LLVMGetFirstFunction: fn(Ptr) -> Ptr;
    LLVMGetNextFunction: fn(Ptr) -> Ptr;
    LLVMGetValueName2: fn(Ptr, *mut usize) -> *const c_char;
    LLVMGetSection: fn(Ptr) -> *const c_char;
    LLVMIsDeclaration: fn(Ptr) -> c_int;
    LLVMSetLinkage: fn(Ptr, c_uint);
    LLVMRemoveStringAttributeAtIndex: fn(Ptr, c_uint, *const c_char, c_uint);
    LLVMGetEnumAttributeKindForName: fn(*const c_char, usize) -> c_uint;
    LLVMRemoveEnumAttributeAtIndex: fn(Ptr, c_uint, c_uint);
    LLVMCreatePassBuilderOptions: fn() -> Ptr;
    LLVMRunPasses: fn(Ptr, *const c_char, Ptr, Ptr) -> Ptr;
    LLVMGetErrorMessage: fn(Ptr) -> Message;
    LLVMTargetMachineEmitToFile: fn(Ptr, Ptr, *const c_char, c_uint, *mut Message) -> c_int;
}

/// What LLVM says while it works.
struct Diagnostics<'llvm> {
    llvm: &'llvm Llvm<'llvm>,
    errors: Vec<String>,
}

unsafe extern "C" fn on_diagnostic(diagnostic: Ptr, collector: Ptr) {
    // SAFETY: `collector` is the Diagnostics that outlives every pass; LLVM calls back on the same thread.
    let collector = unsafe { &mut *collector.cast::<Diagnostics<'_>>() };
    // SAFETY: `diagnostic` is valid during the callback.
    let (severity, message) = unsafe {
        (
            (collector.llvm.LLVMGetDiagInfoSeverity)(diagnostic),
            text((collector.llvm.LLVMGetDiagInfoDescription)(diagnostic)),
        )
    };
    // aya-ebpf defines memcpy and its kin in the module itself, after LLVM has complained about calls to them.
    let harmless = message.contains("A call to built-in function 'mem") || message.contains("'bcmp'");
    match severity {
        _ if harmless => {}
        SEVERITY_ERROR => collector.errors.push(message),
        SEVERITY_WARNING => println!("cargo::warning=llvm: {message}"),
        _ => {}
    }
}

/// # Safety
/// `message` is null or a C string.
unsafe fn text(message: *const c_char) -> String {
    if message.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    Ok(CString::new(path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?)?)
}

/// Turns one bitcode file into one BPF object. What LLVM allocates stays until the build script ends.
pub(crate) fn link(libllvm: &Path, bitcode: &Path, object: &Path) -> Result<(), Failure> {
    // SAFETY: as in `can_load`.
    let library = unsafe { Library::new(libllvm) }?;
    let llvm = Llvm::of(&library)?;
    let mut diagnostics = Diagnostics { llvm: &llvm, errors: Vec::new() };
    let (bitcode_path, object_path) = (c_path(bitcode)?, c_path(object)?);
    // - inlining cold call sites at full threshold: what is not inlined becomes a BPF call with its own frame;
    // - no loop idioms: they turn loops into calls of memset and memcpy;
    // - no trap for unreachable code: there is no such instruction.
    let options =
        [c"bpf", c"--cold-callsite-rel-freq=0", c"--disable-loop-idiom-all", c"--bpf-disable-trap-unreachable"];
    let options = options.map(CStr::as_ptr);
    let (mut buffer, mut module, mut target, mut message) = (null_mut(), null_mut(), null_mut(), null_mut());

    // SAFETY: every call follows llvm-c's documentation: pointers come from LLVM or outlive the call, sizes
    // are those of the objects, and each fallible call is checked before its result is used.
    unsafe {
        (llvm.LLVMInitializeBPFTargetInfo)();
        (llvm.LLVMInitializeBPFTarget)();
        (llvm.LLVMInitializeBPFTargetMC)();
        (llvm.LLVMInitializeBPFAsmPrinter)();
        (llvm.LLVMParseCommandLineOptions)(options.len() as c_int, options.as_ptr(), std::ptr::null());

        let context = (llvm.LLVMContextCreate)();
        (llvm.LLVMContextSetDiagnosticHandler)(context, on_diagnostic, (&raw mut diagnostics).cast());
        if (llvm.LLVMCreateMemoryBufferWithContentsOfFile)(bitcode_path.as_ptr(), &mut buffer, &mut message) != 0 {
            return Err(format!("cannot read {}: {}", bitcode.display(), text(message)).into());
        }
        if (llvm.LLVMParseBitcodeInContext2)(context, buffer, &mut module) != 0 {
            return Err(format!("{} is no bitcode that this LLVM reads", bitcode.display()).into());
        }
        let triple = c"bpfel";
        if (llvm.LLVMGetTargetFromTriple)(triple.as_ptr(), &mut target, &mut message) != 0 {
            return Err(format!("no BPF target: {}", text(message)).into());
        }
        let machine =
            (llvm.LLVMCreateTargetMachine)(target, triple.as_ptr(), CPU.as_ptr(), c"".as_ptr(), OPTIMISE_DEFAULT, 0, 0);
        (llvm.LLVMSetTarget)(module, triple.as_ptr());
        (llvm.LLVMSetModuleDataLayout)(module, (llvm.LLVMCreateTargetDataLayout)(machine));
        // Paths of this machine would make the object differ from one built elsewhere.
        (llvm.LLVMStripModuleDebugInfo)(module);
        retarget_functions(&llvm, module)?;
        let failed =
            (llvm.LLVMRunPasses)(module, c"default<O2>".as_ptr(), machine, (llvm.LLVMCreatePassBuilderOptions)());
        if !failed.is_null() {
            return Err(format!("LLVM passes: {}", text((llvm.LLVMGetErrorMessage)(failed))).into());
        }
        if (llvm.LLVMTargetMachineEmitToFile)(machine, module, object_path.as_ptr(), OBJECT_FILE, &mut message) != 0 {
            return Err(format!("cannot write {}: {}", object.display(), text(message)).into());
        }
    }
    if diagnostics.errors.is_empty() { Ok(()) } else { Err(diagnostics.errors.join("; ").into()) }
}

/// Takes off what the host target put on functions, and hides all but the programs, so that everything
/// else is inlined or dropped.
///
/// # Safety
/// `module` must be a module of this LLVM.
unsafe fn retarget_functions(llvm: &Llvm<'_>, module: Ptr) -> Result<(), Failure> {
    let host_strings = [c"target-cpu", c"target-features", c"probe-stack"];
    // SAFETY: the names are C strings of the lengths given; functions come from the module itself.
    unsafe {
        let host_kinds = [c"uwtable", c"nonlazybind"]
            .map(|name| (llvm.LLVMGetEnumAttributeKindForName)(name.as_ptr(), name.count_bytes()));
        let mut function = (llvm.LLVMGetFirstFunction)(module);
        while !function.is_null() {
            let mut length = 0;
            let name = (llvm.LLVMGetValueName2)(function, &mut length);
            let name = std::str::from_utf8(std::slice::from_raw_parts(name.cast::<u8>(), length))?;
            let is_program = !(llvm.LLVMGetSection)(function).is_null();
            let is_builtin = matches!(name, "memcpy" | "memmove" | "memset" | "memcmp" | "bcmp");
            if (llvm.LLVMIsDeclaration)(function) == 0 && !is_program && !is_builtin {
                (llvm.LLVMSetLinkage)(function, INTERNAL_LINKAGE);
            }
            for name in host_strings {
                let length = name.count_bytes() as c_uint;
                (llvm.LLVMRemoveStringAttributeAtIndex)(function, EVERY_ATTRIBUTE_PLACE, name.as_ptr(), length);
            }
            for kind in host_kinds {
                (llvm.LLVMRemoveEnumAttributeAtIndex)(function, EVERY_ATTRIBUTE_PLACE, kind);
            }
            function = (llvm.LLVMGetNextFunction)(function);
        }
    }
    Ok(())
}

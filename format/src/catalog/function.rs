//! The table of library functions that are probed: one row says everything that the recorder, the
//! reports and the converters need to know of a function.
//!
//! Signatures come from NVIDIA's public headers (`cuda_runtime_api.h`, `cuda.h`, CUDA 13).

/// The library that a function belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layer {
    /// CUDA runtime, libcudart.
    Runtime = 1,
    /// CUDA driver, libcuda.
    Driver = 2,
    /// CUDA graphs.
    Graph = 3,
    /// NCCL collectives.
    Nccl = 4,
    /// A library that this version does not know; never written.
    Other = 255,
}

impl Layer {
    /// The layer with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Runtime,
            2 => Self::Driver,
            3 => Self::Graph,
            4 => Self::Nccl,
            _ => return None,
        })
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Driver => "driver",
            Self::Graph => "graph",
            Self::Nccl => "nccl",
            Self::Other => "other",
        }
    }
}

/// What a function does, as far as an analysis cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Submits kernels.
    Launch = 1,
    /// Copies memory; the direction is in the call.
    Copy = 2,
    /// Fills memory.
    Fill = 3,
    /// Allocates memory.
    Alloc = 4,
    /// Frees memory.
    Free = 5,
    /// Waits until the device has done something.
    Sync = 6,
    /// Records an event or makes a stream wait; returns at once.
    Event = 7,
    /// Anything else.
    Other = 8,
}

impl Class {
    /// The class with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Launch,
            2 => Self::Copy,
            3 => Self::Fill,
            4 => Self::Alloc,
            5 => Self::Free,
            6 => Self::Sync,
            7 => Self::Event,
            8 => Self::Other,
            _ => return None,
        })
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::Sync => "sync",
            Self::Event => "event",
            Self::Other => "other",
        }
    }
}

/// Where a value of a call comes from.
///
/// Arguments are counted in integer slots as the x86-64 and aarch64 ABIs hand them over: a `dim3`
/// by value takes two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// The function has none.
    None,
    /// The nth integer slot, from 0.
    Slot(u8),
    /// The low 32 bits of the nth integer slot.
    Slot32(u8),
    /// 8 bytes at an offset behind the pointer in the nth integer slot.
    Behind(u8, u8),
    /// The same for every call of this function.
    Always(u64),
    /// Written behind the pointer in the nth integer slot when the function returns.
    Out(u8),
}

/// One probed function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Symbol, the name in every report.
    pub symbol: &'static str,
    /// Library.
    pub layer: Layer,
    /// What it does.
    pub class: Class,
    /// Destination, allocation, kernel function or event handle.
    pub ptr: Arg,
    /// Source.
    pub ptr2: Arg,
    /// Size in bytes.
    pub bytes: Arg,
    /// Factor of `bytes`: the height of a 2D copy, the count of elements.
    pub times: Arg,
    /// Direction of a copy, the numbers of `cudaMemcpyKind`.
    pub copy: Arg,
    /// Stream handle.
    pub stream: Arg,
}

impl Function {
    const fn new(symbol: &'static str, layer: Layer, class: Class) -> Self {
        const NONE: Arg = Arg::None;
        Self { symbol, layer, class, ptr: NONE, ptr2: NONE, bytes: NONE, times: NONE, copy: NONE, stream: NONE }
    }
    const fn ptr(mut self, a: Arg) -> Self {
        self.ptr = a;
        self
    }
    const fn ptr2(mut self, a: Arg) -> Self {
        self.ptr2 = a;
        self
    }
    const fn bytes(mut self, a: Arg) -> Self {
        self.bytes = a;
        self
    }
    const fn times(mut self, a: Arg) -> Self {
        self.times = a;
        self
    }
    const fn copy(mut self, a: Arg) -> Self {
        self.copy = a;
        self
    }
    const fn stream(mut self, a: Arg) -> Self {
        self.stream = a;
        self
    }
}

const fn rt(symbol: &'static str, class: Class) -> Function {
    Function::new(symbol, Layer::Runtime, class)
}
const fn dr(symbol: &'static str, class: Class) -> Function {
    Function::new(symbol, Layer::Driver, class)
}
/// kernel, grid (2), block (2), arguments, shared bytes, stream
const fn rt_launch(symbol: &'static str) -> Function {
    rt(symbol, Class::Launch).ptr(S(0)).stream(S(7))
}
/// kernel, grid x y z, block x y z, shared bytes (32 bits), stream, …
const fn dr_launch(symbol: &'static str) -> Function {
    dr(symbol, Class::Launch).ptr(S(0)).stream(S(8))
}
const fn graph_launch(symbol: &'static str) -> Function {
    Function::new(symbol, Layer::Graph, Class::Launch).ptr(S(0)).stream(S(1))
}
/// destination, source, bytes, direction
const fn rt_copy(symbol: &'static str) -> Function {
    rt(symbol, Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(3))
}
/// destination, destination pitch, source, source pitch, width, height, direction
const fn rt_copy_2d(symbol: &'static str) -> Function {
    rt(symbol, Class::Copy).ptr(S(0)).ptr2(S(2)).bytes(S(4)).times(S(5)).copy(Slot32(6))
}
/// destination, destination device, source, source device, bytes
const fn rt_copy_peer(symbol: &'static str) -> Function {
    rt(symbol, Class::Copy).ptr(S(0)).ptr2(S(2)).bytes(S(4)).copy(Arg::Always(3))
}
/// destination, source, bytes
const fn dr_copy(symbol: &'static str, direction: u64) -> Function {
    dr(symbol, Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Arg::Always(direction))
}
/// destination, value, bytes
const fn rt_fill(symbol: &'static str) -> Function {
    rt(symbol, Class::Fill).ptr(S(0)).bytes(S(2))
}
/// destination, value, elements of a fixed width
const fn dr_fill(symbol: &'static str, width: u64) -> Function {
    dr(symbol, Class::Fill).ptr(S(0)).bytes(Arg::Always(width)).times(S(2))
}
/// where to put the pointer, bytes
const fn alloc(f: Function) -> Function {
    f.ptr(Arg::Out(0)).bytes(S(1))
}

use Arg::{Behind, Slot as S, Slot32};
use Class::{Alloc, Event, Free, Launch, Other, Sync};

/// Every probed function. Its place is its number in recordings of this version; readers go by the
/// table in the file, so rows may be added anywhere.
pub const FUNCTIONS: &[Function] = &[
    // runtime: launches
    rt_launch("cudaLaunchKernel"),
    rt_launch("cudaLaunchKernel_ptsz"),
    rt_launch("cudaLaunchCooperativeKernel"),
    rt_launch("cudaLaunchCooperativeKernel_ptsz"),
    rt("cudaLaunchKernelExC", Launch).ptr(S(1)).stream(Behind(0, 32)),
    rt("cudaLaunchKernelExC_ptsz", Launch).ptr(S(1)).stream(Behind(0, 32)),
    rt("cudaLaunchHostFunc", Other).ptr(S(1)).stream(S(0)),
    rt("cudaLaunchHostFunc_ptsz", Other).ptr(S(1)).stream(S(0)),
    // runtime: copies
    rt_copy("cudaMemcpy"),
    rt_copy("cudaMemcpy_ptds"),
    rt_copy("cudaMemcpyAsync").stream(S(4)),
    rt_copy("cudaMemcpyAsync_ptsz").stream(S(4)),
    rt_copy_2d("cudaMemcpy2D"),
    rt_copy_2d("cudaMemcpy2D_ptds"),
    rt_copy_2d("cudaMemcpy2DAsync").stream(S(7)),
    rt_copy_2d("cudaMemcpy2DAsync_ptsz").stream(S(7)),
    rt("cudaMemcpy3D", Class::Copy),
    rt("cudaMemcpy3D_ptds", Class::Copy),
    rt("cudaMemcpy3DAsync", Class::Copy).stream(S(1)),
    rt("cudaMemcpy3DAsync_ptsz", Class::Copy).stream(S(1)),
    rt_copy_peer("cudaMemcpyPeer"),
    rt_copy_peer("cudaMemcpyPeerAsync").stream(S(5)),
    // symbol, source, bytes, offset, direction
    rt("cudaMemcpyToSymbol", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)),
    rt("cudaMemcpyToSymbol_ptds", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)),
    rt("cudaMemcpyToSymbolAsync", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)).stream(S(5)),
    rt("cudaMemcpyFromSymbol", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)),
    rt("cudaMemcpyFromSymbol_ptds", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)),
    rt("cudaMemcpyFromSymbolAsync", Class::Copy).ptr(S(0)).ptr2(S(1)).bytes(S(2)).copy(Slot32(4)).stream(S(5)),
    // pointer, bytes, location or device, [flags,] stream
    rt("cudaMemPrefetchAsync", Other).ptr(S(0)).bytes(S(1)),
    // runtime: fills
    rt_fill("cudaMemset"),
    rt_fill("cudaMemset_ptds"),
    rt_fill("cudaMemsetAsync").stream(S(3)),
    rt_fill("cudaMemsetAsync_ptsz").stream(S(3)),
    // destination, pitch, value, width, height
    rt("cudaMemset2D", Class::Fill).ptr(S(0)).bytes(S(3)).times(S(4)),
    rt("cudaMemset2DAsync", Class::Fill).ptr(S(0)).bytes(S(3)).times(S(4)).stream(S(5)),
    // runtime: memory
    alloc(rt("cudaMalloc", Alloc)),
    alloc(rt("cudaMallocAsync", Alloc)).stream(S(2)),
    alloc(rt("cudaMallocAsync_ptsz", Alloc)).stream(S(2)),
    // where to put the pointer, bytes, pool, stream
    alloc(rt("cudaMallocFromPoolAsync", Alloc)).stream(S(3)),
    alloc(rt("cudaMallocFromPoolAsync_ptsz", Alloc)).stream(S(3)),
    alloc(rt("cudaMallocManaged", Alloc)),
    alloc(rt("cudaMallocHost", Alloc)),
    alloc(rt("cudaHostAlloc", Alloc)),
    rt("cudaMallocPitch", Alloc).ptr(Arg::Out(0)).bytes(S(2)).times(S(3)),
    rt("cudaHostRegister", Alloc).ptr(S(0)).bytes(S(1)),
    rt("cudaFree", Free).ptr(S(0)),
    rt("cudaFreeAsync", Free).ptr(S(0)).stream(S(1)),
    rt("cudaFreeAsync_ptsz", Free).ptr(S(0)).stream(S(1)),
    rt("cudaFreeHost", Free).ptr(S(0)),
    rt("cudaHostUnregister", Free).ptr(S(0)),
    // runtime: waiting
    rt("cudaDeviceSynchronize", Sync),
    rt("cudaStreamSynchronize", Sync).stream(S(0)),
    rt("cudaStreamSynchronize_ptsz", Sync).stream(S(0)),
    rt("cudaEventSynchronize", Sync).ptr(S(0)),
    // runtime: events
    rt("cudaEventRecord", Event).ptr(S(0)).stream(S(1)),
    rt("cudaEventRecord_ptsz", Event).ptr(S(0)).stream(S(1)),
    rt("cudaEventRecordWithFlags", Event).ptr(S(0)).stream(S(1)),
    rt("cudaEventRecordWithFlags_ptsz", Event).ptr(S(0)).stream(S(1)),
    rt("cudaStreamWaitEvent", Event).ptr(S(1)).stream(S(0)),
    rt("cudaStreamWaitEvent_ptsz", Event).ptr(S(1)).stream(S(0)),
    // graphs: graph, stream
    graph_launch("cudaGraphLaunch"),
    graph_launch("cudaGraphLaunch_ptsz"),
    graph_launch("cuGraphLaunch"),
    graph_launch("cuGraphLaunch_ptsz"),
    // driver: launches
    dr_launch("cuLaunchKernel"),
    dr_launch("cuLaunchKernel_ptsz"),
    dr_launch("cuLaunchCooperativeKernel"),
    dr_launch("cuLaunchCooperativeKernel_ptsz"),
    dr("cuLaunchKernelEx", Launch).ptr(S(1)).stream(Behind(0, 32)),
    dr("cuLaunchKernelEx_ptsz", Launch).ptr(S(1)).stream(Behind(0, 32)),
    dr("cuLaunchHostFunc", Other).ptr(S(1)).stream(S(0)),
    dr("cuLaunchHostFunc_ptsz", Other).ptr(S(1)).stream(S(0)),
    // driver: copies
    dr_copy("cuMemcpy", 4),
    dr_copy("cuMemcpy_ptds", 4),
    dr_copy("cuMemcpyAsync", 4).stream(S(3)),
    dr_copy("cuMemcpyAsync_ptsz", 4).stream(S(3)),
    dr_copy("cuMemcpyHtoD_v2", 1),
    dr_copy("cuMemcpyHtoD_v2_ptds", 1),
    dr_copy("cuMemcpyHtoDAsync_v2", 1).stream(S(3)),
    dr_copy("cuMemcpyHtoDAsync_v2_ptsz", 1).stream(S(3)),
    dr_copy("cuMemcpyDtoH_v2", 2),
    dr_copy("cuMemcpyDtoH_v2_ptds", 2),
    dr_copy("cuMemcpyDtoHAsync_v2", 2).stream(S(3)),
    dr_copy("cuMemcpyDtoHAsync_v2_ptsz", 2).stream(S(3)),
    dr_copy("cuMemcpyDtoD_v2", 3),
    dr_copy("cuMemcpyDtoD_v2_ptds", 3),
    dr_copy("cuMemcpyDtoDAsync_v2", 3).stream(S(3)),
    dr_copy("cuMemcpyDtoDAsync_v2_ptsz", 3).stream(S(3)),
    dr("cuMemcpy2D_v2", Class::Copy),
    dr("cuMemcpy2DAsync_v2", Class::Copy).stream(S(1)),
    dr("cuMemcpy2DAsync_v2_ptsz", Class::Copy).stream(S(1)),
    dr("cuMemcpy3D_v2", Class::Copy),
    dr("cuMemcpy3DAsync_v2", Class::Copy).stream(S(1)),
    dr("cuMemcpy3DAsync_v2_ptsz", Class::Copy).stream(S(1)),
    // driver: fills
    dr_fill("cuMemsetD8_v2", 1),
    dr_fill("cuMemsetD8_v2_ptds", 1),
    dr_fill("cuMemsetD16_v2", 2),
    dr_fill("cuMemsetD32_v2", 4),
    dr_fill("cuMemsetD32_v2_ptds", 4),
    dr_fill("cuMemsetD8Async", 1).stream(S(3)),
    dr_fill("cuMemsetD8Async_ptsz", 1).stream(S(3)),
    dr_fill("cuMemsetD16Async", 2).stream(S(3)),
    dr_fill("cuMemsetD32Async", 4).stream(S(3)),
    dr_fill("cuMemsetD32Async_ptsz", 4).stream(S(3)),
    // driver: memory
    alloc(dr("cuMemAlloc_v2", Alloc)),
    alloc(dr("cuMemAllocAsync", Alloc)).stream(S(2)),
    alloc(dr("cuMemAllocAsync_ptsz", Alloc)).stream(S(2)),
    alloc(dr("cuMemAllocFromPoolAsync", Alloc)).stream(S(3)),
    alloc(dr("cuMemAllocFromPoolAsync_ptsz", Alloc)).stream(S(3)),
    alloc(dr("cuMemAllocManaged", Alloc)),
    alloc(dr("cuMemAllocHost_v2", Alloc)),
    alloc(dr("cuMemHostAlloc", Alloc)),
    // where to put the pointer, where to put the pitch, width, height
    dr("cuMemAllocPitch_v2", Alloc).ptr(Arg::Out(0)).bytes(S(2)).times(S(3)),
    dr("cuMemHostRegister_v2", Alloc).ptr(S(0)).bytes(S(1)),
    dr("cuMemFree_v2", Free).ptr(S(0)),
    dr("cuMemFreeAsync", Free).ptr(S(0)).stream(S(1)),
    dr("cuMemFreeAsync_ptsz", Free).ptr(S(0)).stream(S(1)),
    dr("cuMemFreeHost", Free).ptr(S(0)),
    dr("cuMemHostUnregister", Free).ptr(S(0)),
    // driver: waiting
    dr("cuCtxSynchronize", Sync),
    dr("cuCtxSynchronize_v2", Sync),
    dr("cuStreamSynchronize", Sync).stream(S(0)),
    dr("cuStreamSynchronize_ptsz", Sync).stream(S(0)),
    dr("cuEventSynchronize", Sync).ptr(S(0)),
    // driver: events
    dr("cuEventRecord", Event).ptr(S(0)).stream(S(1)),
    dr("cuEventRecord_ptsz", Event).ptr(S(0)).stream(S(1)),
    dr("cuEventRecordWithFlags", Event).ptr(S(0)).stream(S(1)),
    dr("cuEventRecordWithFlags_ptsz", Event).ptr(S(0)).stream(S(1)),
    dr("cuStreamWaitEvent", Event).ptr(S(1)).stream(S(0)),
    dr("cuStreamWaitEvent_ptsz", Event).ptr(S(1)).stream(S(0)),
];

/// The place of a symbol in [`FUNCTIONS`].
#[must_use]
pub fn function_number(symbol: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|f| f.symbol == symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            assert_eq!(function_number(f.symbol), Some(i), "{} stands twice", f.symbol);
            let of_runtime = f.symbol.starts_with("cuda");
            assert!(f.symbol.starts_with("cu"), "{}", f.symbol);
            assert!(f.layer == Layer::Graph || of_runtime == (f.layer == Layer::Runtime), "{}", f.symbol);
            // The BPF side carries six words.
            let words = [f.ptr, f.ptr2, f.bytes, f.times, f.copy, f.stream];
            let carried = words.iter().filter(|a| !matches!(a, Arg::None | Arg::Always(_))).count();
            assert!(carried <= 6, "{}", f.symbol);
            // A host function is queued on a stream like a kernel and feeds no GPU.
            let launches = f.symbol.contains("Launch") && !f.symbol.contains("HostFunc");
            assert_eq!(launches, f.class == Launch, "{}", f.symbol);
        }
    }
}

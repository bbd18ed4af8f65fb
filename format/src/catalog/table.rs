//! The table of library functions that are probed: one row says everything that the recorder, the
//! reports and the converters need to know of a function.
//!
//! Signatures come from NVIDIA's public headers (`cuda_runtime_api.h`, `cuda.h`, CUDA 13; `nccl.h`, NCCL 2.32;
//! `nvToolsExt.h`, NVTX 3).

use super::function::{Arg, Class, Detail, Function, Layer, Text};

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

/// exec graph out, graph
const fn instantiate(symbol: &'static str) -> Function {
    graph(symbol).ptr(Arg::Out(0)).ptr2(S(1))
}
const fn graph(symbol: &'static str) -> Function {
    Function::new(symbol, Layer::Graph, Class::Graph)
}
const fn nccl(symbol: &'static str, class: Class) -> Function {
    Function::new(symbol, Layer::Nccl, class)
}
/// A collective: where its count, type, reduction, root or peer, communicator and stream are. Six words are carried,
/// so addresses of buffers are not.
const fn collective(symbol: &'static str, count: u8, op: Arg, peer: Arg, comm: u8) -> Function {
    let (count, datatype, comm, stream) = (S(count), Slot32(count + 1), S(comm), S(comm + 1));
    nccl(symbol, Class::Collective).stream(stream).detail(Detail::Collective { count, datatype, op, comm, peer })
}
const fn on_comm(symbol: &'static str) -> Function {
    const NONE: Arg = Arg::None;
    let detail = Detail::Collective { count: NONE, datatype: NONE, op: NONE, comm: S(0), peer: NONE };
    nccl(symbol, Other).ptr(S(0)).detail(detail)
}
const fn nvtx(symbol: &'static str, detail: Detail) -> Function {
    Function::new(symbol, Layer::Nvtx, Other).detail(detail)
}
const fn device(f: Function, detail: Detail) -> Function {
    f.detail(detail)
}

/// The slot behind an `ncclUniqueId`, a struct of 128 bytes by value, as the third argument: on x86-64 it lies on the
/// stack and takes no slot, on aarch64 its address takes one.
const BEHIND_UNIQUE_ID: u8 = if cfg!(target_arch = "aarch64") { 3 } else { 2 };

use Arg::{Behind, Slot as S, Slot32};
use Class::{Alloc, Device, Event, Free, Launch, Other, Sync};

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
    // runtime: pools
    rt("cudaMemPoolCreate", Other).ptr(Arg::Out(0)),
    rt("cudaMemPoolDestroy", Other).ptr(S(0)),
    rt("cudaMemPoolTrimTo", Other).ptr(S(0)),
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
    // runtime: device
    device(rt("cudaSetDevice", Device), Detail::Device(Slot32(0))),
    // graphs: graph, stream
    graph_launch("cudaGraphLaunch"),
    graph_launch("cudaGraphLaunch_ptsz"),
    graph_launch("cuGraphLaunch"),
    graph_launch("cuGraphLaunch_ptsz"),
    // graphs: capture (stream, mode; stream, where to put the graph)
    graph("cudaStreamBeginCapture").stream(S(0)),
    graph("cudaStreamBeginCapture_ptsz").stream(S(0)),
    graph("cudaStreamBeginCaptureToGraph").ptr(S(1)).stream(S(0)),
    graph("cudaStreamBeginCaptureToGraph_ptsz").ptr(S(1)).stream(S(0)),
    graph("cudaStreamEndCapture").ptr(Arg::Out(1)).stream(S(0)),
    graph("cudaStreamEndCapture_ptsz").ptr(Arg::Out(1)).stream(S(0)),
    graph("cuStreamBeginCapture_v2").stream(S(0)),
    graph("cuStreamBeginCapture_v2_ptsz").stream(S(0)),
    graph("cuStreamBeginCaptureToGraph").ptr(S(1)).stream(S(0)),
    graph("cuStreamBeginCaptureToGraph_ptsz").ptr(S(1)).stream(S(0)),
    graph("cuStreamEndCapture").ptr(Arg::Out(1)).stream(S(0)),
    graph("cuStreamEndCapture_ptsz").ptr(Arg::Out(1)).stream(S(0)),
    // graphs: making them ready
    instantiate("cudaGraphInstantiate"),
    instantiate("cudaGraphInstantiateWithFlags"),
    instantiate("cudaGraphInstantiateWithParams"),
    instantiate("cudaGraphInstantiateWithParams_ptsz"),
    instantiate("cuGraphInstantiateWithFlags"),
    instantiate("cuGraphInstantiateWithParams"),
    instantiate("cuGraphInstantiateWithParams_ptsz"),
    // exec graph, graph
    graph("cudaGraphExecUpdate").ptr(S(0)).ptr2(S(1)),
    graph("cuGraphExecUpdate_v2").ptr(S(0)).ptr2(S(1)),
    graph("cudaGraphUpload").ptr(S(0)).stream(S(1)),
    graph("cudaGraphUpload_ptsz").ptr(S(0)).stream(S(1)),
    graph("cuGraphUpload").ptr(S(0)).stream(S(1)),
    graph("cuGraphUpload_ptsz").ptr(S(0)).stream(S(1)),
    graph("cudaGraphExecDestroy").ptr(S(0)),
    graph("cuGraphExecDestroy").ptr(S(0)),
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
    // driver: pools
    dr("cuMemPoolCreate", Other).ptr(Arg::Out(0)),
    dr("cuMemPoolDestroy", Other).ptr(S(0)),
    dr("cuMemPoolTrimTo", Other).ptr(S(0)),
    // driver: contexts
    device(dr("cuCtxSetCurrent", Device), Detail::Context(S(0))),
    device(dr("cuCtxPushCurrent_v2", Device), Detail::PushContext(S(0))),
    device(dr("cuCtxPopCurrent_v2", Device), Detail::PopContext),
    // where to put the context, flags, device; newer ones have parameters before the flags
    device(dr("cuCtxCreate_v2", Device).ptr(Arg::Out(0)), Detail::NewContext(Slot32(2), true)),
    device(dr("cuCtxCreate_v3", Device).ptr(Arg::Out(0)), Detail::NewContext(Slot32(4), true)),
    device(dr("cuCtxCreate_v4", Device).ptr(Arg::Out(0)), Detail::NewContext(Slot32(3), true)),
    device(dr("cuDevicePrimaryCtxRetain", Device).ptr(Arg::Out(0)), Detail::NewContext(Slot32(1), false)),
    // NCCL: send buffer, receive buffer, count, type, [reduction,] [root,] communicator, stream
    collective("ncclAllReduce", 2, Slot32(4), Arg::None, 5),
    collective("ncclAllGather", 2, Arg::None, Arg::None, 4),
    collective("ncclReduceScatter", 2, Slot32(4), Arg::None, 5),
    collective("ncclReduce", 2, Slot32(4), Slot32(5), 6),
    collective("ncclBroadcast", 2, Arg::None, Slot32(4), 5),
    collective("ncclAlltoAll", 2, Arg::None, Arg::None, 4),
    collective("ncclGather", 2, Arg::None, Slot32(4), 5),
    collective("ncclScatter", 2, Arg::None, Slot32(4), 5),
    // buffer, count, type, root or peer, communicator, stream
    collective("ncclBcast", 1, Arg::None, Slot32(3), 4),
    collective("ncclSend", 1, Arg::None, Slot32(3), 4),
    collective("ncclRecv", 1, Arg::None, Slot32(3), 4),
    nccl("ncclGroupStart", Other),
    nccl("ncclGroupEnd", Other),
    // NCCL: communicators
    nccl("ncclCommInitRank", Other).ptr(Arg::Out(0)).detail(NEW_COMM),
    nccl("ncclCommInitRankConfig", Other).ptr(Arg::Out(0)).detail(NEW_COMM),
    // where to put the communicator, ranks, own rank
    nccl("ncclCommInitRankScalable", Other)
        .ptr(Arg::Out(0))
        .detail(Detail::NewComm { ranks: Slot32(1), rank: Slot32(2) }),
    nccl("ncclCommInitAll", Other),
    // communicator, color, key, where to put the new one: ranks are asked for afterwards
    nccl("ncclCommSplit", Other).ptr(Arg::Out(3)).detail(Detail::NewComm { ranks: Arg::None, rank: Arg::None }),
    nccl("ncclCommUserRank", Other).ptr(Arg::Out(1)).detail(Detail::RankOf(S(0))),
    nccl("ncclCommCount", Other).ptr(Arg::Out(1)).detail(Detail::RanksOf(S(0))),
    on_comm("ncclCommFinalize"),
    on_comm("ncclCommDestroy"),
    on_comm("ncclCommAbort"),
    // NVTX: the default domain, then domains of their own
    nvtx("nvtxRangePushA", Detail::RangePush(Text::At(0), Arg::Always(0))),
    nvtx("nvtxRangePushW", Detail::RangePush(Text::Wide, Arg::Always(0))),
    nvtx("nvtxRangePushEx", Detail::RangePush(Text::Attributes(0), Arg::Always(0))),
    nvtx("nvtxRangePop", Detail::RangePop(Arg::Always(0))),
    nvtx("nvtxRangeStartA", Detail::RangeStart(Text::At(0))),
    nvtx("nvtxRangeStartW", Detail::RangeStart(Text::Wide)),
    nvtx("nvtxRangeStartEx", Detail::RangeStart(Text::Attributes(0))),
    nvtx("nvtxRangeEnd", Detail::RangeEnd(S(0))),
    nvtx("nvtxMarkA", Detail::Mark(Text::At(0))),
    nvtx("nvtxMarkW", Detail::Mark(Text::Wide)),
    nvtx("nvtxMarkEx", Detail::Mark(Text::Attributes(0))),
    nvtx("nvtxDomainRangePushEx", Detail::RangePush(Text::Attributes(1), S(0))),
    nvtx("nvtxDomainRangePop", Detail::RangePop(S(0))),
    nvtx("nvtxDomainRangeStartEx", Detail::RangeStart(Text::Attributes(1))),
    nvtx("nvtxDomainRangeEnd", Detail::RangeEnd(S(1))),
    nvtx("nvtxDomainMarkEx", Detail::Mark(Text::Attributes(1))),
];

/// where to put the communicator, ranks, id, own rank
const NEW_COMM: Detail = Detail::NewComm { ranks: Slot32(1), rank: Slot32(BEHIND_UNIQUE_ID) };

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
            let prefix = match f.layer {
                Layer::Runtime => f.symbol.starts_with("cuda"),
                Layer::Driver => f.symbol.starts_with("cu") && !f.symbol.starts_with("cuda"),
                Layer::Graph => f.symbol.starts_with("cu"),
                Layer::Nccl => f.symbol.starts_with("nccl"),
                Layer::Nvtx => f.symbol.starts_with("nvtx"),
                Layer::Other => false,
            };
            assert!(prefix, "{}", f.symbol);
            // The BPF side carries six words.
            let carried =
                f.arguments().iter().filter(|a| !matches!(a, Arg::None | Arg::Always(_) | Arg::Out(_))).count();
            assert!(carried <= 6, "{}", f.symbol);
            // A host function is queued on a stream like a kernel and feeds no GPU.
            let launches = f.symbol.contains("Launch") && !f.symbol.contains("HostFunc");
            assert_eq!(launches, f.class == Launch, "{}", f.symbol);
        }
    }
}

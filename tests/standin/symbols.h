/* The one list of functions that the stand-in exports: everything else (identifiers, counters, reports, `standin every`)
 * follows from it. DRIVER(name) lies in libcuda.so.1, RUNTIME(name) in libcudart.so.13. */

#define STANDIN_SYMBOLS(DRIVER, RUNTIME) \
    /* launches */ \
    DRIVER(cuLaunchKernel) \
    DRIVER(cuLaunchKernel_ptsz) \
    DRIVER(cuLaunchKernelEx) \
    DRIVER(cuLaunchKernelEx_ptsz) \
    DRIVER(cuLaunchCooperativeKernel) \
    DRIVER(cuLaunchCooperativeKernel_ptsz) \
    DRIVER(cuGraphLaunch) \
    DRIVER(cuGraphLaunch_ptsz) \
    /* copies */ \
    DRIVER(cuMemcpy) \
    DRIVER(cuMemcpy_ptds) \
    DRIVER(cuMemcpyAsync) \
    DRIVER(cuMemcpyAsync_ptsz) \
    DRIVER(cuMemcpyHtoD_v2) \
    DRIVER(cuMemcpyHtoD_v2_ptds) \
    DRIVER(cuMemcpyDtoH_v2) \
    DRIVER(cuMemcpyDtoH_v2_ptds) \
    DRIVER(cuMemcpyDtoD_v2) \
    DRIVER(cuMemcpyDtoD_v2_ptds) \
    DRIVER(cuMemcpyHtoDAsync_v2) \
    DRIVER(cuMemcpyHtoDAsync_v2_ptsz) \
    DRIVER(cuMemcpyDtoHAsync_v2) \
    DRIVER(cuMemcpyDtoHAsync_v2_ptsz) \
    DRIVER(cuMemcpyDtoDAsync_v2) \
    DRIVER(cuMemcpyDtoDAsync_v2_ptsz) \
    /* fills */ \
    DRIVER(cuMemsetD8_v2) \
    DRIVER(cuMemsetD8_v2_ptds) \
    DRIVER(cuMemsetD32_v2) \
    DRIVER(cuMemsetD8Async) \
    DRIVER(cuMemsetD8Async_ptsz) \
    /* memory */ \
    DRIVER(cuMemAlloc_v2) \
    DRIVER(cuMemFree_v2) \
    DRIVER(cuMemAllocAsync) \
    DRIVER(cuMemAllocAsync_ptsz) \
    DRIVER(cuMemFreeAsync) \
    DRIVER(cuMemFreeAsync_ptsz) \
    DRIVER(cuMemAllocManaged) \
    DRIVER(cuMemHostAlloc) \
    DRIVER(cuMemAllocHost_v2) \
    DRIVER(cuMemFreeHost) \
    /* waits, events */ \
    DRIVER(cuCtxSynchronize) \
    DRIVER(cuStreamSynchronize) \
    DRIVER(cuStreamSynchronize_ptsz) \
    DRIVER(cuEventSynchronize) \
    DRIVER(cuEventRecord) \
    DRIVER(cuEventRecord_ptsz) \
    DRIVER(cuStreamWaitEvent) \
    DRIVER(cuStreamWaitEvent_ptsz) \
    /* launches */ \
    RUNTIME(cudaLaunchKernel) \
    RUNTIME(cudaLaunchKernel_ptsz) \
    RUNTIME(cudaLaunchKernelExC) \
    RUNTIME(cudaLaunchKernelExC_ptsz) \
    RUNTIME(cudaLaunchCooperativeKernel) \
    RUNTIME(cudaLaunchCooperativeKernel_ptsz) \
    RUNTIME(cudaGraphLaunch) \
    RUNTIME(cudaGraphLaunch_ptsz) \
    /* copies */ \
    RUNTIME(cudaMemcpy) \
    RUNTIME(cudaMemcpy_ptds) \
    RUNTIME(cudaMemcpyAsync) \
    RUNTIME(cudaMemcpyAsync_ptsz) \
    RUNTIME(cudaMemcpy2D) \
    RUNTIME(cudaMemcpy2D_ptds) \
    RUNTIME(cudaMemcpy2DAsync) \
    RUNTIME(cudaMemcpy2DAsync_ptsz) \
    RUNTIME(cudaMemcpyPeer) \
    RUNTIME(cudaMemcpyPeerAsync) \
    RUNTIME(cudaMemcpyToSymbol) \
    RUNTIME(cudaMemcpyToSymbol_ptds) \
    /* fills */ \
    RUNTIME(cudaMemset) \
    RUNTIME(cudaMemset_ptds) \
    RUNTIME(cudaMemsetAsync) \
    RUNTIME(cudaMemsetAsync_ptsz) \
    /* memory */ \
    RUNTIME(cudaMalloc) \
    RUNTIME(cudaFree) \
    RUNTIME(cudaMallocAsync) \
    RUNTIME(cudaMallocAsync_ptsz) \
    RUNTIME(cudaFreeAsync) \
    RUNTIME(cudaFreeAsync_ptsz) \
    RUNTIME(cudaMallocManaged) \
    RUNTIME(cudaHostAlloc) \
    RUNTIME(cudaMallocHost) \
    RUNTIME(cudaFreeHost) \
    /* waits, events, the device */ \
    RUNTIME(cudaDeviceSynchronize) \
    RUNTIME(cudaStreamSynchronize) \
    RUNTIME(cudaStreamSynchronize_ptsz) \
    RUNTIME(cudaEventSynchronize) \
    RUNTIME(cudaEventRecord) \
    RUNTIME(cudaEventRecord_ptsz) \
    RUNTIME(cudaStreamWaitEvent) \
    RUNTIME(cudaStreamWaitEvent_ptsz) \
    RUNTIME(cudaEventCreate) \
    RUNTIME(cudaStreamCreate) \
    RUNTIME(cudaGetDevice) \
    RUNTIME(cudaSetDevice) \
    RUNTIME(cudaStreamQuery) \
    RUNTIME(cudaStreamQuery_ptsz) \
    RUNTIME(cudaEventQuery)

#define STANDIN_ID(name) ID_##name,
enum standin_id { STANDIN_SYMBOLS(STANDIN_ID, STANDIN_ID) STANDIN_COUNT };
#undef STANDIN_ID

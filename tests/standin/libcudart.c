/* A stand-in for the runtime API, libcudart.so.13: each function calls its driver function once, as the real one does. */
#include "standin.h"

#define BYTES(ptr) ((CUdeviceptr)(uintptr_t)(ptr))

static int copy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice: return cuMemcpyHtoD_v2(BYTES(dst), src, size);
    case cudaMemcpyDeviceToHost: return cuMemcpyDtoH_v2(dst, BYTES(src), size);
    case cudaMemcpyDeviceToDevice: return cuMemcpyDtoD_v2(BYTES(dst), BYTES(src), size);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return cuMemcpy(BYTES(dst), BYTES(src), size);
    }
    return cudaErrorInvalidMemcpyDirection;
}
static int copy_ptds(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice: return cuMemcpyHtoD_v2_ptds(BYTES(dst), src, size);
    case cudaMemcpyDeviceToHost: return cuMemcpyDtoH_v2_ptds(dst, BYTES(src), size);
    case cudaMemcpyDeviceToDevice: return cuMemcpyDtoD_v2_ptds(BYTES(dst), BYTES(src), size);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return cuMemcpy_ptds(BYTES(dst), BYTES(src), size);
    }
    return cudaErrorInvalidMemcpyDirection;
}
static int copy_async(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice: return cuMemcpyHtoDAsync_v2(BYTES(dst), src, size, stream);
    case cudaMemcpyDeviceToHost: return cuMemcpyDtoHAsync_v2(dst, BYTES(src), size, stream);
    case cudaMemcpyDeviceToDevice: return cuMemcpyDtoDAsync_v2(BYTES(dst), BYTES(src), size, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return cuMemcpyAsync(BYTES(dst), BYTES(src), size, stream);
    }
    return cudaErrorInvalidMemcpyDirection;
}
static int copy_async_ptsz(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice: return cuMemcpyHtoDAsync_v2_ptsz(BYTES(dst), src, size, stream);
    case cudaMemcpyDeviceToHost: return cuMemcpyDtoHAsync_v2_ptsz(dst, BYTES(src), size, stream);
    case cudaMemcpyDeviceToDevice: return cuMemcpyDtoDAsync_v2_ptsz(BYTES(dst), BYTES(src), size, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return cuMemcpyAsync_ptsz(BYTES(dst), BYTES(src), size, stream);
    }
    return cudaErrorInvalidMemcpyDirection;
}

/* ---- launches ---- */
#define DEFINE_LAUNCH(name, driver) \
    EXPORT cudaError_t name(const void *func, dim3 grid, dim3 block, void **args, size_t sharedMem, cudaStream_t stream) { \
        ENTER(name, 0); \
        LEAVE(name, driver); \
    }
#define DRIVER_ARGS (CUfunction)func, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)sharedMem, stream, args
DEFINE_LAUNCH(cudaLaunchKernel, cuLaunchKernel(DRIVER_ARGS, NULL))
DEFINE_LAUNCH(cudaLaunchKernel_ptsz, cuLaunchKernel_ptsz(DRIVER_ARGS, NULL))
DEFINE_LAUNCH(cudaLaunchCooperativeKernel, cuLaunchCooperativeKernel(DRIVER_ARGS))
DEFINE_LAUNCH(cudaLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel_ptsz(DRIVER_ARGS))

/* A local name at the address of an exported one: whoever attaches by wildcard over names counts this function twice. */
__attribute__((alias("cudaLaunchKernel"), used)) static cudaError_t cudaLaunchKernel_local(
    const void *func, dim3 grid, dim3 block, void **args, size_t sharedMem, cudaStream_t stream);

static CUlaunchConfig driver_config(const cudaLaunchConfig_t *config) {
    return (CUlaunchConfig){config->gridDim.x,
                            config->gridDim.y,
                            config->gridDim.z,
                            config->blockDim.x,
                            config->blockDim.y,
                            config->blockDim.z,
                            (unsigned)config->dynamicSmemBytes,
                            config->stream,
                            config->attrs,
                            config->numAttrs};
}
#define DEFINE_LAUNCH_EX(name, driver) \
    EXPORT cudaError_t name(const cudaLaunchConfig_t *config, const void *func, void **args) { \
        ENTER(name, 0); \
        if (!config) LEAVE(name, cudaErrorInvalidValue); \
        CUlaunchConfig for_driver = driver_config(config); \
        LEAVE(name, driver(&for_driver, (CUfunction)func, args, NULL)); \
    }
DEFINE_LAUNCH_EX(cudaLaunchKernelExC, cuLaunchKernelEx)
DEFINE_LAUNCH_EX(cudaLaunchKernelExC_ptsz, cuLaunchKernelEx_ptsz)

#define DEFINE_GRAPH(name, driver) \
    EXPORT cudaError_t name(cudaGraphExec_t graph, cudaStream_t stream) { \
        ENTER(name, 0); \
        LEAVE(name, driver(graph, stream)); \
    }
DEFINE_GRAPH(cudaGraphLaunch, cuGraphLaunch)
DEFINE_GRAPH(cudaGraphLaunch_ptsz, cuGraphLaunch_ptsz)

/* ---- copies ---- */
#define DEFINE_COPY(name, how) \
    EXPORT cudaError_t name(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind) { \
        ENTER(name, size); \
        LEAVE(name, how(dst, src, size, kind)); \
    }
#define DEFINE_COPY_ASYNC(name, how) \
    EXPORT cudaError_t name(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) { \
        ENTER(name, size); \
        LEAVE(name, how(dst, src, size, kind, stream)); \
    }
DEFINE_COPY(cudaMemcpy, copy)
DEFINE_COPY(cudaMemcpy_ptds, copy_ptds)
DEFINE_COPY_ASYNC(cudaMemcpyAsync, copy_async)
DEFINE_COPY_ASYNC(cudaMemcpyAsync_ptsz, copy_async_ptsz)

#define DEFINE_COPY2D(name, how) \
    EXPORT cudaError_t name(COPY2D_ARGS) { \
        (void)dpitch, (void)spitch; \
        ENTER(name, width *height); \
        LEAVE(name, how(dst, src, width *height, kind)); \
    }
#define DEFINE_COPY2D_ASYNC(name, how) \
    EXPORT cudaError_t name(COPY2D_ARGS, cudaStream_t stream) { \
        (void)dpitch, (void)spitch; \
        ENTER(name, width *height); \
        LEAVE(name, how(dst, src, width *height, kind, stream)); \
    }
DEFINE_COPY2D(cudaMemcpy2D, copy)
DEFINE_COPY2D(cudaMemcpy2D_ptds, copy_ptds)
DEFINE_COPY2D_ASYNC(cudaMemcpy2DAsync, copy_async)
DEFINE_COPY2D_ASYNC(cudaMemcpy2DAsync_ptsz, copy_async_ptsz)

EXPORT cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t size) {
    ENTER(cudaMemcpyPeer, size);
    if (dstDevice >= STANDIN_DEVICES || srcDevice >= STANDIN_DEVICES) LEAVE(cudaMemcpyPeer, cudaErrorInvalidDevice);
    LEAVE(cudaMemcpyPeer, cuMemcpyDtoD_v2(BYTES(dst), BYTES(src), size));
}
EXPORT cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t size, cudaStream_t stream) {
    ENTER(cudaMemcpyPeerAsync, size);
    if (dstDevice >= STANDIN_DEVICES || srcDevice >= STANDIN_DEVICES) LEAVE(cudaMemcpyPeerAsync, cudaErrorInvalidDevice);
    LEAVE(cudaMemcpyPeerAsync, cuMemcpyDtoDAsync_v2(BYTES(dst), BYTES(src), size, stream));
}
#define DEFINE_TO_SYMBOL(name, how) \
    EXPORT cudaError_t name(const void *symbol, const void *src, size_t size, size_t offset, enum cudaMemcpyKind kind) { \
        ENTER(name, size); \
        LEAVE(name, how((char *)symbol + offset, src, size, kind)); \
    }
DEFINE_TO_SYMBOL(cudaMemcpyToSymbol, copy)
DEFINE_TO_SYMBOL(cudaMemcpyToSymbol_ptds, copy_ptds)

/* ---- fills ---- */
#define DEFINE_FILL(name, driver) \
    EXPORT cudaError_t name(void *ptr, int value, size_t size) { \
        ENTER(name, size); \
        LEAVE(name, driver(BYTES(ptr), (unsigned char)value, size)); \
    }
DEFINE_FILL(cudaMemset, cuMemsetD8_v2)
DEFINE_FILL(cudaMemset_ptds, cuMemsetD8_v2_ptds)
#define DEFINE_FILL_ASYNC(name, driver) \
    EXPORT cudaError_t name(void *ptr, int value, size_t size, cudaStream_t stream) { \
        ENTER(name, size); \
        LEAVE(name, driver(BYTES(ptr), (unsigned char)value, size, stream)); \
    }
DEFINE_FILL_ASYNC(cudaMemsetAsync, cuMemsetD8Async)
DEFINE_FILL_ASYNC(cudaMemsetAsync_ptsz, cuMemsetD8Async_ptsz)

/* ---- memory ---- */
EXPORT cudaError_t cudaMalloc(void **ptr, size_t size) {
    ENTER(cudaMalloc, size);
    LEAVE(cudaMalloc, cuMemAlloc_v2((CUdeviceptr *)ptr, size));
}
EXPORT cudaError_t cudaFree(void *ptr) {
    ENTER(cudaFree, 0);
    LEAVE(cudaFree, cuMemFree_v2(BYTES(ptr)));
}
#define DEFINE_ALLOC_ASYNC(name, driver) \
    EXPORT cudaError_t name(void **ptr, size_t size, cudaStream_t stream) { \
        ENTER(name, size); \
        LEAVE(name, driver((CUdeviceptr *)ptr, size, stream)); \
    }
DEFINE_ALLOC_ASYNC(cudaMallocAsync, cuMemAllocAsync)
DEFINE_ALLOC_ASYNC(cudaMallocAsync_ptsz, cuMemAllocAsync_ptsz)
#define DEFINE_FREE_ASYNC(name, driver) \
    EXPORT cudaError_t name(void *ptr, cudaStream_t stream) { \
        ENTER(name, 0); \
        LEAVE(name, driver(BYTES(ptr), stream)); \
    }
DEFINE_FREE_ASYNC(cudaFreeAsync, cuMemFreeAsync)
DEFINE_FREE_ASYNC(cudaFreeAsync_ptsz, cuMemFreeAsync_ptsz)
EXPORT cudaError_t cudaMallocManaged(void **ptr, size_t size, unsigned flags) {
    ENTER(cudaMallocManaged, size);
    LEAVE(cudaMallocManaged, cuMemAllocManaged((CUdeviceptr *)ptr, size, flags));
}
EXPORT cudaError_t cudaHostAlloc(void **ptr, size_t size, unsigned flags) {
    ENTER(cudaHostAlloc, size);
    LEAVE(cudaHostAlloc, cuMemHostAlloc(ptr, size, flags));
}
EXPORT cudaError_t cudaMallocHost(void **ptr, size_t size) {
    ENTER(cudaMallocHost, size);
    LEAVE(cudaMallocHost, cuMemAllocHost_v2(ptr, size));
}
EXPORT cudaError_t cudaFreeHost(void *ptr) {
    ENTER(cudaFreeHost, 0);
    LEAVE(cudaFreeHost, cuMemFreeHost(ptr));
}

/* ---- waits, events, the device ---- */
EXPORT cudaError_t cudaDeviceSynchronize(void) {
    ENTER(cudaDeviceSynchronize, 0);
    LEAVE(cudaDeviceSynchronize, cuCtxSynchronize());
}
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ENTER(cudaStreamSynchronize, 0);
    LEAVE(cudaStreamSynchronize, cuStreamSynchronize(stream));
}
EXPORT cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
    ENTER(cudaStreamSynchronize_ptsz, 0);
    LEAVE(cudaStreamSynchronize_ptsz, cuStreamSynchronize_ptsz(stream));
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER(cudaEventSynchronize, 0);
    LEAVE(cudaEventSynchronize, cuEventSynchronize(event));
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER(cudaEventRecord, 0);
    LEAVE(cudaEventRecord, cuEventRecord(event, stream));
}
EXPORT cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    ENTER(cudaEventRecord_ptsz, 0);
    LEAVE(cudaEventRecord_ptsz, cuEventRecord_ptsz(event, stream));
}
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    ENTER(cudaStreamWaitEvent, 0);
    LEAVE(cudaStreamWaitEvent, cuStreamWaitEvent(stream, event, flags));
}
EXPORT cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    ENTER(cudaStreamWaitEvent_ptsz, 0);
    LEAVE(cudaStreamWaitEvent_ptsz, cuStreamWaitEvent_ptsz(stream, event, flags));
}

/* These stay inside the stand-in: what the driver is asked for in their place is an implementation detail of each release. */
static uintptr_t next_handle = 0x51000;
EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event) {
    ENTER(cudaEventCreate, 0);
    if (!event) LEAVE(cudaEventCreate, cudaErrorInvalidValue);
    *event = (cudaEvent_t)__atomic_fetch_add(&next_handle, 16, __ATOMIC_RELAXED);
    LEAVE(cudaEventCreate, cudaSuccess);
}
EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    ENTER(cudaStreamCreate, 0);
    if (!stream) LEAVE(cudaStreamCreate, cudaErrorInvalidValue);
    *stream = (cudaStream_t)__atomic_fetch_add(&next_handle, 16, __ATOMIC_RELAXED);
    LEAVE(cudaStreamCreate, cudaSuccess);
}
static __thread int current_device;
EXPORT cudaError_t cudaGetDevice(int *device) {
    ENTER(cudaGetDevice, 0);
    if (!device) LEAVE(cudaGetDevice, cudaErrorInvalidValue);
    *device = current_device;
    LEAVE(cudaGetDevice, cudaSuccess);
}
EXPORT cudaError_t cudaSetDevice(int device) {
    ENTER(cudaSetDevice, 0);
    if (device < 0 || device >= STANDIN_DEVICES) LEAVE(cudaSetDevice, cudaErrorInvalidDevice);
    current_device = device;
    LEAVE(cudaSetDevice, cudaSuccess);
}
#define DEFINE_QUERY(name, type) \
    EXPORT cudaError_t name(type handle) { \
        ENTER(name, 0); \
        LEAVE(name, (void *)handle == (void *)STANDIN_BAD_STREAM ? cudaErrorIllegalAddress : cudaSuccess); \
    }
DEFINE_QUERY(cudaStreamQuery, cudaStream_t)
DEFINE_QUERY(cudaStreamQuery_ptsz, cudaStream_t)
DEFINE_QUERY(cudaEventQuery, cudaEvent_t)

/* A stand-in for the driver API, libcuda.so.1: it does nothing but take the time it is told to take, and count.
 *
 * STANDIN_LAUNCH_NS  each launch keeps the CPU busy for so long
 * STANDIN_COPY_NS    each copy and fill keeps the CPU busy for so long
 * STANDIN_SYNC_US    each wait sleeps for so long */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "standin.h"

static struct standin_count own_counts[STANDIN_COUNT];
static struct standin_count *counts = own_counts;
static __thread void (*hook)(enum standin_id);
static long launch_ns, copy_ns, sync_us;
static uint64_t next_device_pointer = 0x7f5a00000000, next_host_pointer = 0x7e1000000000;

__attribute__((constructor)) static void read_environment(void) {
    const char *value;
    launch_ns = (value = getenv("STANDIN_LAUNCH_NS")) ? atol(value) : 0;
    copy_ns = (value = getenv("STANDIN_COPY_NS")) ? atol(value) : 0;
    sync_us = (value = getenv("STANDIN_SYNC_US")) ? atol(value) : 0;
}

EXPORT void standin_use_counts(struct standin_count *new_counts) { counts = new_counts; }
EXPORT void standin_set_hook(void (*new_hook)(enum standin_id)) { hook = new_hook; }

EXPORT void standin_enter(enum standin_id id, size_t bytes) {
    __atomic_fetch_add(&counts[id].calls, 1, __ATOMIC_RELAXED);
    if (bytes) __atomic_fetch_add(&counts[id].bytes, bytes, __ATOMIC_RELAXED);
    if (hook) hook(id);
}

EXPORT int standin_leave(enum standin_id id, int result) {
    __atomic_fetch_add(&counts[id].returned, 1, __ATOMIC_RELAXED);
    if (result) __atomic_fetch_add(&counts[id].errors, 1, __ATOMIC_RELAXED);
    return result;
}

static void busy(long ns) {
    if (ns <= 0) return;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < ns);
}

static CUresult launch(CUstream stream) {
    busy(launch_ns);
    return stream == STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static CUresult copy(CUstream stream, uint64_t dst) {
    busy(copy_ns);
    if (!dst) return CUDA_ERROR_INVALID_VALUE;
    return stream == STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static CUresult wait_for(void *handle) {
    if (sync_us > 0) {
        struct timespec left = {sync_us / 1000000, sync_us % 1000000 * 1000};
        while (nanosleep(&left, &left) && errno == EINTR) {}
    }
    return handle == (void *)STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static CUresult allocate(uint64_t *out, size_t size, uint64_t *next) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (size >= STANDIN_TOO_LARGE) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = __atomic_fetch_add(next, (size + 511) / 512 * 512 + 512, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* ---- launches ---- */
#define DIMENSIONS ((void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)sharedMemBytes, (void)kernelParams)
#define DEFINE_LAUNCH(name) \
    EXPORT CUresult name(LAUNCH_ARGS, void **extra) { \
        DIMENSIONS; \
        (void)extra; \
        ENTER(name, 0); \
        LEAVE(name, launch(hStream)); \
    }
DEFINE_LAUNCH(cuLaunchKernel)
DEFINE_LAUNCH(cuLaunchKernel_ptsz)

#define DEFINE_LAUNCH_EX(name) \
    EXPORT CUresult name(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) { \
        (void)f, (void)kernelParams, (void)extra; \
        ENTER(name, 0); \
        LEAVE(name, config ? launch(config->hStream) : CUDA_ERROR_INVALID_VALUE); \
    }
DEFINE_LAUNCH_EX(cuLaunchKernelEx)
DEFINE_LAUNCH_EX(cuLaunchKernelEx_ptsz)

#define DEFINE_COOPERATIVE(name) \
    EXPORT CUresult name(LAUNCH_ARGS) { \
        DIMENSIONS; \
        ENTER(name, 0); \
        LEAVE(name, launch(hStream)); \
    }
DEFINE_COOPERATIVE(cuLaunchCooperativeKernel)
DEFINE_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

#define DEFINE_GRAPH(name) \
    EXPORT CUresult name(CUgraphExec graph, CUstream stream) { \
        (void)graph; \
        ENTER(name, 0); \
        LEAVE(name, launch(stream)); \
    }
DEFINE_GRAPH(cuGraphLaunch)
DEFINE_GRAPH(cuGraphLaunch_ptsz)

/* ---- copies ---- */
#define DEFINE_COPY(name, dst_type, src_type) \
    EXPORT CUresult name(dst_type dst, src_type src, size_t size) { \
        (void)src; \
        ENTER(name, size); \
        LEAVE(name, copy(NULL, (uint64_t)dst)); \
    }
#define DEFINE_COPY_ASYNC(name, dst_type, src_type) \
    EXPORT CUresult name(dst_type dst, src_type src, size_t size, CUstream stream) { \
        (void)src; \
        ENTER(name, size); \
        LEAVE(name, copy(stream, (uint64_t)dst)); \
    }
DEFINE_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr)
DEFINE_COPY(cuMemcpy_ptds, CUdeviceptr, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyAsync_ptsz, CUdeviceptr, CUdeviceptr)
DEFINE_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void *)
DEFINE_COPY(cuMemcpyHtoD_v2_ptds, CUdeviceptr, const void *)
DEFINE_COPY(cuMemcpyDtoH_v2, void *, CUdeviceptr)
DEFINE_COPY(cuMemcpyDtoH_v2_ptds, void *, CUdeviceptr)
DEFINE_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr)
DEFINE_COPY(cuMemcpyDtoD_v2_ptds, CUdeviceptr, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *)
DEFINE_COPY_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr, const void *)
DEFINE_COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, void *, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr)
DEFINE_COPY_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, CUdeviceptr, CUdeviceptr)

/* ---- fills: `count` is in elements ---- */
#define DEFINE_FILL(name, type) \
    EXPORT CUresult name(CUdeviceptr dst, type value, size_t count) { \
        (void)value; \
        ENTER(name, count * sizeof(type)); \
        LEAVE(name, copy(NULL, dst)); \
    }
#define DEFINE_FILL_ASYNC(name, type) \
    EXPORT CUresult name(CUdeviceptr dst, type value, size_t count, CUstream stream) { \
        (void)value; \
        ENTER(name, count * sizeof(type)); \
        LEAVE(name, copy(stream, dst)); \
    }
DEFINE_FILL(cuMemsetD8_v2, unsigned char)
DEFINE_FILL(cuMemsetD8_v2_ptds, unsigned char)
DEFINE_FILL(cuMemsetD32_v2, unsigned)
DEFINE_FILL_ASYNC(cuMemsetD8Async, unsigned char)
DEFINE_FILL_ASYNC(cuMemsetD8Async_ptsz, unsigned char)

/* ---- memory ---- */
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size) {
    ENTER(cuMemAlloc_v2, size);
    LEAVE(cuMemAlloc_v2, allocate((uint64_t *)ptr, size, &next_device_pointer));
}
#define DEFINE_ALLOC_ASYNC(name) \
    EXPORT CUresult name(CUdeviceptr *ptr, size_t size, CUstream stream) { \
        (void)stream; \
        ENTER(name, size); \
        LEAVE(name, allocate((uint64_t *)ptr, size, &next_device_pointer)); \
    }
DEFINE_ALLOC_ASYNC(cuMemAllocAsync)
DEFINE_ALLOC_ASYNC(cuMemAllocAsync_ptsz)
EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr) {
    (void)ptr;
    ENTER(cuMemFree_v2, 0);
    LEAVE(cuMemFree_v2, CUDA_SUCCESS);
}
#define DEFINE_FREE_ASYNC(name) \
    EXPORT CUresult name(CUdeviceptr ptr, CUstream stream) { \
        (void)ptr; \
        ENTER(name, 0); \
        LEAVE(name, stream == STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS); \
    }
DEFINE_FREE_ASYNC(cuMemFreeAsync)
DEFINE_FREE_ASYNC(cuMemFreeAsync_ptsz)
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t size, unsigned flags) {
    (void)flags;
    ENTER(cuMemAllocManaged, size);
    LEAVE(cuMemAllocManaged, allocate((uint64_t *)ptr, size, &next_device_pointer));
}
EXPORT CUresult cuMemHostAlloc(void **ptr, size_t size, unsigned flags) {
    (void)flags;
    ENTER(cuMemHostAlloc, size);
    LEAVE(cuMemHostAlloc, allocate((uint64_t *)ptr, size, &next_host_pointer));
}
EXPORT CUresult cuMemAllocHost_v2(void **ptr, size_t size) {
    ENTER(cuMemAllocHost_v2, size);
    LEAVE(cuMemAllocHost_v2, allocate((uint64_t *)ptr, size, &next_host_pointer));
}
EXPORT CUresult cuMemFreeHost(void *ptr) {
    (void)ptr;
    ENTER(cuMemFreeHost, 0);
    LEAVE(cuMemFreeHost, CUDA_SUCCESS);
}

/* ---- waits, events ---- */
EXPORT CUresult cuCtxSynchronize(void) {
    ENTER(cuCtxSynchronize, 0);
    LEAVE(cuCtxSynchronize, wait_for(NULL));
}
#define DEFINE_WAIT(name, type) \
    EXPORT CUresult name(type handle) { \
        ENTER(name, 0); \
        LEAVE(name, wait_for(handle)); \
    }
DEFINE_WAIT(cuStreamSynchronize, CUstream)
DEFINE_WAIT(cuStreamSynchronize_ptsz, CUstream)
DEFINE_WAIT(cuEventSynchronize, CUevent)
#define DEFINE_RECORD(name) \
    EXPORT CUresult name(CUevent event, CUstream stream) { \
        (void)event; \
        ENTER(name, 0); \
        LEAVE(name, stream == STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS); \
    }
DEFINE_RECORD(cuEventRecord)
DEFINE_RECORD(cuEventRecord_ptsz)
#define DEFINE_STREAM_WAIT(name) \
    EXPORT CUresult name(CUstream stream, CUevent event, unsigned flags) { \
        (void)event, (void)flags; \
        ENTER(name, 0); \
        LEAVE(name, stream == STANDIN_BAD_STREAM ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS); \
    }
DEFINE_STREAM_WAIT(cuStreamWaitEvent)
DEFINE_STREAM_WAIT(cuStreamWaitEvent_ptsz)

/* The parts of nccl.h and nvToolsExt.h that the stand-ins and their program need. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"), noinline))

typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
/* Passed by value: on the stack on x86-64, by address on aarch64. */
typedef struct {
    char internal[128];
} ncclUniqueId;

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, void *config);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *, void *, size_t, int datatype, int op, ncclComm_t, void *stream);
ncclResult_t ncclAllGather(const void *, void *, size_t, int datatype, ncclComm_t, void *stream);
ncclResult_t ncclReduceScatter(const void *, void *, size_t, int datatype, int op, ncclComm_t, void *stream);
ncclResult_t ncclReduce(const void *, void *, size_t, int datatype, int op, int root, ncclComm_t, void *stream);
ncclResult_t ncclBroadcast(const void *, void *, size_t, int datatype, int root, ncclComm_t, void *stream);
ncclResult_t ncclAlltoAll(const void *, void *, size_t, int datatype, ncclComm_t, void *stream);
ncclResult_t ncclBcast(void *, size_t, int datatype, int root, ncclComm_t, void *stream);
ncclResult_t ncclSend(const void *, size_t, int datatype, int peer, ncclComm_t, void *stream);
ncclResult_t ncclRecv(void *, size_t, int datatype, int peer, ncclComm_t, void *stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    uint64_t payload;
    int32_t messageType; /* 1 bytes, 2 wide characters, 3 registered */
    const void *message;
} nvtxEventAttributes_t;

int nvtxRangePushA(const char *message);
int nvtxRangePushEx(const nvtxEventAttributes_t *attributes);
int nvtxRangePop(void);
void nvtxMarkA(const char *message);
uint64_t nvtxRangeStartA(const char *message);
void nvtxRangeEnd(uint64_t id);
int nvtxDomainRangePushEx(void *domain, const nvtxEventAttributes_t *attributes);
int nvtxDomainRangePop(void *domain);

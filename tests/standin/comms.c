/* Calls NCCL and NVTX with arguments that tests/tests/comms.rs knows. */
#include "comms.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int cudaSetDevice(int device);
int cudaDeviceSynchronize(void);

#define STREAM ((void *)0x5000)

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

static void *other_thread(void *id) {
    cudaDeviceSynchronize();
    nvtxRangeEnd(*(uint64_t *)id);
    nvtxRangePushA("never popped");
    return NULL;
}

int main(void) {
    char send[16] = {0}, recv[16];
    ncclUniqueId id = {{0}};
    ncclComm_t comm, half;
    int number;

    cudaDeviceSynchronize();
    cudaSetDevice(3);
    cudaDeviceSynchronize();
    cudaSetDevice(99); /* refused: the device stays */
    cudaDeviceSynchronize();

    ncclCommInitRank(&comm, 4, id, 2);
    ncclGroupStart();
    ncclAllReduce(send, recv, 1000, 6, 2, comm, STREAM);
    ncclAllGather(send, recv, 2000, 7, comm, STREAM);
    ncclReduceScatter(send, recv, 3000, 8, 0, comm, STREAM);
    ncclReduce(send, recv, 4000, 9, 4, 1, comm, STREAM);
    ncclBroadcast(send, recv, 5000, 0, 3, comm, STREAM);
    ncclAlltoAll(send, recv, 6000, 10, comm, STREAM);
    ncclBcast(recv, 7000, 2, 0, comm, STREAM);
    ncclSend(send, 8000, 1, 3, comm, STREAM);
    ncclRecv(recv, 9000, 4, 1, comm, STREAM);
    ncclGroupEnd();
    ncclCommSplit(comm, 0, 0, &half, NULL);
    ncclAllReduce(send, recv, 10, 6, 0, half, STREAM);
    ncclCommUserRank(half, &number);
    ncclCommCount(half, &number);
    ncclAllReduce(send, recv, 20, 6, 0, half, STREAM);
    ncclAllReduce(send, recv, 0, 6, 0, half, STREAM); /* 4, invalid argument */
    printf("comms %llu %llu\n", (unsigned long long)(uintptr_t)comm, (unsigned long long)(uintptr_t)half);
    ncclCommDestroy(half);

    nvtxEventAttributes_t attributes = {.version = 3, .size = sizeof attributes, .messageType = 1, .message = "inner \"quoted\""};
    nvtxRangePushA("outer");
    nvtxRangePushEx(&attributes);
    pause_ms(20);
    nvtxDomainRangePushEx((void *)0x1234, &attributes);
    nvtxRangePop();
    nvtxDomainRangePop((void *)0x1234);
    nvtxMarkA("half way");
    pause_ms(20);
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
    attributes.messageType = 3;
    nvtxRangePushEx(&attributes); /* a registered string: no text to read */
    nvtxRangePop();

    uint64_t first = nvtxRangeStartA("first"), second = nvtxRangeStartA("second");
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, &first);
    pthread_join(thread, NULL);
    nvtxRangeEnd(second);
    nvtxRangeStartA("open at the end");
    fflush(stdout);
    return 0;
}

/* A stand-in for NCCL, libnccl.so.2: the real signatures (nccl.h), and nothing behind them. */
#include "comms.h"

struct ncclComm {
    int rank, ranks;
};

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
    ncclComm_t made = malloc(sizeof *made);
    made->rank = rank;
    made->ranks = nranks + 0 * commId.internal[0];
    *comm = made;
    return 0;
}
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, void *config) {
    (void)color, (void)key, (void)config;
    ncclComm_t made = malloc(sizeof *made);
    made->rank = comm->rank / 2;
    made->ranks = comm->ranks / 2;
    *newcomm = made;
    return 0;
}
EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    *rank = comm->rank;
    return 0;
}
EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    *count = comm->ranks;
    return 0;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    free(comm);
    return 0;
}

/* A collective with a count of 0 is refused. */
#define REFUSE_EMPTY return count ? 0 : 4
#define BUFFERS const void *sendbuff, void *recvbuff
#define UNUSED (void)sendbuff, (void)recvbuff, (void)datatype, (void)comm, (void)stream

EXPORT ncclResult_t ncclAllReduce(BUFFERS, size_t count, int datatype, int op, ncclComm_t comm, void *stream) {
    UNUSED, (void)op;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclAllGather(BUFFERS, size_t count, int datatype, ncclComm_t comm, void *stream) {
    UNUSED;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclReduceScatter(BUFFERS, size_t count, int datatype, int op, ncclComm_t comm, void *stream) {
    UNUSED, (void)op;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclReduce(BUFFERS, size_t count, int datatype, int op, int root, ncclComm_t comm, void *stream) {
    UNUSED, (void)op, (void)root;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclBroadcast(BUFFERS, size_t count, int datatype, int root, ncclComm_t comm, void *stream) {
    UNUSED, (void)root;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclAlltoAll(BUFFERS, size_t count, int datatype, ncclComm_t comm, void *stream) {
    UNUSED;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclBcast(void *recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void *stream) {
    const void *sendbuff = recvbuff;
    UNUSED, (void)root;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclSend(const void *sendbuff, size_t count, int datatype, int peer, ncclComm_t comm, void *stream) {
    void *recvbuff = NULL;
    UNUSED, (void)peer;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclRecv(void *recvbuff, size_t count, int datatype, int peer, ncclComm_t comm, void *stream) {
    const void *sendbuff = NULL;
    UNUSED, (void)peer;
    REFUSE_EMPTY;
}
EXPORT ncclResult_t ncclGroupStart(void) {
    return 0;
}
EXPORT ncclResult_t ncclGroupEnd(void) {
    return 0;
}

/* What the two libraries share with each other and with the programs of this folder, beside CUDA's own interface. */
#pragma once

#include "cuda_api.h"
#include "symbols.h"

#define EXPORT __attribute__((visibility("default"), noinline))

/* Exact figures of one function in one process: what a recording must agree with. */
struct standin_count {
    uint64_t calls;    /* entries */
    uint64_t returned; /* entries that came back: the rest left by longjmp or thread exit */
    uint64_t errors;   /* of those, with a result other than 0 */
    uint64_t bytes;    /* sum of the sizes asked for, over all entries */
};

/* Handles and sizes that make a call fail, whatever the function. */
#define STANDIN_BAD_STREAM ((CUstream)0xdead) /* 700, illegal address */
#define STANDIN_TOO_LARGE ((size_t)1 << 60)   /* 2, out of memory */
#define STANDIN_DEVICES 4

/* From here on count into `counts` (STANDIN_COUNT entries), for instance shared memory. */
void standin_use_counts(struct standin_count *counts);
/* Calls `hook` from inside each of this thread's calls, after it was counted; NULL ends that. The hook may call CUDA, leave by
 * longjmp, or end the thread. */
void standin_set_hook(void (*hook)(enum standin_id));
void standin_enter(enum standin_id id, size_t bytes);
int standin_leave(enum standin_id id, int result);

#define ENTER(name, bytes) standin_enter(ID_##name, (bytes))
#define LEAVE(name, result) return standin_leave(ID_##name, (result))

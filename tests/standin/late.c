/* standin-late N LIBRARY [PAUSE_MS]: starts without any CUDA library, sleeps, loads LIBRARY by path, sleeps, and runs the loop of
 * `standin loop N`. LIBRARY is the stand-in's libcudart.so.13 or a real one; the latter's calls fail without a driver, and are
 * calls all the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "report.h"

static struct process_report *mine;
static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "standin-late: %s\n", dlerror());
        exit(98);
    }
    return found;
}

/* The stand-in counts by itself; for a real library the program does. */
static int counts_itself;
static int counted(enum standin_id id, size_t bytes, int result) {
    if (counts_itself) return result;
    mine->counts[id].calls++;
    mine->counts[id].returned++;
    mine->counts[id].bytes += bytes;
    if (result) mine->counts[id].errors++;
    return result;
}
#define FIND(name) __typeof__(&name) p_##name = (__typeof__(&name))find(#name)
#define CALL(name, bytes, ...) counted(ID_##name, bytes, p_##name(__VA_ARGS__))

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: standin-late N LIBRARY [PAUSE_MS]\n");
        return 2;
    }
    mine = report_open("dlopen", "main");
    long pause_ms = argc > 3 ? atol(argv[3]) : 300;
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);

    if (!(library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "standin-late: %s\n", dlerror());
        return 98;
    }
    void (*use_counts)(struct standin_count *) = (void (*)(struct standin_count *))dlsym(library, "standin_use_counts");
    if (use_counts) use_counts(mine->counts), counts_itself = 1;
    FIND(cudaMalloc);
    FIND(cudaMemcpyAsync);
    FIND(cudaLaunchKernel);
    FIND(cudaStreamSynchronize);
    FIND(cudaMemcpy);
    FIND(cudaFree);
    nanosleep(&pause, NULL); /* a recorder attaches to a new mapping within this time, or misses calls */

    char host[4096] = {0};
    int result = 0;
    for (long i = 0; i < atol(argv[1]); i++) {
        void *device = NULL;
        result = CALL(cudaMalloc, sizeof host, &device, sizeof host);
        CALL(cudaMemcpyAsync, sizeof host, device, host, sizeof host, cudaMemcpyHostToDevice, NULL);
        CALL(cudaLaunchKernel, 0, (void *)main, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL);
        CALL(cudaStreamSynchronize, 0, NULL);
        CALL(cudaMemcpy, sizeof host, host, device, sizeof host, cudaMemcpyDeviceToHost);
        CALL(cudaFree, 0, device);
    }
    report_note("\"cudaMalloc_result\":%d", result);
    report_print();
    return 0;
}

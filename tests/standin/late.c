/* standin-late N DIRECTORY [PAUSE_MS]: starts without any CUDA library, sleeps, loads DIRECTORY/libcudart.so.13 by path, and runs
 * the loop of `standin loop N`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "report.h"

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "standin-late: %s\n", dlerror());
        exit(98);
    }
    return found;
}
#define FIND(name) __typeof__(&name) p_##name = (__typeof__(&name))find(#name)

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: standin-late N DIRECTORY [PAUSE_MS]\n");
        return 2;
    }
    struct process_report *mine = report_open("dlopen", "main");
    long pause_ms = argc > 3 ? atol(argv[3]) : 300;
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);

    char path[4096];
    snprintf(path, sizeof path, "%s/libcudart.so.13", argv[2]);
    if (!(library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "standin-late: %s\n", dlerror());
        return 98;
    }
    FIND(standin_use_counts);
    FIND(cudaMalloc);
    FIND(cudaMemcpyAsync);
    FIND(cudaLaunchKernel);
    FIND(cudaStreamSynchronize);
    FIND(cudaMemcpy);
    FIND(cudaFree);
    nanosleep(&pause, NULL); /* a recorder attaches to a new mapping within this time, or misses calls */
    p_standin_use_counts(mine->counts);
    char host[4096] = {0};
    for (long i = 0; i < atol(argv[1]); i++) {
        void *device = NULL;
        p_cudaMalloc(&device, sizeof host);
        p_cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, NULL);
        p_cudaLaunchKernel((void *)main, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL);
        p_cudaStreamSynchronize(NULL);
        p_cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
        p_cudaFree(device);
    }
    report_print();
    return 0;
}

/* A program with known CUDA calls: `standin MODE [NUMBER...]`, see `usage` below. It ends with one line of JSON that says exactly
 * what was called, by which process. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

static const char usage[] =
    "usage: standin [wait] MODE [NUMBER...]\n"
    "  wait MODE        says {\"ready\":PID,...}, reads a line from standard input, then does MODE\n"
    "  loop N           N times malloc, copy in, launch, wait, copy out, free\n"
    "  every N          each exported function N times\n"
    "  nested N         N times a launch within a launch within a launch (five deep), and a copy within a wait\n"
    "  args             calls with distinctive arguments, listed in the report\n"
    "  errors N         calls that fail: invalid value, direction and device, out of memory, illegal address\n"
    "  forked W N       W forked workers and their parent do `loop N` at once\n"
    "  prefork W N      the same, and the workers exist before `wait` says ready\n"
    "  forkthread N     a helper thread forks the child that does `loop N`\n"
    "  threads T N      T threads do `loop N` at once\n"
    "  names N          one thread and the process change their names between two times `loop N`\n"
    "  mainexit N       the main thread exits first, another one does `loop N` afterwards\n"
    "  exec N           `loop N`, executes itself, `loop N`\n"
    "  dlopen N         executes standin-late: the library comes late, by path\n"
    "  seccomp N        `loop N` under a filter that kills at every system call which the loop does not need\n"
    "  die N            N threads end inside a call, by pthread_exit and by a bare exit; then N good calls\n"
    "  longjmp N        N times out of a call by longjmp, once from two calls deep, each followed by a good one\n"
    "  exitcode C       one call, then exit status C\n"
    "  signal S         one call, then dies of signal S\n"
    "  forever          a call each millisecond until SIGINT or SIGTERM\n"
    "  contention S [W] [H]  S seconds: the main process waits for batches of W workers before each launch; they share one CPU with\n"
    "                   H busy processes\n"
    "  busy N           N launches, 20 ms of the main thread's own work before each: a loader without workers\n"
    "  healthy N        N launches back to back, a wait after each\n"
    "  sleeper N        N launches, 50 ms of sleep on purpose before each\n";

static struct process_report *mine;
static int waiting; /* `wait` was given and has not happened yet */

static void die_of(const char *what) {
    fprintf(stderr, "standin: %s: %s\n", what, strerror(errno));
    _exit(97);
}

static void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) {}
}
static long long now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
/* CPU time of this thread, not wall time: work takes longer when others take the CPU. */
static void work_ms(long ms) {
    long long end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000LL;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}
static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
static int last_cpu(void) {
    cpu_set_t set;
    int last = 0;
    if (!sched_getaffinity(0, sizeof set, &set))
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set)) last = i;
    return last;
}

static void ready(const char *more) {
    if (!waiting) return;
    waiting = 0;
    printf("{\"ready\":%d%s}\n", getpid(), more);
    fflush(stdout);
    int c;
    while ((c = getchar()) != EOF && c != '\n') {}
}

static pid_t fork_as(const char *role) {
    pid_t pid = fork();
    if (pid < 0) die_of("fork");
    if (pid == 0) {
        mine = report_claim(role);
        standin_use_counts(mine->counts);
    }
    return pid;
}

static void reap(int count) {
    while (count-- > 0) {
        int status;
        if (wait(&status) < 0) die_of("wait");
    }
}

static void kernel(void) {}
#define KERNEL ((const void *)kernel)
#define GRID ((dim3){4, 2, 1})
#define BLOCK ((dim3){64, 2, 1})

static void loop(long n) {
    static char host[4096];
    for (long i = 0; i < n; i++) {
        void *device = NULL;
        cudaMalloc(&device, sizeof host);
        cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, NULL);
        cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
        cudaStreamSynchronize(NULL);
        cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
        cudaFree(device);
    }
}
static void *loop_thread(void *n) {
    loop((long)n);
    return NULL;
}

/* ---- every function ---- */
static void every(void) {
    static char host[256];
    void *h = host, *d = (void *)0x7f5900000000, *out = NULL;
    CUdeviceptr cd = 0x7f5900000000, cout = 0;
    cudaStream_t s = (cudaStream_t)0x51, s2 = NULL;
    cudaEvent_t e = (cudaEvent_t)0xe1, e2 = NULL;
    CUgraphExec g = (CUgraphExec)0x61;
    CUfunction f = (CUfunction)kernel;
    cudaLaunchConfig_t rc = {GRID, BLOCK, 0, s, NULL, 0};
    CUlaunchConfig dc = {4, 2, 1, 64, 2, 1, 0, s, NULL, 0};
    int device;

    cuLaunchKernel(f, 4, 2, 1, 64, 2, 1, 0, s, NULL, NULL);
    cuLaunchKernel_ptsz(f, 4, 2, 1, 64, 2, 1, 0, s, NULL, NULL);
    cuLaunchKernelEx(&dc, f, NULL, NULL);
    cuLaunchKernelEx_ptsz(&dc, f, NULL, NULL);
    cuLaunchCooperativeKernel(f, 4, 2, 1, 64, 2, 1, 0, s, NULL);
    cuLaunchCooperativeKernel_ptsz(f, 4, 2, 1, 64, 2, 1, 0, s, NULL);
    cuGraphLaunch(g, s);
    cuGraphLaunch_ptsz(g, s);
    cuMemcpy(cd, cd, 256);
    cuMemcpy_ptds(cd, cd, 256);
    cuMemcpyAsync(cd, cd, 256, s);
    cuMemcpyAsync_ptsz(cd, cd, 256, s);
    cuMemcpyHtoD_v2(cd, h, 256);
    cuMemcpyHtoD_v2_ptds(cd, h, 256);
    cuMemcpyDtoH_v2(h, cd, 256);
    cuMemcpyDtoH_v2_ptds(h, cd, 256);
    cuMemcpyDtoD_v2(cd, cd, 256);
    cuMemcpyDtoD_v2_ptds(cd, cd, 256);
    cuMemcpyHtoDAsync_v2(cd, h, 256, s);
    cuMemcpyHtoDAsync_v2_ptsz(cd, h, 256, s);
    cuMemcpyDtoHAsync_v2(h, cd, 256, s);
    cuMemcpyDtoHAsync_v2_ptsz(h, cd, 256, s);
    cuMemcpyDtoDAsync_v2(cd, cd, 256, s);
    cuMemcpyDtoDAsync_v2_ptsz(cd, cd, 256, s);
    cuMemsetD8_v2(cd, 1, 256);
    cuMemsetD8_v2_ptds(cd, 1, 256);
    cuMemsetD32_v2(cd, 1, 64);
    cuMemsetD8Async(cd, 1, 256, s);
    cuMemsetD8Async_ptsz(cd, 1, 256, s);
    cuMemAlloc_v2(&cout, 256);
    cuMemFree_v2(cout);
    cuMemAllocAsync(&cout, 256, s);
    cuMemFreeAsync(cout, s);
    cuMemAllocAsync_ptsz(&cout, 256, s);
    cuMemFreeAsync_ptsz(cout, s);
    cuMemAllocManaged(&cout, 256, 1);
    cuMemHostAlloc(&out, 256, 0);
    cuMemAllocHost_v2(&out, 256);
    cuMemFreeHost(out);
    cuCtxSynchronize();
    cuStreamSynchronize(s);
    cuStreamSynchronize_ptsz(s);
    cuEventSynchronize(e);
    cuEventRecord(e, s);
    cuEventRecord_ptsz(e, s);
    cuStreamWaitEvent(s, e, 0);
    cuStreamWaitEvent_ptsz(s, e, 0);

    cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, s);
    cudaLaunchKernel_ptsz(KERNEL, GRID, BLOCK, NULL, 0, s);
    cudaLaunchKernelExC(&rc, KERNEL, NULL);
    cudaLaunchKernelExC_ptsz(&rc, KERNEL, NULL);
    cudaLaunchCooperativeKernel(KERNEL, GRID, BLOCK, NULL, 0, s);
    cudaLaunchCooperativeKernel_ptsz(KERNEL, GRID, BLOCK, NULL, 0, s);
    cudaGraphLaunch(g, s);
    cudaGraphLaunch_ptsz(g, s);
    cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice);
    cudaMemcpy_ptds(d, h, 256, cudaMemcpyHostToDevice);
    cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s);
    cudaMemcpyAsync_ptsz(d, h, 256, cudaMemcpyHostToDevice, s);
    cudaMemcpy2D(d, 64, h, 64, 32, 4, cudaMemcpyHostToDevice);
    cudaMemcpy2D_ptds(d, 64, h, 64, 32, 4, cudaMemcpyHostToDevice);
    cudaMemcpy2DAsync(d, 64, h, 64, 32, 4, cudaMemcpyHostToDevice, s);
    cudaMemcpy2DAsync_ptsz(d, 64, h, 64, 32, 4, cudaMemcpyHostToDevice, s);
    cudaMemcpyPeer(d, 1, d, 0, 256);
    cudaMemcpyPeerAsync(d, 1, d, 0, 256, s);
    cudaMemcpyToSymbol(d, h, 256, 0, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol_ptds(d, h, 256, 0, cudaMemcpyHostToDevice);
    cudaMemset(d, 1, 256);
    cudaMemset_ptds(d, 1, 256);
    cudaMemsetAsync(d, 1, 256, s);
    cudaMemsetAsync_ptsz(d, 1, 256, s);
    cudaMalloc(&out, 256);
    cudaFree(out);
    cudaMallocAsync(&out, 256, s);
    cudaFreeAsync(out, s);
    cudaMallocAsync_ptsz(&out, 256, s);
    cudaFreeAsync_ptsz(out, s);
    cudaMallocManaged(&out, 256, 1);
    cudaHostAlloc(&out, 256, 0);
    cudaMallocHost(&out, 256);
    cudaFreeHost(out);
    cudaDeviceSynchronize();
    cudaStreamSynchronize(s);
    cudaStreamSynchronize_ptsz(s);
    cudaEventSynchronize(e);
    cudaEventRecord(e, s);
    cudaEventRecord_ptsz(e, s);
    cudaStreamWaitEvent(s, e, 0);
    cudaStreamWaitEvent_ptsz(s, e, 0);
    cudaEventCreate(&e2);
    cudaStreamCreate(&s2);
    cudaGetDevice(&device);
    cudaSetDevice(1);
    cudaStreamQuery(s);
    cudaStreamQuery_ptsz(s);
    cudaEventQuery(e);
}

/* ---- exact arguments: each value occurs once in a recording ---- */
static void args(void) {
    void *d = (void *)0x7f5912340000, *h = (void *)0x7e1156780000, *out = NULL;
    cudaStream_t s = (cudaStream_t)0xabc10;
    cudaEvent_t e = (cudaEvent_t)0xabc20;
    CUdeviceptr cout = 0;
    CUfunction f = (CUfunction)0xabc30;
    cudaLaunchConfig_t rc = {{19, 23, 29}, {31, 37, 2}, 4321, s, NULL, 0};
    CUlaunchConfig dc = {41, 43, 47, 53, 3, 2, 5432, s, NULL, 0};
    const char *sep = "\"args\":[";
#define SAY(format, ...) (report_note("%s" format, sep, __VA_ARGS__), sep = "")
#define L(p) ((unsigned long long)(uintptr_t)(p))
    cudaMalloc(&out, 100001);
    SAY("{\"symbol\":\"cudaMalloc\",\"bytes\":100001,\"out\":%llu}", L(out));
    cudaMallocAsync(&out, 100003, s);
    SAY("{\"symbol\":\"cudaMallocAsync\",\"bytes\":100003,\"stream\":%llu,\"out\":%llu}", L(s), L(out));
    cudaMallocManaged(&out, 100005, 1);
    SAY("{\"symbol\":\"cudaMallocManaged\",\"bytes\":100005,\"flags\":1,\"out\":%llu}", L(out));
    cudaHostAlloc(&out, 100007, 2);
    SAY("{\"symbol\":\"cudaHostAlloc\",\"bytes\":100007,\"flags\":2,\"out\":%llu}", L(out));
    cudaFree(d);
    SAY("{\"symbol\":\"cudaFree\",\"ptr\":%llu}", L(d));
    cudaMemcpy(d, h, 200001, cudaMemcpyHostToDevice);
    SAY("{\"symbol\":\"cudaMemcpy\",\"dst\":%llu,\"src\":%llu,\"bytes\":200001,\"kind\":1}", L(d), L(h));
    cudaMemcpyAsync(h, d, 0x123456789, cudaMemcpyDeviceToHost, s);
    SAY("{\"symbol\":\"cudaMemcpyAsync\",\"dst\":%llu,\"src\":%llu,\"bytes\":%llu,\"kind\":2,\"stream\":%llu}", L(h), L(d), 0x123456789ULL,
        L(s));
    cudaMemcpyAsync_ptsz(d, d, 200005, cudaMemcpyDeviceToDevice, s);
    SAY("{\"symbol\":\"cudaMemcpyAsync_ptsz\",\"dst\":%llu,\"src\":%llu,\"bytes\":200005,\"kind\":3,\"stream\":%llu}", L(d), L(d), L(s));
    cudaMemcpy2DAsync(d, 4096, h, 2048, 1001, 7, cudaMemcpyHostToDevice, s);
    SAY("{\"symbol\":\"cudaMemcpy2DAsync\",\"dst\":%llu,\"src\":%llu,\"bytes\":%llu,\"kind\":1,\"stream\":%llu}", L(d), L(h), 7007ULL, L(s));
    cudaMemcpyPeer(d, 1, h, 0, 200009);
    SAY("{\"symbol\":\"cudaMemcpyPeer\",\"dst\":%llu,\"src\":%llu,\"bytes\":200009}", L(d), L(h));
    cudaMemcpyToSymbol(d, h, 200011, 64, cudaMemcpyHostToDevice);
    SAY("{\"symbol\":\"cudaMemcpyToSymbol\",\"dst\":%llu,\"src\":%llu,\"bytes\":200011,\"kind\":1}", L(d), L(h));
    cudaMemset(d, 0x5a, 300001);
    SAY("{\"symbol\":\"cudaMemset\",\"dst\":%llu,\"value\":90,\"bytes\":300001}", L(d));
    cudaMemsetAsync(d, 0x5b, 300003, s);
    SAY("{\"symbol\":\"cudaMemsetAsync\",\"dst\":%llu,\"value\":91,\"bytes\":300003,\"stream\":%llu}", L(d), L(s));
    cudaLaunchKernel(f, (dim3){3, 5, 7}, (dim3){11, 13, 2}, NULL, 1234, s);
    SAY("{\"symbol\":\"cudaLaunchKernel\",\"function\":%llu,\"grid\":[3,5,7],\"block\":[11,13,2],\"shared\":1234,\"stream\":%llu}", L(f),
        L(s));
    cudaLaunchKernelExC(&rc, f, NULL);
    SAY("{\"symbol\":\"cudaLaunchKernelExC\",\"function\":%llu,\"grid\":[19,23,29],\"block\":[31,37,2],\"shared\":4321,\"stream\":%llu}",
        L(f), L(s));
    cuLaunchKernelEx(&dc, f, NULL, NULL);
    SAY("{\"symbol\":\"cuLaunchKernelEx\",\"function\":%llu,\"grid\":[41,43,47],\"block\":[53,3,2],\"shared\":5432,\"stream\":%llu}", L(f),
        L(s));
    cuLaunchKernel(f, 59, 61, 67, 71, 5, 2, 6543, s, NULL, NULL);
    SAY("{\"symbol\":\"cuLaunchKernel\",\"function\":%llu,\"grid\":[59,61,67],\"block\":[71,5,2],\"shared\":6543,\"stream\":%llu}", L(f),
        L(s));
    cudaStreamSynchronize(s);
    SAY("{\"symbol\":\"cudaStreamSynchronize\",\"stream\":%llu}", L(s));
    cudaEventSynchronize(e);
    SAY("{\"symbol\":\"cudaEventSynchronize\",\"event\":%llu}", L(e));
    cudaEventRecord(e, s);
    SAY("{\"symbol\":\"cudaEventRecord\",\"event\":%llu,\"stream\":%llu}", L(e), L(s));
    cudaStreamWaitEvent(s, e, 0);
    SAY("{\"symbol\":\"cudaStreamWaitEvent\",\"stream\":%llu,\"event\":%llu,\"flags\":0}", L(s), L(e));
    cuMemcpyDtoHAsync_v2(h, (CUdeviceptr)d, 400001, s);
    SAY("{\"symbol\":\"cuMemcpyDtoHAsync_v2\",\"dst\":%llu,\"src\":%llu,\"bytes\":400001,\"stream\":%llu}", L(h), L(d), L(s));
    cuMemsetD32_v2((CUdeviceptr)d, 0xfeedbeef, 1000);
    SAY("{\"symbol\":\"cuMemsetD32_v2\",\"dst\":%llu,\"value\":%llu,\"bytes\":4000}", L(d), 0xfeedbeefULL);
    cuMemAlloc_v2(&cout, 400003);
    SAY("{\"symbol\":\"cuMemAlloc_v2\",\"bytes\":400003,\"out\":%llu}]", (unsigned long long)cout);
}

static void errors(long n) {
    for (long i = 0; i < n; i++) {
        void *out = NULL;
        cudaMalloc(NULL, 64);                                                          /* 1, by the driver */
        cudaMalloc(&out, STANDIN_TOO_LARGE);                                           /* 2, by the driver */
        cudaMemcpy((void *)64, (void *)64, 64, (enum cudaMemcpyKind)99);               /* 21, without the driver */
        cudaSetDevice(99);                                                             /* 101 */
        cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, STANDIN_BAD_STREAM);            /* 700, by the driver */
        cudaStreamSynchronize(STANDIN_BAD_STREAM);                                     /* 700, by the driver */
        cudaMalloc(&out, 64);                                                          /* 0 */
    }
    report_note("\"results\":{\"cudaMalloc\":[1,2,0],\"cudaMemcpy\":[21],\"cudaSetDevice\":[101],\"cudaLaunchKernel\":[700],"
                "\"cudaStreamSynchronize\":[700]}");
}

/* ---- calls inside calls, calls that never return ---- */
#define DEPTH 5
static __thread int depth;
static void launch_again(enum standin_id id) {
    if (id == ID_cudaLaunchKernel && ++depth < DEPTH) cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
}
static void copy_inside_wait(enum standin_id id) {
    static char host[64];
    if (id == ID_cuStreamSynchronize) cudaMemcpy((void *)64, host, sizeof host, cudaMemcpyHostToDevice);
}
static void nested(long n) {
    for (long i = 0; i < n; i++) {
        depth = 0;
        standin_set_hook(launch_again);
        cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
        standin_set_hook(copy_inside_wait);
        cudaStreamSynchronize(NULL);
    }
    standin_set_hook(NULL);
    report_note("\"depth\":%d", DEPTH);
}

/* As browsers' and containers' sandboxes do: some kernels' return probes use a system call that such a filter does not know. */
static void allow_little(void) {
    static const int allowed[] = {SYS_read,   SYS_write,  SYS_exit,          SYS_exit_group, SYS_nanosleep, SYS_clock_nanosleep,
                                  SYS_brk,    SYS_mmap,   SYS_munmap,        SYS_getpid,     SYS_fstat,     SYS_newfstatat,
                                  SYS_madvise, SYS_ioctl, SYS_clock_gettime, SYS_futex,      SYS_mprotect,  SYS_rt_sigreturn};
    enum { ALLOWED = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[2 * ALLOWED + 2];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < ALLOWED; i++) {
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)at, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) die_of("seccomp");
}

static void exit_thread(enum standin_id id) {
    if (id == ID_cuStreamSynchronize) pthread_exit(NULL);
}
static void exit_thread_bare(enum standin_id id) {
    if (id == ID_cuStreamSynchronize) syscall(SYS_exit, 0);
}
static void *dying_thread(void *hook) {
    standin_set_hook((void (*)(enum standin_id))hook);
    cudaStreamSynchronize(NULL);
    return NULL;
}
static void die(long n) {
    for (long i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, dying_thread, i % 2 ? (void *)exit_thread_bare : (void *)exit_thread)) die_of("thread");
        pthread_join(thread, NULL);
    }
    for (long i = 0; i < n; i++) cudaStreamSynchronize(NULL);
}

static jmp_buf way_out;
static enum standin_id leave_at;
static void jump_out(enum standin_id id) {
    if (id == leave_at) longjmp(way_out, 1);
}
static void jump(enum standin_id from) {
    leave_at = from;
    standin_set_hook(jump_out);
    if (!setjmp(way_out)) cudaStreamSynchronize(NULL);
    standin_set_hook(NULL);
}
static void jumps(long n) {
    for (long i = 0; i < n; i++) {
        jump(ID_cudaStreamSynchronize);
        cudaStreamSynchronize(NULL);
    }
    jump(ID_cuStreamSynchronize);
    cudaStreamSynchronize(NULL);
}

/* ---- processes and threads ---- */
static void forked(int workers, long n, int before) {
    int gate[2];
    if (pipe(gate)) die_of("pipe");
    char pids[4096] = ",\"workers\":[";
    if (!before) ready("");
    for (int i = 0; i < workers; i++) {
        pid_t pid = fork_as("worker");
        if (pid == 0) {
            char c;
            close(gate[1]);
            if (read(gate[0], &c, 1) < 0) die_of("read");
            loop(n);
            _exit(0);
        }
        sprintf(pids + strlen(pids), "%s%d", i ? "," : "", pid);
    }
    strcat(pids, "]");
    if (before) ready(pids);
    close(gate[0]);
    close(gate[1]); /* off they go */
    loop(n);
    reap(workers);
}

static void *forking_thread(void *n) {
    pthread_setname_np(pthread_self(), "forker");
    pid_t pid = fork_as("child of a helper thread");
    if (pid == 0) {
        loop((long)n);
        _exit(0);
    }
    reap(1);
    return NULL;
}

static void *named_thread(void *n) {
    pthread_setname_np(pthread_self(), "first name");
    loop((long)n);
    sleep_ms(20);
    pthread_setname_np(pthread_self(), "a\"b\\c\n\x01 d");
    loop((long)n);
    sleep_ms(20);
    return NULL;
}
static void run_thread(void *(*body)(void *), long n) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, (void *)n)) die_of("thread");
    pthread_join(thread, NULL);
}

static void *outliving_thread(void *n) {
    sleep_ms(100); /* the main thread is gone by now */
    loop((long)n);
    report_print();
    fflush(stdout);
    _exit(0);
}

static volatile sig_atomic_t stop;
static void on_signal(int number) {
    (void)number;
    stop = 1;
}

/* ---- ways to feed a GPU ---- */
static void contention(double seconds, int workers, int hogs) {
    int cpu = last_cpu(), ask[2], batch[2];
    pid_t pids[64];
    int children = 0;
    if (pipe(ask) || pipe(batch)) die_of("pipe");
    if (workers + hogs > 64) hogs = 64 - workers;
    for (int i = 0; i < hogs; i++)
        if ((pids[children++] = fork_as("hog")) == 0) {
            prctl(PR_SET_NAME, "hog");
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pin(cpu);
            for (;;) {}
        }
    for (int i = 0; i < workers; i++)
        if ((pids[children++] = fork_as("worker")) == 0) {
            char c;
            prctl(PR_SET_NAME, "worker");
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ask[1]);
            pin(cpu);
            while (read(ask[0], &c, 1) == 1) {
                work_ms(4);
                if (write(batch[1], &c, 1) != 1) break;
            }
            _exit(0);
        }
    if (cpu > 0) pin(0);
    static char host[4096];
    long batches = 0;
    char c = 'b';
    for (int i = 0; i < workers; i++)
        if (write(ask[1], &c, 1) != 1) die_of("write");
    long long end = now_ns(CLOCK_MONOTONIC) + (long long)(seconds * 1e9);
    while (now_ns(CLOCK_MONOTONIC) < end) {
        if (read(batch[0], &c, 1) != 1) die_of("read");
        if (write(ask[1], &c, 1) != 1) die_of("write");
        cudaMemcpyAsync((void *)64, host, sizeof host, cudaMemcpyHostToDevice, NULL);
        cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
        cudaStreamSynchronize(NULL);
        batches++;
    }
    for (int i = 0; i < children; i++) kill(pids[i], SIGKILL);
    reap(children);
    report_note("\"batches\":%ld,\"cpu\":%d", batches, cpu);
}

int main(int argc, char **argv) {
    int at = 1;
    if (at < argc && !strcmp(argv[at], "wait")) waiting = 1, at++;
    if (at >= argc) return fputs(usage, stderr), 2;
    const char *mode = argv[at++];
    long a = at < argc ? atol(argv[at]) : 1, b = at + 1 < argc ? atol(argv[at + 1]) : 1, c = at + 2 < argc ? atol(argv[at + 2]) : -1;
    int status = 0;
#define MODE(name) (!strcmp(mode, name))

    mine = report_open(mode, "main");
    standin_use_counts(mine->counts);
    if (MODE("prefork")) forked((int)a, b, 1);
    else if (MODE("forked")) forked((int)a, b, 0);
    else {
        ready("");
        if (MODE("loop")) loop(a);
        else if (MODE("every")) for (long i = 0; i < a; i++) every();
        else if (MODE("nested")) nested(a);
        else if (MODE("args")) args();
        else if (MODE("errors")) errors(a);
        else if (MODE("forkthread")) run_thread(forking_thread, a);
        else if (MODE("threads")) {
            pthread_t threads[256];
            long count = a < 256 ? a : 256;
            for (long i = 0; i < count; i++)
                if (pthread_create(&threads[i], NULL, loop_thread, (void *)b)) die_of("thread");
            for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
        } else if (MODE("names")) {
            prctl(PR_SET_NAME, "before");
            run_thread(named_thread, a);
            prctl(PR_SET_NAME, "after");
            loop(a);
        } else if (MODE("mainexit")) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, outliving_thread, (void *)a)) die_of("thread");
            pthread_exit(NULL);
        } else if (MODE("exec")) {
            loop(a);
            char *again[] = {argv[0], "executed", argv[at], NULL};
            execv("/proc/self/exe", at < argc ? again : (char *[]){argv[0], "executed", "1", NULL});
            die_of("exec");
        } else if (MODE("executed")) loop(a);
        else if (MODE("dlopen")) {
            char self[4096], path[4200], runtime[4200], count[32];
            ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
            if (bytes < 0) die_of("readlink");
            self[bytes] = 0;
            *strrchr(self, '/') = 0;
            snprintf(path, sizeof path, "%s/standin-late", self);
            snprintf(runtime, sizeof runtime, "%s/libcudart.so.13", self);
            snprintf(count, sizeof count, "%ld", a);
            execl(path, path, count, runtime, (char *)NULL);
            die_of(path);
        } else if (MODE("seccomp")) allow_little(), loop(a);
        else if (MODE("die")) die(a);
        else if (MODE("longjmp")) jumps(a);
        else if (MODE("exitcode")) cudaDeviceSynchronize(), status = (int)a;
        else if (MODE("signal")) {
            cudaDeviceSynchronize();
            report_print();
            signal((int)a, SIG_DFL);
            raise((int)a);
        } else if (MODE("forever")) {
            signal(SIGINT, on_signal);
            signal(SIGTERM, on_signal);
            while (!stop) cudaStreamSynchronize(NULL), sleep_ms(1);
        } else if (MODE("contention")) {
            contention(at < argc ? atof(argv[at]) : 2, at + 1 < argc ? (int)b : 2, c < 0 ? 3 : (int)c);
        } else if (MODE("busy")) {
            for (long i = 0; i < a; i++) work_ms(20), cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
            cudaDeviceSynchronize();
        } else if (MODE("healthy")) {
            for (long i = 0; i < a; i++) cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL), cudaStreamSynchronize(NULL);
        } else if (MODE("sleeper")) {
            for (long i = 0; i < a; i++) sleep_ms(50), cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
            cudaDeviceSynchronize();
        } else return fprintf(stderr, "standin: unknown mode %s\n", mode), fputs(usage, stderr), 2;
    }
    report_print();
    return status;
}

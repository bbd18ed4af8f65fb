/* Runs with one known cause of lost time each: `standin-scenes SCENE [FILE]`, about a second long. Ends with the report of
 * the stand-in. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

static const long LENGTH_MS = 1200;

static void die_of(const char *what) {
    fprintf(stderr, "standin-scenes: %s: %s\n", what, strerror(errno));
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
/* CPU time of this thread: work takes longer when others take the CPU. */
static void work_us(long us) {
    long long end = now_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000LL;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}
static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void kernel(void) {}
static void launch(void) { cudaLaunchKernel((const void *)kernel, (dim3){4, 2, 1}, (dim3){64, 2, 1}, NULL, 0, NULL); }

static const char *path;
static long long deadline;
static int goes_on(void) { return now_ns(CLOCK_MONOTONIC) < deadline; }

static pid_t children[64];
static int child_count;
/* A child that `role` runs in; its name is the role. */
static int child(const char *role) {
    pid_t pid = fork();
    if (pid < 0) die_of("fork");
    if (pid) return children[child_count++] = pid, 0;
    prctl(PR_SET_NAME, role);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 1;
}
static void end_children(void) {
    for (int i = 0; i < child_count; i++) kill(children[i], SIGKILL);
    for (int i = 0; i < child_count; i++) waitpid(children[i], NULL, 0);
}

static int ask[2], batch[2];
static void hogs(int count, int cpu) {
    for (int i = 0; i < count; i++)
        if (child("hog")) {
            if (cpu >= 0) pin(cpu);
            for (;;) {}
        }
}
/* Workers that do `work` for each batch that is asked for. */
static void workers(int count, void (*work)(void), int cpu) {
    if (pipe(ask) || pipe(batch)) die_of("pipe");
    for (int i = 0; i < count; i++)
        if (child("worker")) {
            char c;
            if (cpu >= 0) pin(cpu);
            close(ask[1]);
            while (read(ask[0], &c, 1) == 1) {
                work();
                if (write(batch[1], &c, 1) != 1) break;
            }
            _exit(0);
        }
    for (int i = 0; i < count; i++)
        if (write(ask[1], "b", 1) != 1) die_of("write");
}
static void feed_from_workers(void) {
    char c;
    while (goes_on()) {
        if (read(batch[0], &c, 1) != 1 || write(ask[1], &c, 1) != 1) die_of("pipe");
        launch();
        cudaStreamSynchronize(NULL);
    }
}
/* Asks all of them at once and waits for all. */
static void feed_from_all(int count) {
    char c;
    while (goes_on()) {
        for (int i = 0; i < count; i++)
            if (read(batch[0], &c, 1) != 1) die_of("read");
        for (int i = 0; i < count; i++)
            if (write(ask[1], "b", 1) != 1) die_of("write");
        launch();
    }
}
/* Looks each 10 ms whether there is something else to do, as loaders look after their workers. */
static void feed_with_looks(void) {
    char c;
    while (goes_on()) {
        struct pollfd wait = {.fd = batch[0], .events = POLLIN};
        while (poll(&wait, 1, 10) == 0) {}
        if (read(batch[0], &c, 1) != 1 || write(ask[1], &c, 1) != 1) die_of("pipe");
        launch();
    }
}
static void compute(void) { work_us(4000); }
/* Ends between two looks, not with one. */
static void compute_longer(void) { work_us(65000); }
static void compute_long(void) { work_us(12000); }
static void nap(void) { sleep_ms(8); }

/* ---- data in pieces ---- */
static void pieces(void) {
    enum { PIECE = 4096, BATCH = 2 << 20 };
    static char data[PIECE];
    int data_pipe[2];
    if (pipe(data_pipe)) die_of("pipe");
    fcntl(data_pipe[1], F_SETPIPE_SZ, PIECE);
    if (child("worker"))
        for (;;)
            if (write(data_pipe[1], data, PIECE) < 0) _exit(0);
    while (goes_on()) {
        for (long got = 0; got < BATCH;) {
            ssize_t n = read(data_pipe[0], data, PIECE);
            if (n <= 0) die_of("read");
            got += n;
        }
        launch();
    }
}

/* ---- threads of the process itself ---- */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int wanted, made, held, drop;
static void *pin_memory(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "pin_memory");
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!wanted) pthread_cond_wait(&changed, &mutex);
        wanted = 0;
        pthread_mutex_unlock(&mutex);
        work_us(6000);
        pthread_mutex_lock(&mutex);
        made = 1;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}
static void start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) die_of("thread");
}
static void pin_thread(void) {
    start(pin_memory);
    while (goes_on()) {
        pthread_mutex_lock(&mutex);
        wanted = 1;
        pthread_cond_broadcast(&changed);
        while (!made) pthread_cond_wait(&changed, &mutex);
        made = 0;
        pthread_mutex_unlock(&mutex);
        launch();
    }
}
/* The lock of an interpreter: who wants it waits 5 ms, then asks the holder to let go. */
static void take_lock(void) {
    pthread_mutex_lock(&mutex);
    while (held) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        if (pthread_cond_timedwait(&changed, &mutex, &until) == ETIMEDOUT && held) drop = 1;
    }
    held = 1;
    pthread_mutex_unlock(&mutex);
}
static void give_lock(void) {
    pthread_mutex_lock(&mutex);
    held = 0;
    drop = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}
static int asked_to_drop(void) {
    pthread_mutex_lock(&mutex);
    int asked = drop;
    pthread_mutex_unlock(&mutex);
    return asked;
}
static void *interpreting(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "python");
    for (;;) {
        take_lock();
        while (!asked_to_drop()) work_us(50);
        give_lock();
        sched_yield();
        work_us(100);
    }
    return NULL;
}
static void lock(void) {
    start(interpreting);
    while (goes_on()) {
        take_lock();
        launch();
        give_lock();
        work_us(20);
    }
}

/* ---- the calls themselves ---- */
static void slow_allocation(enum standin_id id) {
    if (id == ID_cuMemAlloc_v2 || id == ID_cuMemFree_v2) work_us(500);
}
static void churn(void) {
    standin_set_hook(slow_allocation);
    while (goes_on()) {
        void *memory = NULL;
        cudaMalloc(&memory, 1 << 20);
        launch();
        cudaFree(memory);
    }
}

/* A step of many launches, and a cache that is emptied and filled again. */
static void cheap_allocation(enum standin_id id) {
    if (id == ID_cuMemAlloc_v2 || id == ID_cuMemFree_v2) work_us(100);
}
static void empty_cache(void) {
    enum { LAUNCHES = 100, BLOCKS = 5 };
    void *blocks[BLOCKS] = {0};
    standin_set_hook(cheap_allocation);
    while (goes_on()) {
        for (int i = 0; i < LAUNCHES; i++) launch();
        for (int i = 0; i < BLOCKS; i++) {
            if (blocks[i]) cudaFree(blocks[i]);
            cudaMalloc(&blocks[i], 1 << 20);
        }
    }
}
/* Copies of each size in turn, each at its own rate: `STANDIN_COPY_NS` says nothing here. */
static long copy_us;
static void copy_at_a_rate(enum standin_id id) {
    if (id == ID_cuMemcpyHtoDAsync_v2) work_us(copy_us);
}
static void sweep(void) {
    static char host[16 << 20];
    static const struct { long bytes, us; } sizes[] = {{64 << 10, 20}, {1 << 20, 150}, {4 << 20, 450}, {16 << 20, 1700}};
    standin_set_hook(copy_at_a_rate);
    for (int at = 0; goes_on(); at++) {
        copy_us = sizes[at % 4].us;
        cudaMemcpyAsync((void *)64, host, sizes[at % 4].bytes, cudaMemcpyHostToDevice, NULL);
        cudaStreamSynchronize(NULL);
    }
}

/* ---- sockets ---- */
static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
static int listening(int *port) {
    struct sockaddr_in at = loopback(*port);
    socklen_t len = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4)) die_of("listen");
    getsockname(fd, (struct sockaddr *)&at, &len);
    *port = ntohs(at.sin_port);
    return fd;
}
static int connected(int port) {
    struct sockaddr_in to = loopback(port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die_of("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}
/* Answers each byte with one, after `us` of work. */
static void serve(int listener, long us) {
    int one = 1, fd = accept(listener, NULL, NULL);
    char c;
    if (fd < 0) die_of("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
    while (recv(fd, &c, 1, 0) == 1) {
        work_us(us);
        if (send(fd, &c, 1, MSG_NOSIGNAL) != 1) break;
    }
    _exit(0);
}
static void feed_from_server(int fd, int batches_at_least) {
    char c = 'b';
    for (int batches = 0; goes_on() || batches < batches_at_least; batches++) {
        if (send(fd, &c, 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1) die_of("server");
        launch();
    }
}
/* A third of what comes in is lost, by chance. */
static void lose_a_third(int fd) {
    int one = 1;
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)(SKF_AD_OFF + SKF_AD_RANDOM)},
        {BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x55555555u},
        {BPF_RET | BPF_K, 0, 0, 0xffffffffu},
        {BPF_RET | BPF_K, 0, 0, 0},
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    /* What is lost again and again is sent again each 200 ms, as is what is lost once. */
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) die_of("SO_ATTACH_FILTER");
}

/* ---- memory ---- */
static void eat_memory(void) {
    for (;;) {
        char *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) _exit(1);
        for (long i = 0; i < 1 << 20; i += 4096) more[i] = 1;
    }
}
static void feed_until_killed(void) {
    char c;
    int batches = 0;
    /* The group's limit is hit by the 20th batch. */
    if (pipe(ask) || pipe(batch)) die_of("pipe");
    if (child("worker")) {
        close(ask[1]);
        close(batch[0]);
        while (read(ask[0], &c, 1) == 1) {
            if (++batches == 20) eat_memory();
            work_us(4000);
            if (write(batch[1], &c, 1) != 1) break;
        }
        _exit(0);
    }
    close(batch[1]);
    while (write(ask[1], "b", 1) == 1 && read(batch[0], &c, 1) == 1) launch();
    sleep_ms(200);
    launch();
}
/* Pages of a file that is larger than what the group may have: each new one takes the place of another. */
static const long FILE_BYTES = 256L << 20;
static char *mapped_file(void) {
    int fd = open(path ? path : "", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, FILE_BYTES)) die_of("a file is needed");
    char *memory = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) die_of("mmap");
    madvise(memory, FILE_BYTES, MADV_RANDOM);
    return memory;
}
static void touch_file(const char *memory) {
    static long at;
    for (int i = 0; i < 2000; i++, at = (at + 4096) % FILE_BYTES) (void)*(volatile const char *)(memory + at);
}

/* ---- disk ---- */
static int file = -1;
static char *block;
enum { BLOCK_BYTES = 1 << 20, BLOCKS = 64 };
static void open_file(void) {
    if (!path) die_of("a file is needed");
    block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) die_of("mmap");
    memset(block, 'x', BLOCK_BYTES);
    file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (file < 0) die_of(path);
    for (int i = 0; i < BLOCKS; i++)
        if (pwrite(file, block, BLOCK_BYTES, (off_t)i * BLOCK_BYTES) != BLOCK_BYTES) die_of("pwrite");
    fsync(file);
}
static void from_disk(void) {
    static unsigned at;
    for (int i = 0; i < 8; i++)
        if (pread(file, block, BLOCK_BYTES, (off_t)(at++ * 7 % BLOCKS) * BLOCK_BYTES) < 0) die_of("pread");
}

static void fresh_pages(void) {
    enum { BYTES = 8 << 20 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die_of("mmap");
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    for (long i = 0; i < BYTES; i += 4096) memory[i] = 1;
    munmap(memory, BYTES);
}

int main(int argc, char **argv) {
    if (argc < 2) return fputs("usage: standin-scenes SCENE [FILE]\n", stderr), 2;
    const char *scene = argv[1];
    path = argc > 2 ? argv[2] : NULL;
    struct process_report *mine = report_open(scene, "main");
    standin_use_counts(mine->counts);
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
#define SCENE(name) (!strcmp(scene, name))
    if (SCENE("disk") || SCENE("worker-disk")) open_file();
    deadline = now_ns(CLOCK_MONOTONIC) + LENGTH_MS * 1000000LL;
    if (SCENE("healthy")) {
        while (goes_on()) launch(), cudaStreamSynchronize(NULL);
    } else if (SCENE("sleeper")) {
        while (goes_on()) sleep_ms(30), launch();
    } else if (SCENE("busy-main")) {
        while (goes_on()) work_us(10000), launch();
    } else if (SCENE("busy-workers")) workers(1, compute, -1), feed_from_workers();
    else if (SCENE("sleepy-worker")) workers(1, nap, -1), feed_from_workers();
    else if (SCENE("contention")) hogs(3 * cpus, -1), workers(1, compute, -1), feed_from_workers();
    else if (SCENE("main-contention")) {
        hogs(3 * cpus, -1);
        while (goes_on()) work_us(3000), launch();
    } else if (SCENE("affinity")) workers(6, compute, cpus - 1), feed_from_all(6);
    else if (SCENE("neighbours")) {
        hogs(2, cpus - 1);
        pin(cpus - 1);
        while (goes_on()) work_us(3000), launch();
    } else if (SCENE("looks")) workers(1, compute_longer, -1), feed_with_looks();
    else if (SCENE("server")) {
        /* It says its port, and serves one client. */
        int port = 0, listener = listening(&port);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "server");
        printf("%d\n", port);
        fflush(stdout);
        serve(listener, 5000);
    } else if (SCENE("client")) feed_from_server(connected(atoi(path ? path : "0")), 0);
    else if (SCENE("own-server")) {
        int port = 0, listener = listening(&port);
        if (child("worker")) serve(listener, 5000);
        feed_from_server(connected(port), 0);
    } else if (SCENE("lossy")) {
        int port = 0, listener = listening(&port), fd;
        if (child("worker")) serve(listener, 100);
        fd = connected(port);
        lose_a_third(fd);
        feed_from_server(fd, 6);
    } else if (SCENE("oom")) feed_until_killed();
    else if (SCENE("reclaim")) {
        const char *memory = mapped_file();
        while (goes_on()) touch_file(memory), launch();
    } else if (SCENE("empty-cache")) empty_cache();
    else if (SCENE("sweep")) sweep();
    else if (SCENE("own-workers")) workers(8 * cpus, compute_long, -1), feed_from_workers();
    else if (SCENE("pieces")) pieces();
    else if (SCENE("pin-thread")) pin_thread();
    else if (SCENE("lock")) lock();
    else if (SCENE("page-faults")) {
        while (goes_on()) fresh_pages(), launch();
    } else if (SCENE("churn")) churn();
    else if (SCENE("waits")) {
        while (goes_on()) launch(), cudaStreamSynchronize(NULL), work_us(300);
    } else if (SCENE("launches")) {
        while (goes_on()) {
            for (int i = 0; i < 200; i++) launch();
            cudaStreamSynchronize(NULL);
        }
    } else if (SCENE("copies")) {
        static char host[16 << 20];
        while (goes_on()) cudaMemcpy((void *)64, host, sizeof host, cudaMemcpyHostToDevice), launch();
    } else if (SCENE("disk")) {
        while (goes_on()) from_disk(), launch();
    } else if (SCENE("worker-disk")) workers(1, from_disk, -1), feed_from_workers();
    else return fprintf(stderr, "standin-scenes: unknown scene %s\n", scene), 2;
    end_children();
    report_print();
    fflush(stdout);
    _exit(0);
}

#define _GNU_SOURCE
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROCESSES 256
#define NOTE_BYTES (1 << 16)
#define FD_VARIABLE "STANDIN_REPORT_FD"

struct shared {
    int root_pid;
    unsigned processes;
    unsigned note_bytes;
    char mode[32];
    char notes[NOTE_BYTES];
    struct process_report process[PROCESSES];
};

static struct shared *shared;

#define NAME(name) #name,
static const char *const names[] = {STANDIN_SYMBOLS(NAME, NAME)};

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

struct process_report *report_claim(const char *role) {
    for (unsigned i = 0; i < shared->processes; i++) /* after an exec */
        if (shared->process[i].pid == getpid()) return &shared->process[i];
    unsigned i = __atomic_fetch_add(&shared->processes, 1, __ATOMIC_SEQ_CST);
    if (i >= PROCESSES) {
        fprintf(stderr, "standin: more than %d processes\n", PROCESSES);
        _exit(99);
    }
    struct process_report *mine = &shared->process[i];
    mine->pid = getpid();
    mine->parent_pid = getppid();
    snprintf(mine->role, sizeof mine->role, "%s", role);
    return mine;
}

struct process_report *report_open(const char *mode, const char *role) {
    const char *inherited = getenv(FD_VARIABLE);
    int fd = inherited ? atoi(inherited) : memfd_create("standin-report", 0);
    if (fd < 0 || (!inherited && ftruncate(fd, sizeof *shared))) fail("standin: report");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) fail("standin: report");
    if (!inherited) {
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        setenv(FD_VARIABLE, number, 1);
        shared->root_pid = getpid();
        snprintf(shared->mode, sizeof shared->mode, "%s", mode);
    }
    return report_claim(role);
}

void report_note(const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (bytes < 0 || (size_t)bytes >= sizeof text) fail("standin: note too long");
    unsigned at = __atomic_fetch_add(&shared->note_bytes, (unsigned)bytes + 1, __ATOMIC_SEQ_CST);
    if (at + (unsigned)bytes + 1 > NOTE_BYTES) fail("standin: too many notes");
    shared->notes[at] = ',';
    memcpy(&shared->notes[at + 1], text, (size_t)bytes);
}

static void print_map(const char *key, const struct process_report *process, uint64_t (*value)(const struct standin_count *)) {
    printf(",\"%s\":{", key);
    const char *comma = "";
    for (int id = 0; id < STANDIN_COUNT; id++) {
        uint64_t n = value(&process->counts[id]);
        if (!n) continue;
        printf("%s\"%s\":%llu", comma, names[id], (unsigned long long)n);
        comma = ",";
    }
    putchar('}');
}
static uint64_t calls(const struct standin_count *c) { return c->calls; }
static uint64_t unreturned(const struct standin_count *c) { return c->calls - c->returned; }
static uint64_t errors(const struct standin_count *c) { return c->errors; }
static uint64_t bytes(const struct standin_count *c) { return c->bytes; }

void report_print(void) {
    if (shared->root_pid != getpid()) return;
    printf("{\"mode\":\"%s\",\"pid\":%d%.*s,\"processes\":[", shared->mode, shared->root_pid, (int)shared->note_bytes, shared->notes);
    for (unsigned i = 0; i < shared->processes; i++) {
        const struct process_report *process = &shared->process[i];
        printf("%s{\"pid\":%d,\"parent_pid\":%d,\"role\":\"%s\"", i ? "," : "", process->pid, process->parent_pid, process->role);
        print_map("calls", process, calls);
        print_map("unreturned", process, unreturned);
        print_map("errors", process, errors);
        print_map("bytes", process, bytes);
        putchar('}');
    }
    printf("]}\n");
    fflush(stdout);
}

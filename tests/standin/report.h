/* What a stand-in program says about itself: exact counts of every process of its tree, as one line of JSON.
 *
 * The figures lie in memory shared by the whole tree (it survives fork, exec and every way to die); the process that opened it
 * prints it. */
#pragma once

#include "standin.h"

struct process_report {
    int pid, parent_pid;
    char role[32];
    struct standin_count counts[STANDIN_COUNT];
};

/* Opens the tree's report, or joins the one that an ancestor opened, and claims an entry for this process. */
struct process_report *report_open(const char *mode, const char *role);
/* To be called in each forked child. */
struct process_report *report_claim(const char *role);
/* Adds a member to the report's JSON, `"key":value`; any process of the tree may. */
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the report if this process opened it. */
void report_print(void);

/* Shared parts of the C driver: checks, clocks, threads and the table type of its sub-tests. */
#ifndef LOCKSWAP_DRIVER_H
#define LOCKSWAP_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* One row of a table; a row without a name ends it. Every sub-test runs in a process of its own. */
struct subtest {
    const char *name;
    void (*run)(void);
};

extern const struct subtest mutex_tests[], mutex_time_tests[], mutex_memory_tests[], cond_tests[], cond_time_tests[],
    rwlock_tests[], spin_tests[], c11_tests[], fork_tests[], cancel_tests[], lifecycle_tests[], pshared_tests[],
    special_tests[], realtime_tests[], stress_tests[], first_use_tests[], epoch_tests[], signal_tests[],
    limit_tests[];

/* Ends the process with status 1 after naming the sub-test, the place and the reason. */
_Noreturn void fail_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the process with status 0 after saying why the sub-test cannot run here. */
_Noreturn void skip(const char *why);
/* Adds a remark to the output, for what is allowed either way. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

void check_rc(const char *file, int line, const char *call, int got, int want);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_at(__FILE__, __LINE__, "%s", #condition);                                                             \
    } while (0)
#define RC(call, want) check_rc(__FILE__, __LINE__, #call, (call), (want))
#define OK(call) RC(call, 0)

#define SECOND 1000000000LL
#define MS 1000000LL
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

long long now_on(clockid_t clock);
struct timespec at_ns(long long ns);
/* The absolute time `ms` milliseconds from now; negative is in the past. */
struct timespec in_ms(clockid_t clock, long ms);
void nap_ms(long ms);
/* Long enough for a thread that is about to block to have blocked. */
void settle(void);
/* Waits, sleeping, until the flag is at least `value`. */
void await(atomic_int *flag, int value);

pthread_t spawn(void *(*body)(void *), void *argument);
void *join(pthread_t thread);
/* Runs the body in a new thread and returns its result as an int. */
int in_thread(int (*body)(void *), void *argument);

/* fork whose child has its own watchdog. */
pid_t fork_child(void);
/* The child must have ended with status 0. */
void wait_child(pid_t pid);
/* Memory shared with children. */
void *shared_memory(size_t bytes);
/* Pages of our own, to be unmapped while stale pointers would still be fatal. */
void *fresh_pages(size_t bytes);

uint64_t next_random(uint64_t *state);

struct kind {
    const char *name;
    int type;
};
extern const struct kind kinds[4];
#define FOR_EACH_KIND(k) for (const struct kind *k = kinds; k < kinds + COUNT_OF(kinds); k++)

void init_kind(pthread_mutex_t *mutex, int type);
/* What another thread's trylock says; a successful one is undone. */
int trylock_elsewhere(pthread_mutex_t *mutex);
int unlock_elsewhere(pthread_mutex_t *mutex);

/* Sends the thread a signal whose handler does nothing, thousands of times a second, until stopped. */
void storm_start(pthread_t target);
void storm_stop(void);

#endif

// How long it takes to interrupt another CPU that runs a thread of the same process, which is what a waiter of a lock
// whose release is a plain store does before it sleeps.
//
//   cc -O2 -pthread -o membarrier studies/interrupts/membarrier.c && ./membarrier
//
// Printed are quantiles, in ns, of 2,000 calls of membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED), 0.1 ms apart: first
// with no other thread, then with one that runs on another CPU all the time. About 1,000 ns is usual then; some ms mean
// that interrupts wait until that CPU stops for another reason, a tick of its clock at the latest.
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALLS 2000

static atomic_bool done;
static atomic_ulong turns;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int order(const void *one, const void *other) {
    long difference = *(const long *)one - *(const long *)other;
    return (difference > 0) - (difference < 0);
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("CPUs 0 and 1 are needed");
        exit(1);
    }
}

static void *run(void *nothing) {
    pin(1);
    while (!done) turns++;
    return nothing;
}

static void measure(const char *what) {
    static long took[CALLS];
    for (int call = 0; call < CALLS; call++) {
        long begin = now();
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)) {
            perror("membarrier");
            exit(1);
        }
        took[call] = now() - begin;
        usleep(100);
    }
    qsort(took, CALLS, sizeof *took, order);
    printf("%-20s 10 %%: %ld, median: %ld, 90 %%: %ld, 99 %%: %ld ns\n", what, took[CALLS / 10], took[CALLS / 2],
           took[CALLS * 9 / 10], took[CALLS * 99 / 100]);
}

int main(void) {
    pthread_t other;
    pin(0);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)) {
        perror("membarrier");
        return 1;
    }
    measure("no other thread");
    if (pthread_create(&other, NULL, run, NULL)) return 1;
    while (turns == 0) sched_yield();
    measure("another one runs");
    done = true;
    pthread_join(other, NULL);
}

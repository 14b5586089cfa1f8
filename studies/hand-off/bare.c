// What a hand-off between two CPUs costs at least: queue locks in bare C, inlined, next to glibc's mutex.
//
//   cc -O2 -pthread -o bare studies/hand-off/bare.c && ./bare [CPU CPU]
//
// Two threads, one on each CPU, acquire one lock over and over, and add to two words of one cache line inside. Every lock
// runs for 100 ms in each of 9 rounds, in turn; printed is the median of the ns for an acquisition, and how many times as
// fast as glibc's that is. A lock that serves in order hands itself to the other CPU at each release: nothing in it can be
// left out, so that no library can be faster than this by more than noise.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pause.h"

#define LINE _Alignas(128)
#define ROUNDS 9
#define ROUND_NS 100000000

typedef struct node {
    LINE _Atomic(struct node *) next;
    atomic_int waits;
} node;

static LINE _Atomic(node *) tail;
static LINE pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LINE struct { atomic_uint next, serving; } tickets;
static LINE atomic_int word;
static LINE struct { unsigned long one, two; } guarded;
static LINE atomic_bool stop;
static LINE atomic_ulong acquisitions;

static void glibc_lock(node *me) { (void)me; pthread_mutex_lock(&mutex); }
static void glibc_unlock(node *me) { (void)me; pthread_mutex_unlock(&mutex); }

// MCS, with the orders that it needs.
static inline void mcs_lock(node *me) {
    atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&me->waits, 1, memory_order_relaxed);
    node *before = atomic_exchange_explicit(&tail, me, memory_order_acq_rel);
    if (!before) return;
    atomic_store_explicit(&before->next, me, memory_order_release);
    while (atomic_load_explicit(&me->waits, memory_order_acquire)) pause_cpu();
}

static inline void mcs_unlock(node *me) {
    node *next = atomic_load_explicit(&me->next, memory_order_acquire);
    if (!next) {
        node *expected = me;
        if (atomic_compare_exchange_strong_explicit(&tail, &expected, NULL, memory_order_release, memory_order_relaxed)) return;
        while (!(next = atomic_load_explicit(&me->next, memory_order_acquire))) pause_cpu();
    }
    atomic_store_explicit(&next->waits, 0, memory_order_release);
}

// The K42 lock: a holder that has waited puts the node that stands for all holders in the place of its own.
static LINE struct { node *_Atomic tail; node holders; } k42;

static inline void k42_lock(node *me) {
    node *before = atomic_load_explicit(&k42.tail, memory_order_relaxed);
    for (;;) {
        node *new = before ? me : &k42.holders;
        if (before) {
            atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
            atomic_store_explicit(&me->waits, 1, memory_order_relaxed);
        }
        if (atomic_compare_exchange_strong_explicit(&k42.tail, &before, new, memory_order_acq_rel, memory_order_relaxed)) break;
    }
    if (!before) return;
    atomic_store_explicit(&before->next, me, memory_order_release);
    while (atomic_load_explicit(&me->waits, memory_order_acquire)) pause_cpu();
    node *next = atomic_load_explicit(&me->next, memory_order_acquire);
    if (!next) {
        node *expected = me;
        atomic_store_explicit(&k42.holders.next, NULL, memory_order_relaxed);
        if (atomic_compare_exchange_strong_explicit(&k42.tail, &expected, &k42.holders, memory_order_acq_rel, memory_order_relaxed)) return;
        while (!(next = atomic_load_explicit(&me->next, memory_order_acquire))) pause_cpu();
    }
    atomic_store_explicit(&k42.holders.next, next, memory_order_relaxed);
}

static inline void k42_unlock(node *me) {
    (void)me;
    node *next = atomic_load_explicit(&k42.holders.next, memory_order_acquire);
    if (!next) {
        node *expected = &k42.holders;
        if (atomic_compare_exchange_strong_explicit(&k42.tail, &expected, NULL, memory_order_release, memory_order_relaxed)) return;
        while (!(next = atomic_load_explicit(&k42.holders.next, memory_order_acquire))) pause_cpu();
    }
    atomic_store_explicit(&next->waits, 0, memory_order_release);
}

static inline void ticket_lock(node *me) {
    (void)me;
    unsigned mine = atomic_fetch_add_explicit(&tickets.next, 1, memory_order_relaxed);
    while (atomic_load_explicit(&tickets.serving, memory_order_acquire) != mine) pause_cpu();
}

static inline void ticket_unlock(node *me) {
    (void)me;
    unsigned served = atomic_load_explicit(&tickets.serving, memory_order_relaxed);
    atomic_store_explicit(&tickets.serving, served + 1, memory_order_release);
}

static inline void ttas_lock(node *me) {
    (void)me;
    for (;;) {
        int expected = 0;
        if (atomic_compare_exchange_strong_explicit(&word, &expected, 1, memory_order_acquire, memory_order_relaxed)) return;
        while (atomic_load_explicit(&word, memory_order_relaxed)) pause_cpu();
    }
}

static inline void ttas_unlock(node *me) {
    (void)me;
    atomic_store_explicit(&word, 0, memory_order_release);
}

#define LOOP(NAME)                                                                      \
    static unsigned long NAME##_loop(node *me) {                                        \
        unsigned long count = 0;                                                        \
        for (; !atomic_load_explicit(&stop, memory_order_relaxed); count++) {           \
            NAME##_lock(me);                                                            \
            guarded.one++;                                                              \
            guarded.two++;                                                              \
            NAME##_unlock(me);                                                          \
        }                                                                               \
        return count;                                                                   \
    }
LOOP(glibc)
LOOP(mcs)
LOOP(k42)
LOOP(ticket)
LOOP(ttas)

static const struct { const char *name; unsigned long (*loop)(node *); } locks[] = {
    {"glibc's mutex", glibc_loop}, {"mcs_spin", mcs_loop}, {"k42", k42_loop}, {"ticket", ticket_loop}, {"ttas", ttas_loop}};
enum { LOCKS = sizeof locks / sizeof *locks };

static node nodes[2];
static int cpus[2] = {0, 1}, chosen;
static pthread_barrier_t barrier;

static void *run(void *argument) {
    int thread = (int)(long)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[thread], &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set)) exit((fprintf(stderr, "no CPU %d\n", cpus[thread]), 1));
    pthread_barrier_wait(&barrier);
    atomic_fetch_add(&acquisitions, locks[chosen].loop(&nodes[thread]));
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double measure(int lock) {
    pthread_t threads[2];
    chosen = lock;
    atomic_store(&stop, false);
    atomic_store(&acquisitions, 0);
    pthread_barrier_init(&barrier, NULL, 3);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    pthread_barrier_wait(&barrier);
    double start = now();
    nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return (now() - start) / atomic_load(&acquisitions);
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    double times[LOCKS][ROUNDS], ratios[LOCKS][ROUNDS];
    for (int i = 0; i < 2 && argc == 3; i++) cpus[i] = atoi(argv[i + 1]);
    for (int round = 0; round < ROUNDS; round++)
        for (int lock = 0; lock < LOCKS; lock++) {
            times[lock][round] = measure(lock);
            ratios[lock][round] = times[0][round] / times[lock][round];
        }
    for (int lock = 0; lock < LOCKS; lock++) {
        qsort(times[lock], ROUNDS, sizeof(double), by_size);
        qsort(ratios[lock], ROUNDS, sizeof(double), by_size);
        printf("%-14s %7.1f ns  %5.2f [%.2f, %.2f] times as fast\n", locks[lock].name, times[lock][ROUNDS / 2],
               ratios[lock][ROUNDS / 2], ratios[lock][1], ratios[lock][ROUNDS - 2]);
    }
}

// Where the time of an uncontended lock with a queue node goes: an MCS lock in bare C, step by step.
//
//   cc -O2 -pthread -o bare studies/uncontended/bare.c && ./bare
//
// One thread acquires and releases one lock over and over, through functions that are not inlined, as a library's are.
// Each row does what the row above it does, and one thing more, up to what the preload library does for its queue locks.
// A second thread exists and sleeps, so that glibc's mutex uses its atomic instructions. Every row runs in each of 1,000
// rounds, in turn; printed is the least time of a lock and an unlock in ns, and how many times as fast as glibc's mutex
// that is.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 1000
#define ACQUISITIONS 20000
#define RELAXED memory_order_relaxed

typedef struct node {
    // The address of the lock that it serves; 0 if none.
    _Alignas(64) atomic_uintptr_t user;
    // Other threads write here, so it is on a line of its own.
    _Alignas(64) _Atomic(struct node *) next;
} node;

typedef struct {
    _Atomic(node *) tail;
    _Atomic(node *) holder;
    atomic_int kind;
    pthread_mutex_t glibcs;
} lock;

static node one_node;

// The thread's own node.
static _Thread_local _Atomic(node *) mine;

enum step { GLIBCS, TWO_ATOMICS, NODE, LINK, KIND, OWN, CLAIM, HOLDER };

static const char *const steps[] = {
    [GLIBCS] = "glibc's mutex",
    [TWO_ATOMICS] = "a compare-exchange and an exchange of a constant",
    [NODE] = "two compare-exchanges of a node's address",
    [LINK] = "+ the node's link is cleared, and looked at",
    [KIND] = "+ a look at the mutex's kind",
    [OWN] = "+ the node is the thread's own, and says which mutex uses it",
    [CLAIM] = "+ it says so in one instruction, for signal handlers",
    [HOLDER] = "+ the mutex says which node its holder has",
};

#define STEPS (sizeof steps / sizeof *steps)

// Makes the lock the node's user if it has none.
static inline __attribute__((always_inline)) bool claim(enum step step, node *own, lock *l) {
    if (atomic_load_explicit(&own->user, RELAXED) != 0)
        return false;
    if (step < CLAIM) {
        atomic_store_explicit(&own->user, (uintptr_t)l, RELAXED);
        return true;
    }
    uintptr_t found = 0;
#ifdef __x86_64__
    // Not locked: one instruction for this CPU, not for the others.
    __asm__ volatile("cmpxchgq %2, %0" : "+m"(own->user), "+a"(found) : "r"((uintptr_t)l) : "memory", "cc");
    return found == 0;
#else
    return atomic_compare_exchange_strong_explicit(&own->user, &found, (uintptr_t)l, RELAXED, RELAXED);
#endif
}

static inline __attribute__((always_inline)) bool acquire(enum step step, lock *l) {
    node *own = &one_node, *none = NULL;
    if (step == GLIBCS)
        return pthread_mutex_lock(&l->glibcs) == 0;
    if (step >= KIND && atomic_load_explicit(&l->kind, RELAXED) != 0)
        return false;
    if (step >= OWN) {
        own = atomic_load_explicit(&mine, RELAXED);
        if (own == NULL || !claim(step, own, l))
            return false;
    }
    if (step >= LINK)
        atomic_store_explicit(&own->next, NULL, RELAXED);
    if (!atomic_compare_exchange_strong_explicit(&l->tail, &none, own, memory_order_acq_rel, RELAXED))
        return false;
    if (step >= HOLDER)
        atomic_store_explicit(&l->holder, own, RELAXED);
    return true;
}

static inline __attribute__((always_inline)) bool release(enum step step, lock *l) {
    node *own = &one_node;
    if (step == GLIBCS)
        return pthread_mutex_unlock(&l->glibcs) == 0;
    if (step == TWO_ATOMICS)
        return atomic_exchange_explicit(&l->tail, NULL, memory_order_release) != NULL;
    if (step >= OWN) {
        own = atomic_load_explicit(&mine, RELAXED);
        if (own == NULL || atomic_load_explicit(&own->user, RELAXED) != (uintptr_t)l)
            return false;
    }
    if (step >= LINK && atomic_load_explicit(&own->next, RELAXED) != NULL)
        return false;
    if (step >= KIND && atomic_load_explicit(&l->kind, RELAXED) != 0)
        return false;
    node *expected = own;
    if (!atomic_compare_exchange_strong_explicit(&l->tail, &expected, NULL, memory_order_release, RELAXED))
        return false;
    if (step >= OWN)
        atomic_store_explicit(&own->user, 0, RELAXED);
    return true;
}

// The functions of each step.
#define FUNCTIONS(step) \
    static __attribute__((noinline)) bool acquire_##step(lock *l) { return acquire(step, l); } \
    static __attribute__((noinline)) bool release_##step(lock *l) { return release(step, l); }
#define EACH(do) do(GLIBCS) do(TWO_ATOMICS) do(NODE) do(LINK) do(KIND) do(OWN) do(CLAIM) do(HOLDER)

EACH(FUNCTIONS)

typedef bool function(lock *);

#define PAIR(step) [step] = {acquire_##step, release_##step},

static function *const functions[STEPS][2] = {EACH(PAIR)};

// ns that a lock and an unlock take.
static double measure(enum step step) {
    static lock l = {.glibcs = PTHREAD_MUTEX_INITIALIZER};
    function *const volatile acquires = functions[step][0], *const volatile releases = functions[step][1];
    struct timespec start, end;
    bool all = true;
    atomic_store_explicit(&mine, &one_node, RELAXED);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < ACQUISITIONS; i++)
        all = acquires(&l) && releases(&l) && all;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!all) {
        fprintf(stderr, "%s: an operation failed\n", steps[step]);
        exit(1);
    }
    return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / ACQUISITIONS;
}

static void *sleeps(void *unused) {
    pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleeps, NULL) != 0) {
        perror("a second thread");
        return 1;
    }
    double least[STEPS];
    for (int round = 0; round < ROUNDS; round++) {
        for (enum step step = 0; step < STEPS; step++) {
            double ns = measure(step);
            if (round == 0 || ns < least[step])
                least[step] = ns;
        }
    }
    for (enum step step = 0; step < STEPS; step++)
        printf("%-54s %6.2f ns %5.2f\n", steps[step], least[step], least[GLIBCS] / least[step]);
}

// How two CPUs treat a word that both use: facts that the simulator's model of cache lines rests on.
//
//   cc -O2 -pthread -o word studies/hand-off/word.c && ./word [CPU CPU]
//
// Two threads, one on each CPU, run for 30 ms in each of 9 rounds; printed are medians. Each row says what the first
// thread does over and over, and what the second one does meanwhile: how long an operation of the first takes (of
// both, where both add, and a hand-over, where they pass the word on), how many it makes in a row before it meets one
// of the other, or to one look of the other, how long a look of the second takes, and at which share of them it finds
// the lock held (acquired by an exchange, released by a store). Where they pass the word on, the last column is the
// share of waits with the most frequent number of looks, whose end a core may foresee. As root, on a machine that does
// other things too, `chrt -f 10 ./word` keeps those away from both CPUs while it runs, 3 s.
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
#define ROUND_NS 30000000L
#define BATCH 100
#define MOST_LOOKS 16

enum first { ADD, LOCK, EXCHANGE, PASS, WRITE_AND_PASS };
enum second { NOTHING, ADDS, PASSES, LOOKS, LOOKS_WITH_PAUSES, LOOKS_SELDOM };

static const struct { enum first first; enum second second; const char *what; } ROWS[] = {
    {ADD, NOTHING, "adds alone"},
    {ADD, ADDS, "adds, the other, too"},
    {ADD, LOOKS, "adds, the other looks"},
    {ADD, LOOKS_SELDOM, "adds, the other looks after 8 pauses"},
    {LOCK, NOTHING, "acquires and releases alone"},
    {LOCK, LOOKS, "acquires and releases, the other looks"},
    {LOCK, LOOKS_WITH_PAUSES, "acquires and releases, the other looks after a pause"},
    {LOCK, LOOKS_SELDOM, "acquires and releases, the other looks after 8 pauses"},
    {EXCHANGE, LOOKS_WITH_PAUSES, "exchanges, the other looks after a pause"},
    {PASS, PASSES, "waits with pauses, passes on, the other, too"},
    {WRITE_AND_PASS, PASSES, "the same, and writes to another line before"},
};

static LINE atomic_ulong word;
static LINE atomic_ulong data;
static LINE atomic_int arrived;
static LINE atomic_bool done;
static LINE struct { double ns, made, turns, looks, look, held, usual; } found;
static int cpus[2] = {0, 1};
static int row;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void meet(void) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < 2) sched_yield();
}

// Waits until the word has come to this number, and counts it up, and how many looks that took; false if the other
// thread has ended.
static bool pass_on(unsigned long number, unsigned long *waits) {
    int looks = 0;
    while (atomic_load_explicit(&word, memory_order_acquire) != number) {
        if (atomic_load_explicit(&done, memory_order_relaxed)) return false;
        pause_cpu();
        looks += looks < MOST_LOOKS - 1;
    }
    waits[looks]++;
    if (ROWS[row].first == WRITE_AND_PASS) {
        unsigned long before = atomic_load_explicit(&data, memory_order_relaxed);
        atomic_store_explicit(&data, before + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&word, number + 1, memory_order_release);
    return true;
}

static void run_first(void) {
    unsigned long made = 0, turns = 0, expected = 0, waits[MOST_LOOKS] = {0}, usual = 0, all = 0;
    long begin = now(), end = begin;
    for (; end - begin < ROUND_NS; end = now()) {
        for (int i = 0; i < BATCH; i++, made++) {
            if (ROWS[row].first == ADD) {
                unsigned long before = atomic_fetch_add(&word, 1);
                turns += before != expected;
                expected = before + 1;
            } else if (ROWS[row].first == EXCHANGE) {
                atomic_exchange_explicit(&word, made, memory_order_relaxed);
            } else if (ROWS[row].second == PASSES) {
                pass_on(made++, waits);
            } else {
                atomic_exchange_explicit(&word, 1, memory_order_acquire);
                atomic_store_explicit(&word, 0, memory_order_release);
            }
        }
    }
    atomic_store(&done, true);
    found.ns = end - begin;
    found.made = made;
    found.turns = turns;
    for (int looks = 0; looks < MOST_LOOKS; looks++) {
        all += waits[looks];
        if (waits[looks] > usual) usual = waits[looks];
    }
    found.usual = all > 0 ? (double)usual / all : 0;
}

static void run_second(void) {
    enum second second = ROWS[row].second;
    unsigned long looks = 0, held = 0, waits[MOST_LOOKS] = {0};
    long begin = now();
    for (unsigned long number = 1; second == PASSES && pass_on(number, waits);) number += 2;
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        for (int i = 0; i < BATCH; i++) {
            int pauses = second == LOOKS_WITH_PAUSES ? 1 : second == LOOKS_SELDOM ? 8 : 0;
            if (second == NOTHING) pause_cpu();
            if (second == ADDS) atomic_fetch_add(&word, 1);
            if (second >= LOOKS) held += atomic_load_explicit(&word, memory_order_relaxed) == 1;
            while (pauses--) pause_cpu();
            looks++;
        }
    }
    found.looks = looks;
    found.look = (double)(now() - begin) / looks;
    found.held = (double)held / looks;
}

static void *run(void *argument) {
    long number = (long)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[number], &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        fprintf(stderr, "word: this process may not use CPU %d; name two that it may use\n", cpus[number]);
        exit(2);
    }
    meet();
    if (number == 0) run_first(); else run_second();
    return NULL;
}

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_size);
    return values[ROUNDS / 2];
}

static void print(const char *form, bool applies, double value) {
    char text[32];
    snprintf(text, sizeof text, applies ? form : "-", value);
    printf(" %9s", text);
}

int main(int count, char **arguments) {
    if (count == 3) {
        cpus[0] = atoi(arguments[1]);
        cpus[1] = atoi(arguments[2]);
    }
    if ((count != 1 && count != 3) || cpus[0] == cpus[1]) {
        fprintf(stderr, "usage: word [CPU CPU], two numbers that differ\n");
        return 2;
    }
    printf("%-56s %9s %9s %9s %9s %9s\n", "the first thread ...", "ns each", "in a row", "ns a look", "held", "looks");
    for (row = 0; row < (int)(sizeof ROWS / sizeof *ROWS); row++) {
        double operation[ROUNDS], turn[ROUNDS], look[ROUNDS], held[ROUNDS], usual[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            pthread_t threads[2];
            atomic_store(&word, 0);
            atomic_store(&arrived, 0);
            atomic_store(&done, false);
            for (long i = 0; i < 2; i++) {
                if (pthread_create(&threads[i], NULL, run, (void *)i)) {
                    fprintf(stderr, "word: no thread can be started; raise the limit of processes (ulimit -u)\n");
                    return 1;
                }
            }
            for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
            operation[round] = found.ns / (found.made + (ROWS[row].second == ADDS ? found.looks : 0));
            turn[round] = found.turns > 0 ? found.made / found.turns : found.made * found.look / found.ns;
            look[round] = found.look;
            held[round] = found.held;
            usual[round] = found.usual;
        }
        printf("%-56s %9.2f", ROWS[row].what, median(operation));
        bool looks = ROWS[row].second >= LOOKS;
        print("%9.1f", ROWS[row].second == ADDS || ROWS[row].first == EXCHANGE, median(turn));
        print("%9.1f", looks, median(look));
        print("%5.0f%%", looks && ROWS[row].first == LOCK, 100 * median(held));
        print("%5.0f%%", ROWS[row].second == PASSES, 100 * median(usual));
        printf("\n");
    }
    return 0;
}

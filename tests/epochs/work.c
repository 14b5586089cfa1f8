/* Threads that take one lock twice in each epoch, the work inside three times as long on odd CPUs:
 *     work THREADS SECONDS [TARGET_NS]
 * For `lockswap slo` with LOCKSWAP_BIG=0; see docs/epochs.md. */
#define _GNU_SOURCE
#include "../../include/lockswap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_THREADS 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;
static volatile long shared[16];
static long epochs[MOST_THREADS];
static uint64_t target_ns = 100000;

static void work(int rounds) {
    for (int i = 0; i < rounds; i++)
        __asm__ volatile("" ::: "memory");
}

static void *body(void *argument) {
    long number = (long)argument;
    int cpu = (int)(number % 2), factor = cpu == 1 ? 3 : 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    long count = 0;
    for (; !atomic_load_explicit(&stop, memory_order_relaxed); count++) {
        lockswap_epoch_start(5);
        for (int round = 0; round < 2; round++) {
            pthread_mutex_lock(&mutex);
            for (int i = 0; i < 16; i++)
                shared[i]++;
            work(1000 * factor);
            pthread_mutex_unlock(&mutex);
        }
        lockswap_epoch_end(5, target_ns);
    }
    epochs[number] = count;
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    if (argc > 3)
        target_ns = (uint64_t)atoll(argv[3]);
    if (threads < 1 || threads > MOST_THREADS || seconds <= 0) {
        fprintf(stderr, "usage: work THREADS SECONDS [TARGET_NS]\n");
        return 2;
    }
    pthread_t all[MOST_THREADS];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, body, (void *)i))
            abort();
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
    atomic_store(&stop, 1);
    long sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        sum += epochs[i];
    }
    printf("epochs/s: %.0f\n", (double)sum / seconds);
    return 0;
}

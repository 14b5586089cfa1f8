/* twowants REQUESTS: a store that handles requests while reports are made of it. Four threads handle REQUESTS each: for
 * one they take a buffer from the pool and give it back 5,000 times, under the mutex `pool` for some ns each time, then
 * they enter what came out in the table, under the mutex `table`, and wait 50 us for the next one. A thousandth of the
 * buffers has to be fetched first, which takes 50 us of sleep under `pool`. Meanwhile three threads report on the table:
 * they go through all of it under its mutex, for some us each time, one report after the other.
 *
 * All of it is a batch job, to be run on one CPU: the scheduler lets a thread that wakes up wait until the slice of the
 * one that runs is over. So who has just made a report has `table` again before the next one runs, and requests need a
 * lock that is handed to waiters in order. The same lock is the worst for `pool`: after one thread has slept with it the
 * others stand in its queue, and from then on each time that one of them takes it costs a change of threads. What the
 * store is worth, the time from start to end says. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HANDLERS = 4, REPORTERS = 3, BUFFERS_PER_REQUEST = 5000, FETCHED = 1000, SLOTS = 2048 };

struct buffer {
    struct buffer *next;
    uint64_t data[6];
};

pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER, table = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *unused;
static uint64_t slots[SLOTS];
static atomic_int is_over;
static long requests, taken, entered;

static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return value ^ value >> 33;
}

static void sleep_for_50_us(void) {
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

static struct buffer *take_buffer(void) {
    pthread_mutex_lock(&pool);
    if (++taken % FETCHED == 0) sleep_for_50_us();
    struct buffer *buffer = unused;
    if (buffer) unused = buffer->next;
    pthread_mutex_unlock(&pool);
    return buffer ? buffer : calloc(1, sizeof *buffer);
}

static void give_buffer(struct buffer *buffer) {
    pthread_mutex_lock(&pool);
    buffer->next = unused;
    unused = buffer;
    pthread_mutex_unlock(&pool);
}

static void enter(uint64_t value) {
    pthread_mutex_lock(&table);
    slots[value % SLOTS] += value;
    entered++;
    pthread_mutex_unlock(&table);
}

static void *handle(void *seed) {
    uint64_t value = (uint64_t)seed;
    for (long request = 0; request < requests; request++) {
        for (int i = 0; i < BUFFERS_PER_REQUEST; i++) {
            struct buffer *buffer = take_buffer();
            for (int j = 0; j < 6; j++) buffer->data[j] = value = mixed(value + j + 1);
            give_buffer(buffer);
        }
        enter(value);
        sleep_for_50_us();
    }
    return NULL;
}

static uint64_t report(void) {
    uint64_t sum = 0;
    pthread_mutex_lock(&table);
    for (int i = 0; i < SLOTS; i++) sum = mixed(sum + slots[i]);
    pthread_mutex_unlock(&table);
    return sum;
}

static void *make_reports(void *all) {
    while (!is_over) {
        uint64_t sum = report();
        for (int i = 0; i < SLOTS / 4; i++) sum = mixed(sum + i);
        *(uint64_t *)all ^= sum;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    requests = atol(argv[1]);
    if (sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0})) return 3;
    pthread_t handlers[HANDLERS], reporters[REPORTERS];
    uint64_t reports[REPORTERS] = {0};
    for (int i = 0; i < REPORTERS; i++) pthread_create(&reporters[i], NULL, make_reports, &reports[i]);
    for (long i = 0; i < HANDLERS; i++) pthread_create(&handlers[i], NULL, handle, (void *)(i + 1));
    for (int i = 0; i < HANDLERS; i++) pthread_join(handlers[i], NULL);
    is_over = 1;
    for (int i = 0; i < REPORTERS; i++) pthread_join(reporters[i], NULL);
    printf("%ld requests\n", entered);
    return entered != HANDLERS * requests;
}

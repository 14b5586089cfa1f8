/* twowants REQUESTS: a store that handles requests while reports are made of it. Four threads handle REQUESTS each: for
 * one they take a buffer from the pool and give it back 5,000 times, under the mutex `pool` for some ns each time, then
 * they enter what came out in the table, under the mutex `table`, and wait 50 us for the next one. Meanwhile three
 * threads report on the table: they go through all of it under its mutex, for some 10 us each time, one report after the
 * other.
 *
 * With two CPUs or a few more: who has just made a report has `table` again before the one wakes up that was to be next,
 * so requests need a lock that serves waiters in order. The same lock is the worst for `pool`, where it makes threads
 * wait for others that do not run. What the store is worth, the time from start to end says. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HANDLERS = 4, REPORTERS = 3, BUFFERS_PER_REQUEST = 5000, SLOTS = 4096 };

struct buffer {
    struct buffer *next;
    uint64_t data[6];
};

pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER, table = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *unused;
static uint64_t slots[SLOTS];
static atomic_int is_over;
static long requests, entered;

static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return value ^ value >> 33;
}

static struct buffer *take_buffer(void) {
    pthread_mutex_lock(&pool);
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
        nanosleep(&(struct timespec){0, 50000}, NULL);
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
    while (!is_over) *(uint64_t *)all ^= report();
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    requests = atol(argv[1]);
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

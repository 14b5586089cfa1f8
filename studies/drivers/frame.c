/* The frame of the drivers: see frame.h, and `DRIVER --help`. */
#define _GNU_SOURCE
#include "frame.h"

#include "../../include/lockswap.h"
#include "little.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EPOCH = 1, MOST_THREADS = 1024 };

/* Latencies in buckets of a 32nd of a power of two, so that a percentile is right within 3 %. */
enum { STEPS = 32, BUCKETS = 60 * STEPS };

struct worker {
    pthread_t thread;
    int number;
    int is_little;
    uint64_t operations;
    uint64_t retries;
    uint64_t latencies[BUCKETS];
};

/* Operations count if they begin and end while this is MEASURED. Relaxed: it publishes nothing, and what threads
 * counted is read after they have ended. */
enum phase { FILLED, MEASURED, OVER };
static _Atomic enum phase phase;

struct settings settings = {.keys = 10000, .threads = 2};
static double seconds = 1, warmup = 0.1;
static uint64_t slo_ns = UINT64_MAX; /* an hour or more is no target */
static pthread_barrier_t opened;
static __thread struct worker *self;

void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

uint64_t draw(uint64_t *random, uint64_t bound) {
    /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016). */
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 2685821657736338717u % bound;
}

int is_mix(const char *name) {
    return strcmp(settings.mix, name) == 0;
}

void write_key(char *text, uint64_t key) {
    snprintf(text, KEY_BYTES + 1, "%016" PRIu64, key);
}

void write_value(char *text, uint64_t key) {
    memset(text, 'v', VALUE_BYTES);
    write_key(text, key);
    text[KEY_BYTES] = 'v';
    text[VALUE_BYTES] = 0;
}

void check_value(const char *value, uint64_t length, uint64_t key) {
    char expected[VALUE_BYTES + 1];
    write_value(expected, key);
    if (length != VALUE_BYTES || memcmp(value, expected, VALUE_BYTES) != 0)
        fail("a key has the value of another one", settings.path);
}

void count_retry(void) {
    self->retries += atomic_load_explicit(&phase, memory_order_relaxed) == MEASURED;
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int bucket_of(uint64_t ns) {
    int power = 63 - __builtin_clzll(ns | STEPS);
    return (power - 5) * STEPS + (int)(ns >> (power - 5));
}

/* The largest time that falls into a bucket. */
static uint64_t end_of(int bucket) {
    int power = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
    return ((uint64_t)(bucket - power * STEPS + 1) << power) - 1;
}

static void *work(void *argument) {
    self = argument;
    self->is_little = take_seat(self->number);
    uint64_t random = 88172645463325252u + (uint64_t)self->number * 7919;
    void *own = open_thread();
    pthread_barrier_wait(&opened);
    enum phase before = atomic_load_explicit(&phase, memory_order_relaxed), after;
    do {
        uint64_t begin = now_ns();
        lockswap_epoch_start(EPOCH);
        resume_pace();
        operate(own, &random);
        keep_pace();
        lockswap_epoch_end(EPOCH, slo_ns);
        uint64_t took = now_ns() - begin;
        after = atomic_load_explicit(&phase, memory_order_relaxed);
        /* Also one that began before the measurement or ends after it: of a thread that is starved, the only one. */
        self->latencies[bucket_of(took)] += after != FILLED;
        self->operations += before == MEASURED && after == MEASURED;
        before = after;
    } while (after != OVER);
    close_thread(own);
    return NULL;
}

/* Sleeps through warm-up or measurement. */
static void wait_for(double time) {
    struct timespec left = {.tv_sec = (time_t)time, .tv_nsec = (long)((time - (double)(time_t)time) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* Prints the 99th percentile of the threads of a kind: 0 on big CPUs, 1 on little ones, -1 all. */
static void print_p99(const struct worker *workers, int kind, const char *name) {
    static uint64_t all[BUCKETS];
    uint64_t count = 0, seen = 0;
    memset(all, 0, sizeof all);
    for (int i = 0; i < settings.threads; i++)
        for (int b = 0; b < BUCKETS && (kind < 0 || workers[i].is_little == kind); b++)
            all[b] += workers[i].latencies[b], count += workers[i].latencies[b];
    if (count == 0)
        return;
    int bucket = 0;
    while ((seen += all[bucket]) * 100 < count * 99)
        bucket++;
    printf("P99 %s: %.3f us\n", name, (double)end_of(bucket) / 1000);
}

static double number(const char *option, const char *text, double least, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= least && value <= most)) {
        fprintf(stderr, "--%s %s: give a number from %g to %g\n", option, text, least, most);
        exit(2);
    }
    return value;
}

__attribute__((noreturn)) static void help(const char *program) {
    printf("%s [--mix NAME] [--threads N] [--seconds S] [--warmup S] [--keys N] [--path P] [--slo US]\n"
           "  [--little CPU:FACTOR]\n"
           "  --slo US             target of each operation, which is epoch %d, in microseconds\n"
           "  --little CPU:FACTOR  this CPU plays a little one, so many times slower; thread i runs on CPU i then\n"
           "mixes:",
           program, EPOCH);
    for (int i = 0; mixes[i]; i++)
        printf(" %s", mixes[i]);
    printf("\n");
    exit(0);
}

static void read_arguments(int count, char **arguments) {
    static const struct option options[] = {
        {"mix", required_argument, 0, 'm'},    {"threads", required_argument, 0, 't'},
        {"seconds", required_argument, 0, 's'}, {"warmup", required_argument, 0, 'w'},
        {"keys", required_argument, 0, 'k'},   {"path", required_argument, 0, 'p'},
        {"slo", required_argument, 0, 'o'},    {"little", required_argument, 0, 'l'},
        {"help", no_argument, 0, 'h'},         {0, 0, 0, 0}};
    settings.mix = mixes[0];
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm': settings.mix = optarg; break;
        case 't': settings.threads = (int)number("threads", optarg, 1, MOST_THREADS); break;
        case 's': seconds = number("seconds", optarg, 0.001, 1e6); break;
        case 'w': warmup = number("warmup", optarg, 0, 1e6); break;
        case 'k': settings.keys = (uint64_t)number("keys", optarg, 1, 1e9); break;
        case 'p': settings.path = optarg; break;
        case 'o': slo_ns = (uint64_t)(number("slo", optarg, 0, 1e12) * 1000); break;
        case 'l': read_little(optarg); break;
        case 'h': help(arguments[0]);
        default: exit(2);
        }
    }
    int known = 0;
    for (int i = 0; mixes[i]; i++)
        known |= is_mix(mixes[i]);
    if (!known || optind < count) {
        fprintf(stderr, "%s: no such mix or argument; see --help\n", known ? arguments[optind] : settings.mix);
        exit(2);
    }
}

int main(int count, char **arguments) {
    read_arguments(count, arguments);
    open_database();
    struct worker *workers = calloc((size_t)settings.threads, sizeof *workers);
    if (!workers)
        fail("threads", "no memory");
    pthread_barrier_init(&opened, NULL, (unsigned)settings.threads + 1);
    for (int i = 0; i < settings.threads; i++) {
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            fail("threads", "cannot be started");
    }
    pthread_barrier_wait(&opened);
    wait_for(warmup);
    uint64_t begin = now_ns();
    atomic_store_explicit(&phase, MEASURED, memory_order_relaxed);
    wait_for(seconds);
    atomic_store_explicit(&phase, OVER, memory_order_relaxed);
    double took = (double)(now_ns() - begin) / 1e9;
    uint64_t operations = 0, retries = 0;
    for (int i = 0; i < settings.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        operations += workers[i].operations;
        retries += workers[i].retries;
    }
    close_database();
    printf("operations/s: %.1f\n", (double)operations / took);
    printf("made again: %" PRIu64 "\n", retries);
    print_p99(workers, -1, "all");
    if (has_little()) {
        print_p99(workers, 0, "big");
        print_p99(workers, 1, "little");
    }
    free(workers);
    return 0;
}

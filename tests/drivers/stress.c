/* Mutual exclusion under every mix of lock functions, counted with plain integers. */
#include "driver.h"

enum { THREADS = 4 };

struct arena {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_rwlock_t rwlock;
    int inside, iterations;
    long counter, a, b;
    atomic_long done;
};

static void critical(struct arena *arena) {
    CHECK(arena->inside == 0);
    arena->inside = 1;
    long seen = arena->counter;
    atomic_signal_fence(memory_order_seq_cst);
    if (seen % 512 == 0)
        sched_yield(); /* long enough that a second thread would get in */
    arena->counter = seen + 1;
    arena->inside = 0;
}

static bool acquire(struct arena *arena, uint64_t dice) {
    struct timespec until;
    int rc;
    switch (dice % 8) {
    case 0:
        rc = pthread_mutex_trylock(&arena->mutex);
        break;
    case 1:
        until = at_ns(now_on(CLOCK_REALTIME) + dice % 100000);
        rc = pthread_mutex_timedlock(&arena->mutex, &until);
        break;
    case 2:
        until = at_ns(now_on(CLOCK_MONOTONIC) + dice % 100000);
        rc = pthread_mutex_clocklock(&arena->mutex, CLOCK_MONOTONIC, &until);
        break;
    default:
        rc = pthread_mutex_lock(&arena->mutex);
    }
    if (rc != 0)
        CHECK(rc == EBUSY || rc == ETIMEDOUT);
    return rc == 0;
}

static void wait_a_little(struct arena *arena, uint64_t dice) {
    struct timespec until = at_ns(now_on(CLOCK_MONOTONIC) + dice % 50000);
    int rc = pthread_cond_clockwait(&arena->cond, &arena->mutex, CLOCK_MONOTONIC, &until);
    CHECK(rc == 0 || rc == ETIMEDOUT);
    critical(arena);
}

static void *mix(void *argument) {
    struct arena *arena = argument;
    uint64_t random = (uintptr_t)&random | 1;
    long mine = 0;
    for (int i = 0; i < arena->iterations; i++) {
        uint64_t dice = next_random(&random);
        if (!acquire(arena, dice >> 32))
            continue;
        critical(arena);
        mine++;
        if (dice % 32 == 0) {
            wait_a_little(arena, dice >> 8);
            mine++;
        } else if (dice % 32 < 4) {
            OK(dice % 2 ? pthread_cond_signal(&arena->cond) : pthread_cond_broadcast(&arena->cond));
        }
        OK(pthread_mutex_unlock(&arena->mutex));
    }
    atomic_fetch_add(&arena->done, mine);
    return NULL;
}

static void run_threads(void *(*body)(void *), void *argument) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(body, argument);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
}

static void mutex_mix(void) {
    FOR_EACH_KIND(k) {
        struct arena arena = {.cond = PTHREAD_COND_INITIALIZER, .iterations = 6000};
        init_kind(&arena.mutex, k->type);
        run_threads(mix, &arena);
        CHECK(arena.counter == atomic_load(&arena.done));
        OK(pthread_mutex_destroy(&arena.mutex));
        OK(pthread_cond_destroy(&arena.cond));
    }
}

static void *lock_only(void *argument) {
    struct arena *arena = argument;
    for (int i = 0; i < arena->iterations; i++) {
        OK(pthread_mutex_lock(&arena->mutex));
        critical(arena);
        OK(pthread_mutex_unlock(&arena->mutex));
    }
    return NULL;
}

static void mutex_lock_only(void) {
    FOR_EACH_KIND(k) {
        struct arena arena = {.iterations = 4000};
        init_kind(&arena.mutex, k->type);
        run_threads(lock_only, &arena);
        CHECK(arena.counter == THREADS * 4000L);
        OK(pthread_mutex_destroy(&arena.mutex));
    }
}

static void write_pair(struct arena *arena) {
    critical(arena);
    arena->a++;
    atomic_signal_fence(memory_order_seq_cst);
    arena->b++;
    OK(pthread_rwlock_unlock(&arena->rwlock));
    atomic_fetch_add(&arena->done, 1);
}

static void read_pair(struct arena *arena) {
    long a = *(volatile long *)&arena->a, b = *(volatile long *)&arena->b;
    CHECK(a == b && arena->inside == 0);
    OK(pthread_rwlock_unlock(&arena->rwlock));
}

static void *rw_mix(void *argument) {
    struct arena *arena = argument;
    uint64_t random = (uintptr_t)&random | 1;
    for (int i = 0; i < arena->iterations; i++) {
        uint64_t dice = next_random(&random) >> 16;
        struct timespec until = at_ns(now_on(CLOCK_REALTIME) + dice % 50000);
        int rc;
        bool write = dice % 4 == 0;
        switch (dice / 4 % 4) {
        case 0: rc = write ? pthread_rwlock_trywrlock(&arena->rwlock) : pthread_rwlock_tryrdlock(&arena->rwlock); break;
        case 1:
            rc = write ? pthread_rwlock_timedwrlock(&arena->rwlock, &until)
                       : pthread_rwlock_timedrdlock(&arena->rwlock, &until);
            break;
        default: rc = write ? pthread_rwlock_wrlock(&arena->rwlock) : pthread_rwlock_rdlock(&arena->rwlock); break;
        }
        if (rc == 0)
            (write ? write_pair : read_pair)(arena);
        else
            CHECK(rc == EBUSY || rc == ETIMEDOUT);
    }
    return NULL;
}

static void rwlock_mix(void) {
    for (int kind = 0; kind < 3; kind++) {
        struct arena arena = {.iterations = 15000};
        pthread_rwlockattr_t attributes;
        OK(pthread_rwlockattr_init(&attributes));
        OK(pthread_rwlockattr_setkind_np(&attributes, kind));
        OK(pthread_rwlock_init(&arena.rwlock, &attributes));
        run_threads(rw_mix, &arena);
        CHECK(arena.counter == atomic_load(&arena.done) && arena.a == arena.b);
        OK(pthread_rwlock_destroy(&arena.rwlock));
    }
}

/* Several locks at once, taken in order, like a transaction. */
static pthread_mutex_t accounts[16];
static long balances[16];

static void *transfer(void *iterations) {
    uint64_t random = (uintptr_t)&random | 1;
    for (int i = 0; i < *(int *)iterations; i++) {
        uint64_t dice = next_random(&random) >> 8;
        int from = dice % 16, to = dice / 16 % 16;
        if (from == to)
            continue;
        int low = from < to ? from : to, high = from < to ? to : from;
        OK(pthread_mutex_lock(&accounts[low]));
        OK(pthread_mutex_lock(&accounts[high]));
        balances[from] -= 5;
        balances[to] += 5;
        OK(pthread_mutex_unlock(&accounts[dice % 3 ? low : high])); /* not always in reverse order */
        OK(pthread_mutex_unlock(&accounts[dice % 3 ? high : low]));
    }
    return NULL;
}

static void several_at_once(void) {
    int iterations = 20000;
    for (int i = 0; i < 16; i++)
        init_kind(&accounts[i], kinds[i % 4].type);
    run_threads(transfer, &iterations);
    long sum = 0;
    for (int i = 0; i < 16; i++) {
        sum += balances[i];
        OK(pthread_mutex_destroy(&accounts[i]));
    }
    CHECK(sum == 0);
}

const struct subtest stress_tests[] = {
    {"stress_mutex_lock_only", mutex_lock_only},
    {"stress_mutex_mix", mutex_mix},
    {"stress_rwlock_mix", rwlock_mix},
    {"stress_several_at_once", several_at_once},
    {NULL, NULL},
};

/* Condition variables: waking, mutex kinds, life and death. */
#include "driver.h"

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting, open, passed;
};

static void gate_init(struct gate *gate, int type) {
    init_kind(&gate->mutex, type);
    OK(pthread_cond_init(&gate->cond, NULL));
    gate->waiting = gate->open = gate->passed = 0;
}

static void gate_destroy(struct gate *gate) {
    OK(pthread_cond_destroy(&gate->cond));
    OK(pthread_mutex_destroy(&gate->mutex));
}

static void *pass_gate(void *argument) {
    struct gate *gate = argument;
    OK(pthread_mutex_lock(&gate->mutex));
    gate->waiting++;
    while (!gate->open)
        OK(pthread_cond_wait(&gate->cond, &gate->mutex));
    if (gate->open < 1000000)
        gate->open--;
    gate->passed++;
    RC(trylock_elsewhere(&gate->mutex), EBUSY);
    OK(pthread_mutex_unlock(&gate->mutex));
    return NULL;
}

/* Comes back when `count` threads are inside their waits. */
static void gate_filled(struct gate *gate, int count) {
    for (bool full = false; !full; usleep(200)) {
        OK(pthread_mutex_lock(&gate->mutex));
        full = gate->waiting >= count;
        OK(pthread_mutex_unlock(&gate->mutex));
    }
}

static void signal_each_kind(void) {
    FOR_EACH_KIND(k) {
        struct gate gate;
        gate_init(&gate, k->type);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            threads[i] = spawn(pass_gate, &gate);
        gate_filled(&gate, 4);
        for (int i = 0; i < 4; i++) {
            OK(pthread_mutex_lock(&gate.mutex));
            gate.open++;
            if (i % 2) /* with and without the mutex held */
                OK(pthread_cond_signal(&gate.cond));
            OK(pthread_mutex_unlock(&gate.mutex));
            if (i % 2 == 0)
                OK(pthread_cond_signal(&gate.cond));
        }
        for (int i = 0; i < 4; i++)
            join(threads[i]);
        CHECK(gate.passed == 4 && gate.open == 0);
        gate_destroy(&gate);
    }
}

static void broadcast_wakes_all(void) {
    enum { THREADS = 30 };
    FOR_EACH_KIND(k) {
        for (int round = 0; round < 4; round++) {
            struct gate gate;
            gate_init(&gate, k->type);
            pthread_t threads[THREADS];
            for (int i = 0; i < THREADS; i++)
                threads[i] = spawn(pass_gate, &gate);
            gate_filled(&gate, THREADS);
            OK(pthread_mutex_lock(&gate.mutex));
            gate.open = 1000000;
            if (round % 2)
                OK(pthread_cond_broadcast(&gate.cond));
            OK(pthread_mutex_unlock(&gate.mutex));
            if (round % 2 == 0)
                OK(pthread_cond_broadcast(&gate.cond));
            for (int i = 0; i < THREADS; i++)
                join(threads[i]);
            CHECK(gate.passed == THREADS);
            gate_destroy(&gate);
        }
    }
}

static pthread_mutex_t static_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t static_cond = PTHREAD_COND_INITIALIZER;

/* A signal without a waiter is not remembered. */
static void not_remembered(void) {
    for (int i = 0; i < 5; i++) {
        OK(pthread_cond_signal(&static_cond));
        OK(pthread_cond_broadcast(&static_cond));
    }
    OK(pthread_mutex_lock(&static_mutex));
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    RC(pthread_cond_timedwait(&static_cond, &static_mutex, &soon), ETIMEDOUT);
    OK(pthread_mutex_unlock(&static_mutex));
    OK(pthread_cond_destroy(&static_cond));
}

static void mutex_not_owned(void) {
    pthread_mutex_t m;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec later = in_ms(CLOCK_REALTIME, 3000);
    int types[] = {PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE};
    for (int i = 0; i < 2; i++) {
        init_kind(&m, types[i]);
        RC(pthread_cond_wait(&c, &m), EPERM);
        RC(pthread_cond_timedwait(&c, &m, &later), EPERM);
        RC(pthread_cond_clockwait(&c, &m, CLOCK_REALTIME, &later), EPERM);
        OK(trylock_elsewhere(&m));
        OK(pthread_cond_signal(&c));
        OK(pthread_mutex_destroy(&m));
    }
    OK(pthread_cond_destroy(&c));
}

/* glibc gives up one level of a recursive mutex, POSIX lets one give up all: both end at the same depth. */
static void recursive_levels(void) {
    pthread_mutex_t m;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            OK(pthread_mutex_lock(&m));
        struct timespec soon = in_ms(CLOCK_REALTIME, 10);
        RC(pthread_cond_timedwait(&c, &m, &soon), ETIMEDOUT);
        for (int i = 0; i < 3; i++) {
            RC(trylock_elsewhere(&m), EBUSY);
            OK(pthread_mutex_unlock(&m));
        }
        RC(pthread_mutex_unlock(&m), EPERM);
        OK(trylock_elsewhere(&m));
    }
    OK(pthread_mutex_destroy(&m));
    OK(pthread_cond_destroy(&c));
}

struct levels {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    atomic_int seen;
    atomic_bool over;
};

static void *look_during_wait(void *argument) {
    struct levels *levels = argument;
    nap_ms(20);
    int rc = pthread_mutex_trylock(&levels->mutex);
    if (rc == 0)
        OK(pthread_mutex_unlock(&levels->mutex));
    atomic_store(&levels->seen, rc);
    while (!atomic_load(&levels->over)) { /* the wait may not have begun yet */
        OK(pthread_cond_signal(&levels->cond));
        usleep(500);
    }
    return NULL;
}

static void recursive_levels_given_up(void) {
    struct levels levels = {.cond = PTHREAD_COND_INITIALIZER, .seen = -1};
    init_kind(&levels.mutex, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i < 3; i++)
        OK(pthread_mutex_lock(&levels.mutex));
    pthread_t looker = spawn(look_during_wait, &levels);
    struct timespec later = in_ms(CLOCK_REALTIME, 5000);
    OK(pthread_cond_timedwait(&levels.cond, &levels.mutex, &later));
    atomic_store(&levels.over, true);
    join(looker);
    if (atomic_load(&levels.seen) == 0)
        note("all levels were given up during the wait; glibc gives up one");
    else
        RC(atomic_load(&levels.seen), EBUSY);
    for (int i = 0; i < 3; i++)
        OK(pthread_mutex_unlock(&levels.mutex));
    RC(pthread_mutex_unlock(&levels.mutex), EPERM);
}

struct shared_gate {
    pthread_mutex_t mutex;
    pthread_cond_t *cond;
    int waiting;
    bool open;
};

static void *wait_and_leave(void *argument) {
    struct shared_gate *gate = argument;
    OK(pthread_mutex_lock(&gate->mutex));
    gate->waiting++;
    while (!gate->open)
        OK(pthread_cond_wait(gate->cond, &gate->mutex));
    gate->waiting--;
    OK(pthread_mutex_unlock(&gate->mutex));
    return NULL;
}

static void destroy_after_broadcast(bool unmap, bool locked) {
    enum { THREADS = 4 };
    struct shared_gate gate = {.cond = fresh_pages(4096)};
    OK(pthread_mutex_init(&gate.mutex, NULL));
    OK(pthread_cond_init(gate.cond, NULL));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(wait_and_leave, &gate);
    for (bool full = false; !full; usleep(100)) {
        OK(pthread_mutex_lock(&gate.mutex));
        full = gate.waiting == THREADS;
        OK(pthread_mutex_unlock(&gate.mutex));
    }
    OK(pthread_mutex_lock(&gate.mutex));
    gate.open = true;
    OK(pthread_cond_broadcast(gate.cond));
    if (!locked)
        OK(pthread_mutex_unlock(&gate.mutex));
    /* The woken leave the condition variable before they need the mutex, or this would hang when it is held. */
    OK(pthread_cond_destroy(gate.cond));
    memset(gate.cond, 0xA5, sizeof *gate.cond);
    if (unmap)
        CHECK(munmap(gate.cond, 4096) == 0);
    if (locked)
        OK(pthread_mutex_unlock(&gate.mutex));
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    OK(pthread_mutex_destroy(&gate.mutex));
    if (!unmap)
        munmap(gate.cond, 4096);
}

static void destroy_right_after_broadcast(void) {
    for (int round = 0; round < 400; round++)
        destroy_after_broadcast(round & 1, round & 2);
}

/* The last waiter that leaves frees the condition variable it was woken from. */
struct job {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool done;
};

static void *finish_job(void *argument) {
    struct job *job = argument;
    OK(pthread_mutex_lock(&job->mutex));
    job->done = true;
    OK(pthread_cond_signal(&job->cond));
    OK(pthread_mutex_unlock(&job->mutex));
    return NULL;
}

static void waiter_frees(void) {
    for (int round = 0; round < 1500; round++) {
        struct job *job = round % 2 ? malloc(sizeof *job) : fresh_pages(4096);
        OK(pthread_mutex_init(&job->mutex, NULL));
        OK(pthread_cond_init(&job->cond, NULL));
        job->done = false;
        pthread_t worker = spawn(finish_job, job);
        OK(pthread_mutex_lock(&job->mutex));
        while (!job->done)
            OK(pthread_cond_wait(&job->cond, &job->mutex));
        OK(pthread_mutex_unlock(&job->mutex));
        OK(pthread_cond_destroy(&job->cond));
        OK(pthread_mutex_destroy(&job->mutex));
        memset(job, 0xA5, sizeof *job);
        if (round % 2)
            free(job);
        else
            CHECK(munmap(job, 4096) == 0);
        join(worker);
    }
}

static struct gate pair[2];
static int turn;

static void *answer(void *rounds) {
    for (int i = 0; i < *(int *)rounds; i++) {
        OK(pthread_mutex_lock(&pair[0].mutex));
        while (turn != 1)
            OK(pthread_cond_wait(&pair[0].cond, &pair[0].mutex));
        turn = 0;
        OK(pthread_cond_signal(&pair[1].cond));
        OK(pthread_mutex_unlock(&pair[0].mutex));
    }
    return NULL;
}

static void pingpong(void) {
    int rounds = 4000;
    FOR_EACH_KIND(k) {
        gate_init(&pair[0], k->type);
        gate_init(&pair[1], k->type);
        turn = 0;
        pthread_t other = spawn(answer, &rounds);
        for (int i = 0; i < rounds; i++) {
            OK(pthread_mutex_lock(&pair[0].mutex));
            turn = 1;
            OK(pthread_cond_signal(&pair[0].cond));
            while (turn != 0)
                OK(pthread_cond_wait(&pair[1].cond, &pair[0].mutex));
            OK(pthread_mutex_unlock(&pair[0].mutex));
        }
        join(other);
        gate_destroy(&pair[0]);
        gate_destroy(&pair[1]);
    }
}

enum { SLOTS = 4, ITEMS = 6000 };
struct buffer {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    int slots[SLOTS], used;
    atomic_llong sum;
};

static void *produce(void *argument) {
    struct buffer *b = argument;
    for (int i = 1; i <= ITEMS; i++) {
        OK(pthread_mutex_lock(&b->mutex));
        while (b->used == SLOTS)
            OK(pthread_cond_wait(&b->not_full, &b->mutex));
        b->slots[b->used++] = i;
        OK(pthread_mutex_unlock(&b->mutex));
        OK(pthread_cond_signal(&b->not_empty));
    }
    return NULL;
}

static void *consume(void *argument) {
    struct buffer *b = argument;
    for (int i = 0; i < ITEMS; i++) {
        OK(pthread_mutex_lock(&b->mutex));
        while (b->used == 0)
            OK(pthread_cond_wait(&b->not_empty, &b->mutex));
        atomic_fetch_add(&b->sum, b->slots[--b->used]);
        OK(pthread_cond_signal(&b->not_full));
        OK(pthread_mutex_unlock(&b->mutex));
    }
    return NULL;
}

static void bounded_buffer(void) {
    FOR_EACH_KIND(k) {
        struct buffer b = {.not_empty = PTHREAD_COND_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER};
        init_kind(&b.mutex, k->type);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            threads[i] = spawn(i % 2 ? produce : consume, &b);
        for (int i = 0; i < 4; i++)
            join(threads[i]);
        CHECK(b.sum == 2LL * ITEMS * (ITEMS + 1) / 2);
        CHECK(b.used == 0);
    }
}

/* One condition variable with one mutex after the other: allowed while nobody waits. */
static void other_mutex_later(void) {
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    for (int i = 0; i < 40; i++) {
        pthread_mutex_t m;
        init_kind(&m, kinds[i % 4].type);
        OK(pthread_mutex_lock(&m));
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        RC(pthread_cond_timedwait(&c, &m, &soon), ETIMEDOUT);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
    }
    OK(pthread_cond_destroy(&c));
}

static void *wait_quietly(void *argument) {
    struct gate *gate = argument;
    OK(pthread_mutex_lock(&gate->mutex));
    gate->waiting++;
    while (!gate->open)
        OK(pthread_cond_wait(&gate->cond, &gate->mutex));
    gate->passed++;
    OK(pthread_mutex_unlock(&gate->mutex));
    return NULL;
}

static void many_waiters(void) {
    enum { THREADS = 400 };
    struct gate gate;
    gate_init(&gate, PTHREAD_MUTEX_NORMAL);
    static pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(wait_quietly, &gate);
    gate_filled(&gate, THREADS);
    OK(pthread_mutex_lock(&gate.mutex));
    gate.open = 1000000;
    OK(pthread_cond_broadcast(&gate.cond));
    OK(pthread_mutex_unlock(&gate.mutex));
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    CHECK(gate.passed == THREADS);
    gate_destroy(&gate);
}

const struct subtest cond_tests[] = {
    {"cond_signal_each_kind", signal_each_kind},
    {"cond_broadcast_wakes_all", broadcast_wakes_all},
    {"cond_not_remembered", not_remembered},
    {"cond_mutex_not_owned", mutex_not_owned},
    {"cond_recursive_levels", recursive_levels},
    {"cond_recursive_levels_given_up", recursive_levels_given_up},
    {"cond_destroy_right_after_broadcast", destroy_right_after_broadcast},
    {"cond_waiter_frees", waiter_frees},
    {"cond_pingpong", pingpong},
    {"cond_bounded_buffer", bounded_buffer},
    {"cond_other_mutex_later", other_mutex_later},
    {"cond_many_waiters", many_waiters},
    {NULL, NULL},
};

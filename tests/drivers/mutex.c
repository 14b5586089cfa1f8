/* Mutexes: kinds, error codes, ownership. */
#include "driver.h"

static void basic(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        for (int i = 0; i < 1000; i++) {
            OK(pthread_mutex_lock(&m));
            OK(pthread_mutex_unlock(&m));
            OK(pthread_mutex_trylock(&m));
            OK(pthread_mutex_unlock(&m));
        }
        OK(pthread_mutex_destroy(&m));
    }
}

static pthread_mutex_t static_default = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t static_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t static_errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t static_adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static void static_initialisers(void) {
    pthread_mutex_t *all[] = {&static_default, &static_recursive, &static_errorcheck, &static_adaptive};
    int relock[] = {EBUSY, 0, EBUSY, EBUSY};
    for (int i = 0; i < 4; i++) {
        OK(pthread_mutex_lock(all[i]));
        RC(trylock_elsewhere(all[i]), EBUSY);
        RC(pthread_mutex_trylock(all[i]), relock[i]);
        if (relock[i] == 0)
            OK(pthread_mutex_unlock(all[i]));
        OK(pthread_mutex_unlock(all[i]));
        OK(trylock_elsewhere(all[i]));
    }
    OK(pthread_mutex_lock(&static_errorcheck));
    RC(pthread_mutex_lock(&static_errorcheck), EDEADLK);
    OK(pthread_mutex_unlock(&static_errorcheck));
    RC(pthread_mutex_unlock(&static_recursive), EPERM);
    for (int i = 0; i < 4; i++)
        OK(pthread_mutex_destroy(all[i]));
}

static void busy_elsewhere(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_lock(&m));
        RC(trylock_elsewhere(&m), EBUSY);
        RC(pthread_mutex_trylock(&m), k->type == PTHREAD_MUTEX_RECURSIVE ? 0 : EBUSY);
        if (k->type == PTHREAD_MUTEX_RECURSIVE)
            OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_unlock(&m));
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

static void recursive_depth(void) {
    enum { DEPTH = 100000 };
    pthread_mutex_t m;
    init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
    struct timespec past = {0, 0};
    for (int i = 0; i < DEPTH; i++) {
        switch (i % 4) {
        case 0: OK(pthread_mutex_lock(&m)); break;
        case 1: OK(pthread_mutex_trylock(&m)); break;
        case 2: OK(pthread_mutex_timedlock(&m, &past)); break;
        case 3: OK(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &past)); break;
        }
    }
    for (int i = DEPTH; i > 0; i--) {
        if (i % 20000 == 0 || i == 65536 || i == 65535 || i == 256 || i == 1)
            RC(trylock_elsewhere(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
    }
    RC(pthread_mutex_unlock(&m), EPERM);
    OK(trylock_elsewhere(&m));
    OK(pthread_mutex_destroy(&m));
}

static void recursive_owner(void) {
    pthread_mutex_t m;
    init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
    RC(pthread_mutex_unlock(&m), EPERM);
    OK(pthread_mutex_lock(&m));
    OK(pthread_mutex_lock(&m));
    RC(unlock_elsewhere(&m), EPERM);
    OK(pthread_mutex_unlock(&m));
    RC(trylock_elsewhere(&m), EBUSY);
    OK(pthread_mutex_unlock(&m));
    RC(pthread_mutex_unlock(&m), EPERM);
    OK(trylock_elsewhere(&m));
    OK(pthread_mutex_destroy(&m));
}

static void errorcheck(void) {
    pthread_mutex_t m;
    init_kind(&m, PTHREAD_MUTEX_ERRORCHECK);
    struct timespec past = {0, 0}, later = in_ms(CLOCK_REALTIME, 5000);
    struct timespec later_mono = in_ms(CLOCK_MONOTONIC, 5000);
    RC(pthread_mutex_unlock(&m), EPERM);
    OK(pthread_mutex_lock(&m));
    RC(pthread_mutex_lock(&m), EDEADLK);
    RC(pthread_mutex_timedlock(&m, &later), EDEADLK);
    RC(pthread_mutex_timedlock(&m, &past), EDEADLK);
    RC(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &later_mono), EDEADLK);
    RC(pthread_mutex_clocklock(&m, CLOCK_REALTIME, &past), EDEADLK);
    RC(pthread_mutex_trylock(&m), EBUSY);
    RC(unlock_elsewhere(&m), EPERM);
    RC(trylock_elsewhere(&m), EBUSY);
    OK(pthread_mutex_unlock(&m));
    RC(pthread_mutex_unlock(&m), EPERM);
    OK(pthread_mutex_trylock(&m));
    RC(pthread_mutex_lock(&m), EDEADLK);
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_timedlock(&m, &later));
    RC(pthread_mutex_lock(&m), EDEADLK);
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &later_mono));
    RC(pthread_mutex_lock(&m), EDEADLK);
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_destroy(&m));
}

static void *wait_for_it(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

/* Programs unlock a default mutex in another thread than the one that locked it. */
static void foreign_unlock(void) {
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        pthread_mutex_t m;
        init_kind(&m, types[i]);
        for (int round = 0; round < 50; round++) {
            OK(pthread_mutex_lock(&m));
            pthread_t waiter = round % 2 ? spawn(wait_for_it, &m) : 0;
            if (round < 6)
                settle();
            OK(unlock_elsewhere(&m));
            if (waiter)
                join(waiter);
            OK(pthread_mutex_lock(&m));
            RC(trylock_elsewhere(&m), EBUSY);
            OK(pthread_mutex_unlock(&m));
            OK(trylock_elsewhere(&m));
        }
        OK(pthread_mutex_destroy(&m));
    }
}

static pthread_mutex_t handed[2];

static void *pass_back(void *rounds) {
    for (int i = 0; i < *(int *)rounds; i++) {
        OK(pthread_mutex_lock(&handed[0]));
        OK(pthread_mutex_unlock(&handed[1]));
    }
    return NULL;
}

/* Two mutexes as a pair of binary semaphores: every unlock is foreign and has a waiter. */
static void foreign_pingpong(void) {
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP}, rounds = 300;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (int i = 0; i < 2; i++) {
            init_kind(&handed[i], types[t]);
            OK(pthread_mutex_lock(&handed[i]));
        }
        pthread_t other = spawn(pass_back, &rounds);
        for (int i = 0; i < rounds; i++) {
            OK(pthread_mutex_unlock(&handed[0]));
            OK(pthread_mutex_lock(&handed[1]));
        }
        join(other);
    }
}

static int exclusion_counter;

static void *count_up(void *mutex) {
    for (int i = 0; i < 5000; i++) {
        OK(pthread_mutex_lock(mutex));
        int seen = exclusion_counter;
        atomic_signal_fence(memory_order_seq_cst);
        exclusion_counter = seen + 1;
        OK(pthread_mutex_unlock(mutex));
    }
    return NULL;
}

static void unlock_unlocked(void) {
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        pthread_mutex_t m;
        init_kind(&m, types[i]);
        for (int n = 0; n < 3; n++)
            OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_lock(&m));
        RC(trylock_elsewhere(&m), EBUSY);
        RC(pthread_mutex_trylock(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_unlock(&m));
        exclusion_counter = 0;
        pthread_t threads[2];
        for (int n = 0; n < 2; n++)
            threads[n] = spawn(count_up, &m);
        for (int n = 0; n < 2; n++)
            join(threads[n]);
        CHECK(exclusion_counter == 10000);
    }
}

static void destroy_busy(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        RC(pthread_mutex_destroy(&m), EBUSY);
        RC(trylock_elsewhere(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_lock(&m));
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
        RC(pthread_mutex_lock(&m), EINVAL);
        RC(pthread_mutex_trylock(&m), EINVAL);
    }
}

struct cond_user {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool waiting, go;
};

static void *wait_in_cond(void *argument) {
    struct cond_user *user = argument;
    OK(pthread_mutex_lock(&user->mutex));
    user->waiting = true;
    while (!user->go)
        OK(pthread_cond_wait(&user->cond, &user->mutex));
    OK(pthread_mutex_unlock(&user->mutex));
    return NULL;
}

static void destroy_in_wait(void) {
    FOR_EACH_KIND(k) {
        struct cond_user user = {.cond = PTHREAD_COND_INITIALIZER};
        init_kind(&user.mutex, k->type);
        pthread_t waiter = spawn(wait_in_cond, &user);
        for (bool waiting = false; !waiting; settle()) {
            OK(pthread_mutex_lock(&user.mutex));
            waiting = user.waiting;
            OK(pthread_mutex_unlock(&user.mutex));
        }
        RC(pthread_mutex_destroy(&user.mutex), EBUSY);
        OK(pthread_mutex_lock(&user.mutex));
        user.go = true;
        OK(pthread_cond_signal(&user.cond));
        OK(pthread_mutex_unlock(&user.mutex));
        join(waiter);
        OK(pthread_mutex_destroy(&user.mutex));
        OK(pthread_cond_destroy(&user.cond));
    }
}

static void not_applicable(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        int ceiling = 0;
        RC(pthread_mutex_getprioceiling(&m, &ceiling), EINVAL);
        RC(pthread_mutex_setprioceiling(&m, 1, &ceiling), EINVAL);
        RC(pthread_mutex_consistent(&m), EINVAL);
        OK(pthread_mutex_lock(&m));
        RC(pthread_mutex_consistent(&m), EINVAL);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

static void *lock_and_leave(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    return NULL;
}

/* The stack cache gives the next thread the same stack, thread pointer and pthread_t. */
static void owner_not_inherited(void) {
    FOR_EACH_KIND(k) {
        for (int round = 0; round < 10; round++) {
            pthread_mutex_t m;
            init_kind(&m, k->type);
            join(spawn(lock_and_leave, &m));
            RC(trylock_elsewhere(&m), EBUSY);
            if (k->type == PTHREAD_MUTEX_RECURSIVE || k->type == PTHREAD_MUTEX_ERRORCHECK)
                RC(unlock_elsewhere(&m), EPERM);
            RC(pthread_mutex_trylock(&m), EBUSY);
            RC(pthread_mutex_destroy(&m), EBUSY);
            struct timespec soon = in_ms(CLOCK_REALTIME, 2);
            RC(pthread_mutex_timedlock(&m, &soon), ETIMEDOUT);
        }
    }
}

static int relock_timed(void *mutex) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 5);
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon);
}

static void owner_not_inherited_timed(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        join(spawn(lock_and_leave, &m));
        RC(in_thread(relock_timed, &m), ETIMEDOUT);
    }
}

static void attribute_types(void) {
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    RC(pthread_mutexattr_settype(&attributes, 99), EINVAL);
    pthread_mutex_t m;
    OK(pthread_mutex_init(&m, &attributes));
    OK(pthread_mutex_lock(&m));
    RC(pthread_mutex_trylock(&m), EBUSY);
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_destroy(&m));
    OK(pthread_mutex_init(&m, NULL));
    OK(pthread_mutex_lock(&m));
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_destroy(&m));
}

const struct subtest mutex_tests[] = {
    {"mutex_basic", basic},
    {"mutex_static_initialisers", static_initialisers},
    {"mutex_busy_elsewhere", busy_elsewhere},
    {"mutex_recursive_depth", recursive_depth},
    {"mutex_recursive_owner", recursive_owner},
    {"mutex_errorcheck", errorcheck},
    {"mutex_foreign_unlock", foreign_unlock},
    {"mutex_foreign_pingpong", foreign_pingpong},
    {"mutex_unlock_unlocked", unlock_unlocked},
    {"mutex_destroy_busy", destroy_busy},
    {"mutex_destroy_in_wait", destroy_in_wait},
    {"mutex_not_applicable", not_applicable},
    {"mutex_owner_not_inherited", owner_not_inherited},
    {"mutex_owner_not_inherited_timed", owner_not_inherited_timed},
    {"mutex_attribute_types", attribute_types},
    {NULL, NULL},
};

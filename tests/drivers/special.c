/* Objects that lockswap leaves to glibc: robust, priority-inheriting, priority-protected. And exact numbers of each. */
#include "driver.h"

#include <threads.h>

enum protocol_or_robust { ROBUST, INHERIT, PROTECT };

static void init_special(pthread_mutex_t *m, enum protocol_or_robust what, int type) {
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, type));
    if (what == ROBUST)
        OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    else
        OK(pthread_mutexattr_setprotocol(&attributes, what == INHERIT ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_PROTECT));
    if (what == PROTECT)
        OK(pthread_mutexattr_setprioceiling(&attributes, 10));
    OK(pthread_mutex_init(m, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
}

static void *lock_and_die(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    return NULL;
}

static int lock_form(pthread_mutex_t *m, int form) {
    struct timespec real = in_ms(CLOCK_REALTIME, 3000), mono = in_ms(CLOCK_MONOTONIC, 3000);
    switch (form) {
    case 0: return pthread_mutex_lock(m);
    case 1: return pthread_mutex_trylock(m);
    case 2: return pthread_mutex_timedlock(m, &real);
    default: return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &mono);
    }
}

static void robust_recovered(void) {
    FOR_EACH_KIND(k) {
        for (int form = 0; form < 4; form++) {
            pthread_mutex_t m;
            init_special(&m, ROBUST, k->type);
            RC(pthread_mutex_consistent(&m), EINVAL);
            OK(lock_form(&m, form));
            OK(pthread_mutex_unlock(&m));
            join(spawn(lock_and_die, &m));
            RC(lock_form(&m, form), EOWNERDEAD);
            OK(pthread_mutex_consistent(&m));
            RC(trylock_elsewhere(&m), EBUSY);
            OK(pthread_mutex_unlock(&m));
            OK(lock_form(&m, form));
            OK(pthread_mutex_unlock(&m));
            OK(pthread_mutex_destroy(&m));
        }
    }
}

static void robust_given_up(void) {
    for (int form = 0; form < 4; form++) {
        pthread_mutex_t m;
        init_special(&m, ROBUST, PTHREAD_MUTEX_NORMAL);
        join(spawn(lock_and_die, &m));
        RC(lock_form(&m, form), EOWNERDEAD);
        OK(pthread_mutex_unlock(&m));
        for (int again = 0; again < 2; again++) /* the timed forms of glibc 2.36 wait out their time instead */
            RC(lock_form(&m, again), ENOTRECOVERABLE);
        OK(pthread_mutex_destroy(&m));
    }
}

static void *wait_for_dead(void *mutex) {
    RC(pthread_mutex_lock(mutex), EOWNERDEAD);
    OK(pthread_mutex_consistent(mutex));
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

static atomic_int lingering;

static void *lock_linger_die(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    atomic_store(&lingering, 1);
    nap_ms(30);
    return NULL;
}

static void robust_waiter_told(void) {
    pthread_mutex_t m;
    init_special(&m, ROBUST, PTHREAD_MUTEX_NORMAL);
    pthread_t holder = spawn(lock_linger_die, &m);
    await(&lingering, 1);
    pthread_t waiter = spawn(wait_for_dead, &m);
    join(holder);
    join(waiter);
}

static int timed_out(void *mutex) {
    struct timespec until = in_ms(CLOCK_REALTIME, 10);
    RC(pthread_mutex_timedlock(mutex, &until), ETIMEDOUT);
    CHECK(now_on(CLOCK_REALTIME) >= until.tv_sec * SECOND + until.tv_nsec);
    return 0;
}

static void error_codes(enum protocol_or_robust what) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_special(&m, what, k->type);
        OK(pthread_mutex_lock(&m));
        RC(trylock_elsewhere(&m), EBUSY);
        OK(in_thread(timed_out, &m));
        if (k->type == PTHREAD_MUTEX_RECURSIVE) {
            OK(pthread_mutex_lock(&m));
            RC(unlock_elsewhere(&m), EPERM);
            OK(pthread_mutex_unlock(&m));
        }
        if (k->type == PTHREAD_MUTEX_ERRORCHECK) {
            RC(pthread_mutex_lock(&m), EDEADLK);
            RC(unlock_elsewhere(&m), EPERM);
        }
        if (what != ROBUST) /* glibc does not ask a robust one */
            RC(pthread_mutex_destroy(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

static void robust_error_codes(void) {
    error_codes(ROBUST);
}

static void inherit_error_codes(void) {
    error_codes(INHERIT);
}

static int counter;

static void *count_up(void *mutex) {
    for (int i = 0; i < 2000; i++) {
        OK(pthread_mutex_lock(mutex));
        counter++;
        OK(pthread_mutex_unlock(mutex));
    }
    return NULL;
}

static void exclusion(void) {
    for (int what = ROBUST; what <= INHERIT; what++) {
        pthread_mutex_t m;
        init_special(&m, what, PTHREAD_MUTEX_NORMAL);
        counter = 0;
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            threads[i] = spawn(count_up, &m);
        for (int i = 0; i < 3; i++)
            join(threads[i]);
        CHECK(counter == 6000);
    }
}

static void protect(void) {
    pthread_mutex_t m;
    init_special(&m, PROTECT, PTHREAD_MUTEX_NORMAL);
    int ceiling = 0, old = 0;
    OK(pthread_mutex_getprioceiling(&m, &ceiling));
    CHECK(ceiling == 10);
    RC(pthread_mutex_lock(&m), EINVAL); /* SCHED_OTHER has no priority to raise */
    struct sched_param five = {.sched_priority = 5};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &five) != 0)
        skip("no permission for real-time priorities");
    OK(pthread_mutex_lock(&m));
    RC(trylock_elsewhere(&m), EBUSY);
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_setprioceiling(&m, 12, &old));
    CHECK(old == 10);
    OK(pthread_mutex_getprioceiling(&m, &ceiling));
    CHECK(ceiling == 12);
    RC(pthread_mutex_setprioceiling(&m, 1000, &old), EINVAL);
    struct timespec later = in_ms(CLOCK_REALTIME, 3000);
    OK(pthread_mutex_timedlock(&m, &later));
    OK(pthread_mutex_unlock(&m));
    OK(pthread_mutex_destroy(&m));
}

/* Known numbers for the test that reads lockswap's statistics: 7 mutexes, 5 condition variables, 4 rwlocks, 3 spinlocks
 * to replace, 3 robust, 2 inheriting and 1 protected mutex and 5 process-shared objects to leave alone. */
static void count_private(void) {
    pthread_mutex_t m[7];
    pthread_cond_t c[5];
    pthread_rwlock_t rw[4];
    pthread_spinlock_t s[3];
    for (int i = 0; i < 7; i++) {
        init_kind(&m[i], kinds[i % 4].type);
        OK(pthread_mutex_lock(&m[i]));
        if (i < 5) {
            struct timespec past = {0, 0};
            OK(pthread_cond_init(&c[i], NULL));
            RC(pthread_cond_timedwait(&c[i], &m[i], &past), ETIMEDOUT);
        }
        OK(pthread_mutex_unlock(&m[i]));
    }
    for (int i = 0; i < 4; i++) {
        OK(pthread_rwlock_init(&rw[i], NULL));
        OK(pthread_rwlock_rdlock(&rw[i]));
        OK(pthread_rwlock_unlock(&rw[i]));
    }
    for (int i = 0; i < 3; i++) {
        OK(pthread_spin_init(&s[i], PTHREAD_PROCESS_PRIVATE));
        OK(pthread_spin_lock(&s[i]));
        OK(pthread_spin_unlock(&s[i]));
    }
}

static void count_shared(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_rwlockattr_t rwlock;
    pthread_mutex_t m[2];
    pthread_cond_t c;
    pthread_rwlock_t rw;
    pthread_spinlock_t s;
    OK(pthread_mutexattr_init(&mutex));
    OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    OK(pthread_condattr_init(&cond));
    OK(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
    OK(pthread_rwlockattr_init(&rwlock));
    OK(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&m[0], &mutex));
    OK(pthread_mutex_init(&m[1], &mutex));
    OK(pthread_cond_init(&c, &cond));
    OK(pthread_rwlock_init(&rw, &rwlock));
    OK(pthread_spin_init(&s, PTHREAD_PROCESS_SHARED));
    for (int i = 0; i < 2; i++) {
        OK(pthread_mutex_lock(&m[i]));
        OK(pthread_cond_signal(&c));
        OK(pthread_mutex_unlock(&m[i]));
    }
    OK(pthread_rwlock_wrlock(&rw));
    OK(pthread_rwlock_unlock(&rw));
    OK(pthread_spin_lock(&s));
    OK(pthread_spin_unlock(&s));
}

static void known_numbers(void) {
    static const enum protocol_or_robust specials[] = {ROBUST, ROBUST, ROBUST, INHERIT, INHERIT, PROTECT};
    count_private();
    count_shared();
    for (size_t i = 0; i < COUNT_OF(specials); i++) {
        pthread_mutex_t m;
        init_special(&m, specials[i], PTHREAD_MUTEX_NORMAL);
        for (int n = 0; n < 3 && specials[i] != PROTECT; n++) {
            OK(pthread_mutex_lock(&m));
            OK(pthread_mutex_unlock(&m));
        }
        OK(pthread_mutex_destroy(&m));
    }
}

static int kind_of(pthread_mutex_t *m) {
    int words[5]; /* glibc keeps the kind in the fifth */
    memcpy(words, m, sizeof words);
    return words[4] & 127;
}

/* The lock pthreadadapt makes default mutexes adaptive before their first use, and leaves the others alone. */
static void adaptive_by_default(void) {
    const char *preload = getenv("LD_PRELOAD"), *lock = getenv("LOCKSWAP_LOCK");
    if (!preload || !strstr(preload, "lockswap") || !lock || strcmp(lock, "pthreadadapt") != 0)
        skip("only pthreadadapt changes the kind");
    for (int form = 0; form < 4; form++) {
        pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
        OK(lock_form(&m, form));
        CHECK(kind_of(&m) == PTHREAD_MUTEX_ADAPTIVE_NP);
        RC(pthread_mutex_trylock(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
    }
    pthread_mutex_t m;
    OK(pthread_mutex_init(&m, NULL));
    CHECK(kind_of(&m) == PTHREAD_MUTEX_ADAPTIVE_NP);
    FOR_EACH_KIND(k) {
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        CHECK(kind_of(&m) == (k->type == PTHREAD_MUTEX_NORMAL ? PTHREAD_MUTEX_ADAPTIVE_NP : k->type));
        OK(pthread_mutex_unlock(&m));
    }
    mtx_t c11;
    CHECK(mtx_init(&c11, mtx_plain) == thrd_success && mtx_lock(&c11) == thrd_success);
    CHECK(kind_of((pthread_mutex_t *)&c11) == PTHREAD_MUTEX_ADAPTIVE_NP && mtx_unlock(&c11) == thrd_success);
    for (int what = ROBUST; what <= PROTECT; what++) {
        init_special(&m, what, PTHREAD_MUTEX_NORMAL);
        int kind = kind_of(&m);
        CHECK((kind & 3) == PTHREAD_MUTEX_NORMAL && kind != 0);
        if (what != PROTECT) {
            OK(pthread_mutex_lock(&m));
            CHECK(kind_of(&m) == kind);
            OK(pthread_mutex_unlock(&m));
        }
    }
}

const struct subtest special_tests[] = {
    {"robust_recovered", robust_recovered},
    {"robust_given_up", robust_given_up},
    {"robust_waiter_told", robust_waiter_told},
    {"robust_error_codes", robust_error_codes},
    {"inherit_error_codes", inherit_error_codes},
    {"special_exclusion", exclusion},
    {"protect", protect},
    {"adaptive_by_default", adaptive_by_default},
    {"known_numbers", known_numbers},
    {NULL, NULL},
};

/* Condition variables: clocks, arguments, time-outs that race signals, mixes with passed-through objects. */
#include "driver.h"

enum form { TIMED, CLOCK_REAL, CLOCK_MONO, FORMS };
static const clockid_t form_clock[] = {CLOCK_REALTIME, CLOCK_REALTIME, CLOCK_MONOTONIC};

static int wait_until(pthread_cond_t *c, pthread_mutex_t *m, enum form form, const struct timespec *until) {
    return form == TIMED ? pthread_cond_timedwait(c, m, until) : pthread_cond_clockwait(c, m, form_clock[form], until);
}

static void expect_on_time(pthread_cond_t *c, pthread_mutex_t *m, enum form form, clockid_t clock) {
    struct timespec until = in_ms(clock, 25);
    long long end = until.tv_sec * SECOND + until.tv_nsec;
    int rc = wait_until(c, m, form, &until);
    long long late = now_on(clock) - end;
    RC(rc, ETIMEDOUT);
    if (late < 0 || late > 5 * SECOND)
        fail_at(__FILE__, __LINE__, "form %d, clock %d: returned %lld us after its time", form, clock, late / 1000);
}

static void not_early(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        pthread_cond_t c = PTHREAD_COND_INITIALIZER;
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        for (enum form form = 0; form < FORMS; form++)
            expect_on_time(&c, &m, form, form_clock[form]);
        RC(trylock_elsewhere(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
        OK(pthread_cond_destroy(&c));
    }
}

static void own_clock(void) {
    clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
    for (int i = 0; i < 2; i++) {
        pthread_condattr_t attributes;
        OK(pthread_condattr_init(&attributes));
        RC(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
        OK(pthread_condattr_setclock(&attributes, clocks[i]));
        pthread_cond_t c;
        pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
        OK(pthread_cond_init(&c, &attributes));
        OK(pthread_condattr_destroy(&attributes));
        OK(pthread_mutex_lock(&m));
        expect_on_time(&c, &m, TIMED, clocks[i]);
        expect_on_time(&c, &m, CLOCK_REAL, CLOCK_REALTIME);
        expect_on_time(&c, &m, CLOCK_MONO, CLOCK_MONOTONIC);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_cond_destroy(&c));
    }
}

static void arguments(void) {
    static const struct timespec past[] = {{-1, 0}, {INT64_MIN, 999999999}, {0, 0}, {1, 1}};
    static const struct timespec bad[] = {{0, 1000000000}, {0, -1}, {-1, 1000000000}, {4000000000, -5}};
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        pthread_cond_t c = PTHREAD_COND_INITIALIZER;
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        for (enum form form = 0; form < FORMS; form++) {
            for (size_t i = 0; i < COUNT_OF(past); i++)
                RC(wait_until(&c, &m, form, &past[i]), ETIMEDOUT);
            for (size_t i = 0; i < COUNT_OF(bad); i++)
                RC(wait_until(&c, &m, form, &bad[i]), EINVAL);
        }
        struct timespec later = in_ms(CLOCK_REALTIME, 3000);
        RC(pthread_cond_clockwait(&c, &m, 77, &later), EINVAL);
        RC(pthread_cond_clockwait(&c, &m, CLOCK_THREAD_CPUTIME_ID, &later), EINVAL);
        RC(trylock_elsewhere(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_destroy(&m));
        OK(pthread_cond_destroy(&c));
    }
}

/* A token and one signal at a time. Waiters that time out leave without looking, so a signal that a timed-out waiter
 * swallowed would leave the token lying there for ever. */
struct tokens {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int patient, token, taken;
    long timeouts;
    bool over;
};

static void *patient_waiter(void *argument) {
    struct tokens *t = argument;
    OK(pthread_mutex_lock(&t->mutex));
    while (!t->over) {
        t->patient++;
        OK(pthread_cond_wait(&t->cond, &t->mutex));
        t->patient--;
        t->taken += t->token;
        t->token = 0;
    }
    OK(pthread_mutex_unlock(&t->mutex));
    return NULL;
}

static void *hasty_waiter(void *argument) {
    struct tokens *t = argument;
    uint64_t random = (uintptr_t)&random | 1;
    OK(pthread_mutex_lock(&t->mutex));
    while (!t->over) {
        enum form form = next_random(&random) % FORMS;
        struct timespec until = at_ns(now_on(form_clock[form]) + next_random(&random) % 200000);
        int rc = wait_until(&t->cond, &t->mutex, form, &until);
        if (rc == ETIMEDOUT) {
            t->timeouts++;
            continue;
        }
        OK(rc);
        t->taken += t->token;
        t->token = 0;
    }
    OK(pthread_mutex_unlock(&t->mutex));
    return NULL;
}

static void post_token(struct tokens *t, bool signal_outside) {
    OK(pthread_mutex_lock(&t->mutex));
    while (t->patient == 0) {
        OK(pthread_mutex_unlock(&t->mutex));
        sched_yield();
        OK(pthread_mutex_lock(&t->mutex));
    }
    t->token = 1;
    if (!signal_outside)
        OK(pthread_cond_signal(&t->cond));
    OK(pthread_mutex_unlock(&t->mutex));
    if (signal_outside)
        OK(pthread_cond_signal(&t->cond));
}

static void token_taken(struct tokens *t, int round) {
    long long give_up = now_on(CLOCK_MONOTONIC) + 5 * SECOND;
    for (bool taken = false; !taken; sched_yield()) {
        OK(pthread_mutex_lock(&t->mutex));
        taken = t->token == 0;
        OK(pthread_mutex_unlock(&t->mutex));
        if (now_on(CLOCK_MONOTONIC) > give_up)
            fail_at(__FILE__, __LINE__, "the signal of round %d was lost (%ld time-outs)", round, t->timeouts);
    }
}

static void timeouts_race_signals(void) {
    enum { ROUNDS = 3000 };
    struct tokens t = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(i ? hasty_waiter : patient_waiter, &t);
    for (int round = 0; round < ROUNDS; round++) {
        post_token(&t, false);
        token_taken(&t, round);
        if (round % 8 == 0)
            usleep(100);
    }
    OK(pthread_mutex_lock(&t.mutex));
    t.over = true;
    OK(pthread_cond_broadcast(&t.cond));
    OK(pthread_mutex_unlock(&t.mutex));
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    CHECK(t.taken == ROUNDS);
    if (t.timeouts == 0)
        note("no wait timed out, so nothing raced");
}

struct stormy {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool go;
};

static void *let_go(void *argument) {
    struct stormy *s = argument;
    nap_ms(25);
    OK(pthread_mutex_lock(&s->mutex));
    s->go = true;
    OK(pthread_cond_signal(&s->cond));
    OK(pthread_mutex_unlock(&s->mutex));
    return NULL;
}

static void wait_under_signals(void) {
    storm_start(pthread_self());
    for (int form = 0; form <= FORMS; form++) {
        struct stormy s = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
        pthread_t other = spawn(let_go, &s);
        OK(pthread_mutex_lock(&s.mutex));
        errno = 4242;
        while (!s.go) {
            struct timespec until = in_ms(form < FORMS ? form_clock[form] : 0, 8);
            int rc = form < FORMS ? wait_until(&s.cond, &s.mutex, form, &until) : pthread_cond_wait(&s.cond, &s.mutex);
            if (rc == ETIMEDOUT)
                CHECK(now_on(form_clock[form]) >= until.tv_sec * SECOND + until.tv_nsec);
            else
                OK(rc);
        }
        CHECK(errno == 4242);
        OK(pthread_mutex_unlock(&s.mutex));
        join(other);
    }
    storm_stop();
}

/* Waits once until the flag is set, with whatever mutex and condition variable it is given. */
struct mix {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};

static void *mix_other(void *argument) {
    struct mix *mix = argument;
    for (int i = 0; i < 200; i++) {
        OK(pthread_mutex_lock(&mix->mutex));
        while (mix->turn != 1) {
            struct timespec until = in_ms(CLOCK_REALTIME, 5000);
            OK(pthread_cond_timedwait(&mix->cond, &mix->mutex, &until));
        }
        mix->turn = 0;
        OK(pthread_cond_broadcast(&mix->cond));
        OK(pthread_mutex_unlock(&mix->mutex));
    }
    return NULL;
}

static void mix_run(struct mix *mix) {
    pthread_t other = spawn(mix_other, mix);
    for (int i = 0; i < 200; i++) {
        OK(pthread_mutex_lock(&mix->mutex));
        mix->turn = 1;
        OK(pthread_cond_broadcast(&mix->cond));
        while (mix->turn != 0)
            OK(pthread_cond_wait(&mix->cond, &mix->mutex));
        OK(pthread_mutex_unlock(&mix->mutex));
    }
    join(other);
    struct timespec past = {-1, 0};
    OK(pthread_mutex_lock(&mix->mutex));
    RC(pthread_cond_timedwait(&mix->cond, &mix->mutex, &past), ETIMEDOUT);
    RC(pthread_cond_clockwait(&mix->cond, &mix->mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
    OK(pthread_mutex_unlock(&mix->mutex));
    OK(pthread_mutex_destroy(&mix->mutex));
    OK(pthread_cond_destroy(&mix->cond));
}

static void mix_mutex(struct mix *mix, int what) {
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    if (what == 1)
        OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    if (what == 2)
        OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    if (what == 3)
        OK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    OK(pthread_mutex_init(&mix->mutex, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
}

/* Replaced and passed-through objects in one wait, both ways round. */
static void mixed_sharing(void) {
    for (int cond_shared = 0; cond_shared < 2; cond_shared++) {
        for (int what = 0; what < 4; what++) {
            struct mix mix = {.turn = 0};
            mix_mutex(&mix, what);
            pthread_condattr_t attributes;
            OK(pthread_condattr_init(&attributes));
            OK(pthread_condattr_setpshared(&attributes, cond_shared));
            OK(pthread_cond_init(&mix.cond, &attributes));
            OK(pthread_condattr_destroy(&attributes));
            mix_run(&mix);
        }
    }
}

static struct mix robust;

static void *wait_then_die_holding(void *argument) {
    OK(pthread_mutex_lock(&robust.mutex));
    nap_ms(20);
    OK(pthread_cond_signal(&robust.cond));
    return argument;
}

static void robust_owner_dies(void) {
    mix_mutex(&robust, 2);
    OK(pthread_cond_init(&robust.cond, NULL));
    OK(pthread_mutex_lock(&robust.mutex));
    pthread_t other = spawn(wait_then_die_holding, NULL);
    RC(pthread_cond_wait(&robust.cond, &robust.mutex), EOWNERDEAD);
    OK(pthread_mutex_consistent(&robust.mutex));
    OK(pthread_mutex_unlock(&robust.mutex));
    join(other);
    OK(trylock_elsewhere(&robust.mutex));
}

const struct subtest cond_time_tests[] = {
    {"cond_not_early", not_early},
    {"cond_own_clock", own_clock},
    {"cond_time_arguments", arguments},
    {"cond_timeouts_race_signals", timeouts_race_signals},
    {"cond_wait_under_signals", wait_under_signals},
    {"cond_mixed_sharing", mixed_sharing},
    {"cond_robust_owner_dies", robust_owner_dies},
    {NULL, NULL},
};

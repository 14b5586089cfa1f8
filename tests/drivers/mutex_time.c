/* Timed mutexes: clocks, arguments, signals during waits, errno. */
#include "driver.h"

static int timed_by(pthread_mutex_t *mutex, int form, long ms) {
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_REALTIME, CLOCK_MONOTONIC};
    struct timespec until = in_ms(clocks[form], ms);
    return form == 0 ? pthread_mutex_timedlock(mutex, &until) : pthread_mutex_clocklock(mutex, clocks[form], &until);
}

static int times_out(void *mutex) {
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int form = 0; form < 3; form++) {
        struct timespec until = in_ms(clocks[form], 25);
        long long end = until.tv_sec * SECOND + until.tv_nsec;
        RC(form == 0 ? pthread_mutex_timedlock(mutex, &until) : pthread_mutex_clocklock(mutex, clocks[form], &until),
           ETIMEDOUT);
        long long late = now_on(clocks[form]) - end;
        if (late < 0 || late > 5 * SECOND)
            fail_at(__FILE__, __LINE__, "form %d returned %lld us after its time", form, late / 1000);
    }
    return 0;
}

static void not_early(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        OK(in_thread(times_out, &m));
        if (k->type == PTHREAD_MUTEX_NORMAL || k->type == PTHREAD_MUTEX_ADAPTIVE_NP)
            OK(times_out(&m));
        OK(pthread_mutex_unlock(&m));
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

static int past_times(void *mutex) {
    static const struct timespec past[] = {{-1, 0}, {-1, 999999999}, {INT64_MIN, 0}, {0, 0}, {1, 5}};
    for (size_t i = 0; i < COUNT_OF(past); i++) {
        long long start = now_on(CLOCK_MONOTONIC);
        RC(pthread_mutex_timedlock(mutex, &past[i]), ETIMEDOUT);
        RC(pthread_mutex_clocklock(mutex, CLOCK_REALTIME, &past[i]), ETIMEDOUT);
        RC(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &past[i]), ETIMEDOUT);
        CHECK(now_on(CLOCK_MONOTONIC) - start < 3 * SECOND);
    }
    return 0;
}

static int bad_nanoseconds(void *mutex) {
    static const struct timespec bad[] = {{0, 1000000000}, {0, -1}, {4000000000, 1000000001}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        RC(pthread_mutex_timedlock(mutex, &bad[i]), EINVAL);
        RC(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &bad[i]), EINVAL);
    }
    return 0;
}

static void arguments_when_busy(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        OK(pthread_mutex_lock(&m));
        OK(in_thread(past_times, &m));
        OK(in_thread(bad_nanoseconds, &m));
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

/* Nothing about the time is looked at when the lock is free; an unknown clock is refused first. */
static void arguments_when_free(void) {
    static const struct timespec odd[] = {{0, 1000000000}, {0, -1}, {-1, 0}, {0, 0}};
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        for (size_t i = 0; i < COUNT_OF(odd); i++) {
            OK(pthread_mutex_timedlock(&m, &odd[i]));
            OK(pthread_mutex_unlock(&m));
            OK(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &odd[i]));
            OK(pthread_mutex_unlock(&m));
        }
        struct timespec later = in_ms(CLOCK_REALTIME, 1000);
        RC(pthread_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &later), EINVAL);
        RC(pthread_mutex_clocklock(&m, 77, &later), EINVAL);
        RC(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC_RAW, &later), EINVAL);
        OK(trylock_elsewhere(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

struct handover {
    pthread_mutex_t mutex;
    atomic_int ready;
    int form;
};

static void *take_timed(void *argument) {
    struct handover *h = argument;
    atomic_store(&h->ready, 1);
    OK(timed_by(&h->mutex, h->form, 10000));
    OK(pthread_mutex_unlock(&h->mutex));
    return NULL;
}

static void succeeds_in_time(void) {
    FOR_EACH_KIND(k) {
        for (int form = 0; form < 3; form++) {
            struct handover h = {.form = form};
            init_kind(&h.mutex, k->type);
            OK(pthread_mutex_lock(&h.mutex));
            pthread_t waiter = spawn(take_timed, &h);
            await(&h.ready, 1);
            nap_ms(5);
            OK(pthread_mutex_unlock(&h.mutex));
            join(waiter);
            OK(pthread_mutex_destroy(&h.mutex));
        }
    }
}

/* A waiter that gave up must not be handed the lock later, nor break the chain behind it. */
static void *give_up_often(void *mutex) {
    for (int i = 0; i < 150; i++) {
        int rc = timed_by(mutex, i % 3, i % 2);
        if (rc == 0)
            OK(pthread_mutex_unlock(mutex));
        else
            RC(rc, ETIMEDOUT);
    }
    return NULL;
}

static void *wait_always(void *mutex) {
    for (int i = 0; i < 100; i++) {
        OK(pthread_mutex_lock(mutex));
        usleep(500);
        OK(pthread_mutex_unlock(mutex));
    }
    return NULL;
}

static void abandoned_waits(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        init_kind(&m, k->type);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            threads[i] = spawn(i % 2 ? give_up_often : wait_always, &m);
        for (int i = 0; i < 4; i++)
            join(threads[i]);
        OK(pthread_mutex_lock(&m));
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
    }
}

static pthread_mutex_t stormy;
static atomic_int let_go;

static void *hold_a_while(void *ready) {
    OK(pthread_mutex_lock(&stormy));
    atomic_store((atomic_int *)ready, 1);
    await(&let_go, 1);
    nap_ms(10);
    OK(pthread_mutex_unlock(&stormy));
    return NULL;
}

static void lock_under_signals(void) {
    storm_start(pthread_self());
    FOR_EACH_KIND(k) {
        init_kind(&stormy, k->type);
        for (int form = 0; form < 4; form++) {
            atomic_int ready = 0;
            atomic_store(&let_go, 0);
            pthread_t holder = spawn(hold_a_while, &ready);
            await(&ready, 1);
            RC(timed_by(&stormy, form % 3, 3), ETIMEDOUT);
            atomic_store(&let_go, 1);
            OK(form == 3 ? pthread_mutex_lock(&stormy) : timed_by(&stormy, form, 10000));
            OK(pthread_mutex_unlock(&stormy));
            join(holder);
        }
        OK(pthread_mutex_destroy(&stormy));
    }
    storm_stop();
}

static void *contend(void *mutex) {
    errno = 4242;
    for (int i = 0; i < 1000; i++) {
        OK(pthread_mutex_lock(mutex));
        if (i % 100 == 0)
            sched_yield();
        OK(pthread_mutex_unlock(mutex));
        OK(timed_by(mutex, i % 3, 20000));
        OK(pthread_mutex_unlock(mutex));
        if (pthread_mutex_trylock(mutex) == 0)
            OK(pthread_mutex_unlock(mutex));
        CHECK(errno == 4242);
    }
    return NULL;
}

static void errno_untouched(void) {
    FOR_EACH_KIND(k) {
        pthread_mutex_t m;
        errno = 4242;
        init_kind(&m, k->type);
        pthread_t threads[2] = {spawn(contend, &m), spawn(contend, &m)};
        join(threads[0]);
        join(threads[1]);
        errno = 4242;
        OK(pthread_mutex_lock(&m));
        RC(trylock_elsewhere(&m), EBUSY);
        OK(pthread_mutex_unlock(&m));
        OK(pthread_mutex_destroy(&m));
        CHECK(errno == 4242);
    }
}

const struct subtest mutex_time_tests[] = {
    {"mutex_not_early", not_early},
    {"mutex_time_arguments_when_busy", arguments_when_busy},
    {"mutex_time_arguments_when_free", arguments_when_free},
    {"mutex_timed_succeeds", succeeds_in_time},
    {"mutex_abandoned_waits", abandoned_waits},
    {"mutex_lock_under_signals", lock_under_signals},
    {"mutex_errno_untouched", errno_untouched},
    {NULL, NULL},
};

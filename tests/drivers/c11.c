/* C11 <threads.h> locks, which glibc builds on the pthread ones. */
#include "driver.h"

#include <threads.h>

static int mtx_try_body(void *mutex) {
    int rc = mtx_trylock(mutex);
    if (rc == thrd_success)
        RC(mtx_unlock(mutex), thrd_success);
    return rc;
}

static int mtx_unlock_body(void *mutex) {
    return mtx_unlock(mutex);
}

static int run_thrd(int (*body)(void *), void *argument) {
    thrd_t thread;
    int result;
    RC(thrd_create(&thread, body, argument), thrd_success);
    RC(thrd_join(thread, &result), thrd_success);
    return result;
}

static void each_type(void) {
    int types[] = {mtx_plain, mtx_timed, mtx_plain | mtx_recursive, mtx_timed | mtx_recursive};
    for (int i = 0; i < 4; i++) {
        mtx_t m;
        bool recursive = types[i] & mtx_recursive;
        memset(&m, 0xA5, sizeof m);
        errno = 4242;
        RC(mtx_init(&m, types[i]), thrd_success);
        RC(mtx_lock(&m), thrd_success);
        RC(run_thrd(mtx_try_body, &m), thrd_busy);
        RC(mtx_trylock(&m), recursive ? thrd_success : thrd_busy);
        if (recursive) {
            RC(run_thrd(mtx_unlock_body, &m), thrd_error);
            RC(mtx_lock(&m), thrd_success);
            RC(mtx_unlock(&m), thrd_success);
            RC(mtx_unlock(&m), thrd_success);
        }
        RC(mtx_unlock(&m), thrd_success);
        RC(run_thrd(mtx_try_body, &m), thrd_success);
        if (recursive)
            RC(mtx_unlock(&m), thrd_error);
        mtx_destroy(&m);
        CHECK(errno == 4242);
    }
}

static int timed_lock_body(void *mutex) {
    struct timespec until = in_ms(CLOCK_REALTIME, 25), past = {-1, 0}, bad = {0, 1000000000};
    RC(mtx_timedlock(mutex, &until), thrd_timedout);
    CHECK(now_on(CLOCK_REALTIME) >= until.tv_sec * SECOND + until.tv_nsec);
    RC(mtx_timedlock(mutex, &past), thrd_timedout);
    RC(mtx_timedlock(mutex, &bad), thrd_error);
    return 0;
}

static int timed_take_body(void *mutex) {
    struct timespec until = in_ms(CLOCK_REALTIME, 9000);
    RC(mtx_timedlock(mutex, &until), thrd_success);
    RC(mtx_unlock(mutex), thrd_success);
    return 0;
}

static void timed(void) {
    int types[] = {mtx_timed, mtx_timed | mtx_recursive};
    for (int i = 0; i < 2; i++) {
        mtx_t m;
        RC(mtx_init(&m, types[i]), thrd_success);
        RC(mtx_lock(&m), thrd_success);
        RC(run_thrd(timed_lock_body, &m), 0);
        thrd_t taker;
        RC(thrd_create(&taker, timed_take_body, &m), thrd_success);
        settle();
        RC(mtx_unlock(&m), thrd_success);
        RC(thrd_join(taker, NULL), thrd_success);
        mtx_destroy(&m);
    }
}

struct pair {
    mtx_t mutex;
    cnd_t cond;
    int turn, counter;
};

static int other_side(void *argument) {
    struct pair *p = argument;
    for (int i = 0; i < 2000; i++) {
        RC(mtx_lock(&p->mutex), thrd_success);
        struct timespec until = in_ms(CLOCK_REALTIME, 9000);
        while (p->turn != 1)
            RC(cnd_timedwait(&p->cond, &p->mutex, &until), thrd_success);
        p->turn = 0;
        p->counter++;
        RC(i % 2 ? cnd_broadcast(&p->cond) : cnd_signal(&p->cond), thrd_success);
        RC(mtx_unlock(&p->mutex), thrd_success);
    }
    return 0;
}

static void conditions(void) {
    int types[] = {mtx_plain, mtx_timed | mtx_recursive};
    for (int t = 0; t < 2; t++) {
        struct pair p = {.turn = 0, .counter = 0};
        RC(mtx_init(&p.mutex, types[t]), thrd_success);
        memset(&p.cond, 0xA5, sizeof p.cond);
        RC(cnd_init(&p.cond), thrd_success);
        thrd_t other;
        RC(thrd_create(&other, other_side, &p), thrd_success);
        for (int i = 0; i < 2000; i++) {
            RC(mtx_lock(&p.mutex), thrd_success);
            p.turn = 1;
            RC(cnd_signal(&p.cond), thrd_success);
            while (p.turn != 0)
                RC(cnd_wait(&p.cond, &p.mutex), thrd_success);
            RC(mtx_unlock(&p.mutex), thrd_success);
        }
        RC(thrd_join(other, NULL), thrd_success);
        CHECK(p.counter == 2000);
        RC(cnd_broadcast(&p.cond), thrd_success);
        cnd_destroy(&p.cond);
        mtx_destroy(&p.mutex);
    }
}

static void condition_times(void) {
    mtx_t m;
    cnd_t c;
    RC(mtx_init(&m, mtx_plain), thrd_success);
    RC(cnd_init(&c), thrd_success);
    RC(mtx_lock(&m), thrd_success);
    struct timespec until = in_ms(CLOCK_REALTIME, 25), past = {-1, 0}, bad = {0, -1};
    RC(cnd_timedwait(&c, &m, &until), thrd_timedout);
    CHECK(now_on(CLOCK_REALTIME) >= until.tv_sec * SECOND + until.tv_nsec);
    RC(cnd_timedwait(&c, &m, &past), thrd_timedout);
    RC(cnd_timedwait(&c, &m, &bad), thrd_error);
    RC(run_thrd(mtx_try_body, &m), thrd_busy);
    RC(mtx_unlock(&m), thrd_success);
    RC(run_thrd(mtx_try_body, &m), thrd_success);
    cnd_destroy(&c);
    mtx_destroy(&m);
}

static mtx_t counter_mutex;
static int counter;

static int count_up(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        if (i % 5)
            RC(mtx_lock(&counter_mutex), thrd_success);
        else
            while (mtx_trylock(&counter_mutex) != thrd_success)
                thrd_yield();
        int seen = counter;
        atomic_signal_fence(memory_order_seq_cst);
        counter = seen + 1;
        RC(mtx_unlock(&counter_mutex), thrd_success);
    }
    return 0;
}

static void exclusion(void) {
    int types[] = {mtx_plain, mtx_timed, mtx_plain | mtx_recursive};
    for (int t = 0; t < 3; t++) {
        RC(mtx_init(&counter_mutex, types[t]), thrd_success);
        counter = 0;
        thrd_t threads[3];
        for (int i = 0; i < 3; i++)
            RC(thrd_create(&threads[i], count_up, NULL), thrd_success);
        for (int i = 0; i < 3; i++)
            RC(thrd_join(threads[i], NULL), thrd_success);
        CHECK(counter == 60000);
        mtx_destroy(&counter_mutex);
    }
}

const struct subtest c11_tests[] = {
    {"c11_each_type", each_type},
    {"c11_timed", timed},
    {"c11_conditions", conditions},
    {"c11_condition_times", condition_times},
    {"c11_exclusion", exclusion},
    {NULL, NULL},
};

/* Cancellation: deferred in condition waits, asynchronous in mutex waits. */
#include "driver.h"

struct victim {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int form, depth;
    bool asynchronous;
    atomic_int waiting, cleaned, woken;
    bool go;
};

static int wait_once(struct victim *v) {
    struct timespec real = in_ms(CLOCK_REALTIME, 60000), mono = in_ms(CLOCK_MONOTONIC, 60000);
    switch (v->form) {
    case 0: return pthread_cond_wait(&v->cond, &v->mutex);
    case 1: return pthread_cond_timedwait(&v->cond, &v->mutex, &real);
    case 2: return pthread_cond_clockwait(&v->cond, &v->mutex, CLOCK_REALTIME, &real);
    default: return pthread_cond_clockwait(&v->cond, &v->mutex, CLOCK_MONOTONIC, &mono);
    }
}

/* Runs with the mutex held again, as deep as before the wait. */
static void clean_up(void *argument) {
    struct victim *v = argument;
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL)); /* pthread_join would act on a late request */
    RC(trylock_elsewhere(&v->mutex), EBUSY);
    for (int i = 0; i < v->depth; i++)
        OK(pthread_mutex_unlock(&v->mutex));
    atomic_fetch_add(&v->cleaned, 1);
}

static void *wait_to_be_cancelled(void *argument) {
    struct victim *v = argument;
    for (int i = 0; i < v->depth; i++)
        OK(pthread_mutex_lock(&v->mutex));
    pthread_cleanup_push(clean_up, v);
    if (v->asynchronous)
        OK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
    atomic_store(&v->waiting, 1);
    while (!v->go)
        OK(wait_once(v));
    atomic_fetch_add(&v->woken, 1);
    pthread_cleanup_pop(1);
    return NULL;
}

static void victim_init(struct victim *v, int type, int form, int depth) {
    memset(v, 0, sizeof *v);
    init_kind(&v->mutex, type);
    OK(pthread_cond_init(&v->cond, NULL));
    v->form = form;
    v->depth = depth;
}

static void cancel_waiter(int type, int form, int depth, bool asynchronous) {
    struct victim v;
    victim_init(&v, type, form, depth);
    v.asynchronous = asynchronous;
    pthread_t thread = spawn(wait_to_be_cancelled, &v);
    await(&v.waiting, 1);
    nap_ms(4);
    OK(pthread_cancel(thread));
    CHECK(join(thread) == PTHREAD_CANCELED);
    CHECK(atomic_load(&v.cleaned) == 1);
    CHECK(atomic_load(&v.woken) == 0);
    OK(trylock_elsewhere(&v.mutex));
    OK(pthread_cond_signal(&v.cond));
    OK(pthread_cond_destroy(&v.cond));
    OK(pthread_mutex_destroy(&v.mutex));
}

static void cancel_one(int type, int form, int depth) {
    cancel_waiter(type, form, depth, false);
}

/* A thread that may be cancelled at any instruction, but sleeps in a condition wait when that happens. */
static void async_in_cond_wait(void) {
    for (int form = 0; form < 4; form++)
        cancel_waiter(PTHREAD_MUTEX_NORMAL, form, 1, true);
}

static void in_cond_wait(void) {
    FOR_EACH_KIND(k)
        for (int form = 0; form < 4; form++)
            cancel_one(k->type, form, 1);
}

static void in_cond_wait_recursive(void) {
    for (int form = 0; form < 4; form++)
        cancel_one(PTHREAD_MUTEX_RECURSIVE, form, 3);
}

static void pending_before_wait(void) {
    FOR_EACH_KIND(k) {
        struct victim v;
        victim_init(&v, k->type, 0, 1);
        OK(pthread_mutex_lock(&v.mutex));
        pthread_t thread = spawn(wait_to_be_cancelled, &v);
        OK(pthread_cancel(thread));
        settle();
        CHECK(atomic_load(&v.cleaned) == 0); /* pthread_mutex_lock is no cancellation point */
        OK(pthread_mutex_unlock(&v.mutex));
        CHECK(join(thread) == PTHREAD_CANCELED);
        CHECK(atomic_load(&v.cleaned) == 1);
        OK(trylock_elsewhere(&v.mutex));
    }
}

static void *patient_waiter(void *argument) {
    struct victim *v = argument;
    OK(pthread_mutex_lock(&v->mutex));
    atomic_fetch_add(&v->waiting, 1);
    while (!v->go)
        OK(pthread_cond_wait(&v->cond, &v->mutex));
    v->go = false;
    atomic_fetch_add(&v->woken, 1);
    OK(pthread_mutex_unlock(&v->mutex));
    return NULL;
}

static void unlock_only(void *mutex) {
    OK(pthread_mutex_unlock(mutex));
}

/* Takes part without a predicate of its own, so that a swallowed signal would be lost. */
static void *hasty_waiter(void *argument) {
    struct victim *v = argument;
    OK(pthread_mutex_lock(&v->mutex));
    pthread_cleanup_push(unlock_only, &v->mutex);
    atomic_fetch_add(&v->waiting, 1);
    while (!v->go)
        OK(pthread_cond_wait(&v->cond, &v->mutex));
    v->go = false;
    atomic_fetch_add(&v->woken, 1);
    pthread_cleanup_pop(1);
    return NULL;
}

/* Two wait, one is cancelled while one signal is sent: the signal wakes one of them, never none. */
static void swallows_no_signal(void) {
    for (int round = 0; round < 150; round++) {
        struct victim v;
        victim_init(&v, PTHREAD_MUTEX_NORMAL, 0, 1);
        bool hasty_first = round % 2;
        pthread_t first = spawn(hasty_first ? hasty_waiter : patient_waiter, &v);
        await(&v.waiting, 1);
        pthread_t second = spawn(hasty_first ? patient_waiter : hasty_waiter, &v);
        await(&v.waiting, 2);
        pthread_t hasty = hasty_first ? first : second, patient = hasty_first ? second : first;
        OK(pthread_mutex_lock(&v.mutex));
        v.go = true;
        OK(pthread_cond_signal(&v.cond));
        if (round % 4 < 2)
            OK(pthread_cancel(hasty));
        OK(pthread_mutex_unlock(&v.mutex));
        if (round % 4 >= 2)
            OK(pthread_cancel(hasty));
        join(hasty);
        long long give_up = now_on(CLOCK_MONOTONIC) + 5 * SECOND;
        while (atomic_load(&v.woken) == 0) {
            if (now_on(CLOCK_MONOTONIC) > give_up)
                fail_at(__FILE__, __LINE__, "round %d: the cancelled waiter swallowed the signal", round);
            usleep(50);
        }
        OK(pthread_mutex_lock(&v.mutex));
        v.go = true;
        OK(pthread_cond_broadcast(&v.cond));
        OK(pthread_mutex_unlock(&v.mutex));
        join(patient);
    }
}

static void *disabled_waiter(void *argument) {
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
    patient_waiter(argument);
    return (void *)7;
}

static void disabled(void) {
    struct victim v;
    victim_init(&v, PTHREAD_MUTEX_NORMAL, 0, 1);
    pthread_t thread = spawn(disabled_waiter, &v);
    await(&v.waiting, 1);
    OK(pthread_cancel(thread));
    settle();
    OK(pthread_mutex_lock(&v.mutex));
    v.go = true;
    OK(pthread_cond_signal(&v.cond));
    OK(pthread_mutex_unlock(&v.mutex));
    CHECK(join(thread) == (void *)7);
    CHECK(atomic_load(&v.woken) == 1);
}

/* The cancelled waiter has been signalled but cannot get the mutex back yet. */
static void while_reacquiring(void) {
    for (int round = 0; round < 10; round++) {
        struct victim v;
        victim_init(&v, kinds[round % 4].type, round % 4, 1);
        pthread_t thread = spawn(wait_to_be_cancelled, &v);
        await(&v.waiting, 1);
        OK(pthread_mutex_lock(&v.mutex));
        v.go = true;
        OK(pthread_cond_signal(&v.cond));
        nap_ms(3);
        OK(pthread_cancel(thread));
        nap_ms(3);
        OK(pthread_mutex_unlock(&v.mutex));
        join(thread);
        CHECK(atomic_load(&v.cleaned) == 1);
        OK(trylock_elsewhere(&v.mutex));
    }
}

struct target {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    atomic_int ready, got;
    int form;
};

static void *lock_deferred(void *argument) {
    struct target *t = argument;
    atomic_store(&t->ready, 1);
    struct timespec until = in_ms(CLOCK_REALTIME, 9000);
    if (t->form == 0)
        OK(pthread_mutex_lock(&t->mutex));
    else
        OK(pthread_mutex_timedlock(&t->mutex, &until));
    atomic_store(&t->got, 1);
    OK(pthread_mutex_unlock(&t->mutex));
    OK(pthread_rwlock_rdlock(&t->rwlock));
    OK(pthread_rwlock_unlock(&t->rwlock));
    OK(pthread_rwlock_wrlock(&t->rwlock));
    OK(pthread_rwlock_unlock(&t->rwlock));
    atomic_store(&t->got, 2);
    pthread_testcancel();
    return NULL;
}

static void not_in_mutex_lock(void) {
    for (int form = 0; form < 2; form++) {
        struct target t = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rwlock = PTHREAD_RWLOCK_INITIALIZER, .form = form};
        OK(pthread_mutex_lock(&t.mutex));
        OK(pthread_rwlock_wrlock(&t.rwlock));
        pthread_t thread = spawn(lock_deferred, &t);
        await(&t.ready, 1);
        settle();
        OK(pthread_cancel(thread));
        settle();
        OK(pthread_mutex_unlock(&t.mutex));
        await(&t.got, 1);
        settle();
        OK(pthread_rwlock_unlock(&t.rwlock));
        CHECK(join(thread) == PTHREAD_CANCELED);
        CHECK(atomic_load(&t.got) == 2);
        OK(trylock_elsewhere(&t.mutex));
    }
}

static void *lock_asynchronously(void *argument) {
    struct target *t = argument;
    OK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
    atomic_store(&t->ready, 1);
    pthread_mutex_lock(&t->mutex);
    atomic_store(&t->got, 1);
    return NULL;
}

static void *lock_normally(void *argument) {
    struct target *t = argument;
    OK(pthread_mutex_lock(&t->mutex));
    atomic_fetch_add(&t->got, 1);
    OK(pthread_mutex_unlock(&t->mutex));
    return NULL;
}

/* The victim is joined while the mutex is still held: its stack is gone before anyone hands the lock on. */
static void async_round(int type, int before, int after) {
    struct target t = {.ready = 0, .got = 0};
    pthread_t others[4];
    init_kind(&t.mutex, type);
    OK(pthread_mutex_lock(&t.mutex));
    for (int i = 0; i < before; i++)
        others[i] = spawn(lock_normally, &t);
    if (before)
        settle();
    pthread_t victim = spawn(lock_asynchronously, &t);
    await(&t.ready, 1);
    settle();
    for (int i = 0; i < after; i++)
        others[before + i] = spawn(lock_normally, &t);
    if (after)
        settle();
    OK(pthread_cancel(victim));
    CHECK(join(victim) == PTHREAD_CANCELED);
    CHECK(atomic_load(&t.got) == 0);
    RC(trylock_elsewhere(&t.mutex), EBUSY);
    OK(pthread_mutex_unlock(&t.mutex));
    for (int i = 0; i < before + after; i++)
        join(others[i]);
    CHECK(atomic_load(&t.got) == before + after);
    for (int i = 0; i < 20; i++) {
        OK(pthread_mutex_lock(&t.mutex));
        OK(pthread_mutex_unlock(&t.mutex));
        OK(trylock_elsewhere(&t.mutex));
    }
}

static void async_alone(void) {
    FOR_EACH_KIND(k)
        for (int round = 0; round < 3; round++)
            async_round(k->type, 0, 0);
}

static void async_in_queue(void) {
    FOR_EACH_KIND(k) {
        async_round(k->type, 1, 0);
        async_round(k->type, 0, 1);
        async_round(k->type, 1, 1);
    }
}

const struct subtest cancel_tests[] = {
    {"cancel_in_cond_wait", in_cond_wait},
    {"cancel_in_cond_wait_recursive", in_cond_wait_recursive},
    {"cancel_pending_before_wait", pending_before_wait},
    {"cancel_swallows_no_signal", swallows_no_signal},
    {"cancel_disabled", disabled},
    {"cancel_while_reacquiring", while_reacquiring},
    {"cancel_not_in_mutex_lock", not_in_mutex_lock},
    {"cancel_async_in_cond_wait", async_in_cond_wait},
    {"cancel_async_alone", async_alone},
    {"cancel_async_in_queue", async_in_queue},
    {NULL, NULL},
};

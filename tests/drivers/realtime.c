/* SCHED_FIFO waiters on the CPU of a holder that they outrank: a waiter that never sleeps starves it for ever. */
#include "driver.h"

enum what { MUTEX, MUTEX_TIMED, RW_READ, RW_WRITE, SPIN, WHATS };

struct object {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    enum what what;
    atomic_int held, got;
};

static void lock_as_holder(struct object *o) {
    switch (o->what) {
    case MUTEX:
    case MUTEX_TIMED: OK(pthread_mutex_lock(&o->mutex)); break;
    case RW_READ:
    case RW_WRITE: OK(pthread_rwlock_wrlock(&o->rwlock)); break;
    default: OK(pthread_spin_lock(&o->spin)); break;
    }
}

static void lock_as_waiter(struct object *o) {
    struct timespec later = in_ms(CLOCK_REALTIME, 15000);
    switch (o->what) {
    case MUTEX: OK(pthread_mutex_lock(&o->mutex)); break;
    case MUTEX_TIMED: OK(pthread_mutex_timedlock(&o->mutex, &later)); break;
    case RW_READ: OK(pthread_rwlock_rdlock(&o->rwlock)); break;
    case RW_WRITE: OK(pthread_rwlock_wrlock(&o->rwlock)); break;
    default: OK(pthread_spin_lock(&o->spin)); break;
    }
}

static void unlock(struct object *o) {
    switch (o->what) {
    case MUTEX:
    case MUTEX_TIMED: OK(pthread_mutex_unlock(&o->mutex)); break;
    case RW_READ:
    case RW_WRITE: OK(pthread_rwlock_unlock(&o->rwlock)); break;
    default: OK(pthread_spin_unlock(&o->spin)); break;
    }
}

/* Holds while it computes: needs the CPU to get to its unlock. */
static void *hold(void *argument) {
    struct object *o = argument;
    lock_as_holder(o);
    atomic_store(&o->held, 1);
    struct timespec spent;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    while (spent.tv_nsec < 30 * MS && spent.tv_sec == 0);
    unlock(o);
    return NULL;
}

static void *want(void *argument) {
    struct object *o = argument;
    lock_as_waiter(o);
    atomic_fetch_add(&o->got, 1);
    unlock(o);
    return NULL;
}

static pthread_t spawn_pinned(void *(*body)(void *), void *argument, int policy, int priority) {
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    OK(pthread_attr_init(&attributes));
    OK(pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus));
    OK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED));
    OK(pthread_attr_setschedpolicy(&attributes, policy));
    OK(pthread_attr_setschedparam(&attributes, &(struct sched_param){.sched_priority = priority}));
    int rc = pthread_create(&thread, &attributes, body, argument);
    if (rc == EPERM)
        skip("no permission for SCHED_FIFO");
    if (rc == EINVAL)
        skip("CPU 0 is not ours");
    OK(rc);
    return thread;
}

/* Waiters of these priorities, the second of which comes later. */
static void starve(enum what what, int holder_policy, int holder_priority, int first, int second) {
    const int priorities[] = {first, second};
    struct object o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rwlock = PTHREAD_RWLOCK_INITIALIZER, .what = what};
    OK(pthread_spin_init(&o.spin, 0));
    pthread_t waiters[2], holder = spawn_pinned(hold, &o, holder_policy, holder_priority);
    await(&o.held, 1);
    for (int i = 0; i < 2; i++)
        waiters[i] = spawn_pinned(want, &o, SCHED_FIFO, priorities[i]);
    join(holder);
    for (int i = 0; i < 2; i++)
        join(waiters[i]);
    CHECK(atomic_load(&o.got) == 2);
}

/* The watchdog's thread must run though the others occupy CPU 0. */
static void stay_off_cpu_0(void) {
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    if (!CPU_ISSET(0, &cpus) || CPU_COUNT(&cpus) < 2)
        skip("needs CPU 0 and another one");
    CPU_CLR(0, &cpus);
    CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
}

static void starve_ordinary(enum what what) { starve(what, SCHED_OTHER, 0, 20, 20); }

/* Linux never lets the holder run while a waiter does; an ordinary one gets 5 % of the time. */
static void starve_realtime(enum what what) { starve(what, SCHED_FIFO, 5, 20, 21); }

static void fifo(void) {
    stay_off_cpu_0();
    for (enum what what = 0; what < SPIN; what++)
        starve_ordinary(what);
}

static void fifo_over_fifo(void) {
    stay_off_cpu_0();
    for (enum what what = 0; what < SPIN; what++)
        starve_realtime(what);
}

/* glibc's spinlock never sleeps: with it these would hang, so they run only where the spinlock is replaced. */
static void skip_on_glibcs_spinlock(void) {
    const char *preload = getenv("LD_PRELOAD"), *spin = getenv("LOCKSWAP_SPIN"), *lock = getenv("LOCKSWAP_LOCK");
    if (!preload || !strstr(preload, "lockswap") || (spin && strcmp(spin, "pthread") == 0) ||
        (lock && (strcmp(lock, "interposed-pthread") == 0 || strcmp(lock, "pthreadadapt") == 0)))
        skip("glibc's spinlock starves the holder");
}

static void fifo_spin(void) {
    skip_on_glibcs_spinlock();
    stay_off_cpu_0();
    starve_ordinary(SPIN);
}

static void fifo_over_fifo_spin(void) {
    skip_on_glibcs_spinlock();
    stay_off_cpu_0();
    starve_realtime(SPIN);
}

struct shared_cond {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};

static void *cond_side(void *argument) {
    struct shared_cond *c = argument;
    for (int i = 0; i < 200; i++) {
        OK(pthread_mutex_lock(&c->mutex));
        while (c->turn % 2 != 1)
            OK(pthread_cond_wait(&c->cond, &c->mutex));
        c->turn++;
        OK(pthread_cond_signal(&c->cond));
        OK(pthread_mutex_unlock(&c->mutex));
    }
    return NULL;
}

static void *cond_other_side(void *argument) {
    struct shared_cond *c = argument;
    for (int i = 0; i < 200; i++) {
        OK(pthread_mutex_lock(&c->mutex));
        while (c->turn % 2 != 0)
            OK(pthread_cond_wait(&c->cond, &c->mutex));
        c->turn++;
        OK(pthread_cond_signal(&c->cond));
        OK(pthread_mutex_unlock(&c->mutex));
    }
    return NULL;
}

static void fifo_cond(void) {
    stay_off_cpu_0();
    struct shared_cond c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    pthread_t high = spawn_pinned(cond_side, &c, SCHED_FIFO, 20);
    pthread_t low = spawn_pinned(cond_other_side, &c, SCHED_OTHER, 0);
    join(high);
    join(low);
    CHECK(c.turn == 400);
}

/* Waiters of several priorities, the lowest of which came first: each takes a number when it gets the mutex. */
enum { WAITERS = 4 };
struct ordered {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool on_cond, timed, open;
    int served;
    int place[WAITERS];
    atomic_int waiting;
};
struct ordered_waiter {
    struct ordered *shared;
    int index;
};

static void *take_number(void *argument) {
    struct ordered_waiter *w = argument;
    struct ordered *o = w->shared;
    struct timespec later = in_ms(CLOCK_REALTIME, 15000);
    if (!o->on_cond)
        atomic_fetch_add(&o->waiting, 1);
    OK(o->timed ? pthread_mutex_timedlock(&o->mutex, &later) : pthread_mutex_lock(&o->mutex));
    if (o->on_cond)
        atomic_fetch_add(&o->waiting, 1);
    while (o->on_cond && !o->open)
        OK(pthread_cond_wait(&o->cond, &o->mutex));
    o->place[w->index] = o->served++;
    /* The next signal comes from here: only one waiter is awake at a time. */
    if (o->on_cond)
        OK(pthread_cond_signal(&o->cond));
    OK(pthread_mutex_unlock(&o->mutex));
    return NULL;
}

static void serve_in_order(bool on_cond, bool timed) {
    struct ordered o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    o.on_cond = on_cond;
    o.timed = timed;
    struct ordered_waiter all[WAITERS];
    pthread_t threads[WAITERS];
    if (!on_cond)
        OK(pthread_mutex_lock(&o.mutex));
    for (int i = 0; i < WAITERS; i++) {
        all[i] = (struct ordered_waiter){&o, i};
        threads[i] = spawn_pinned(take_number, &all[i], SCHED_FIFO, 10 + i);
        await(&o.waiting, i + 1);
        /* Until it sleeps: spinning ends after 50 ms at the latest. */
        nap_ms(60);
    }
    if (on_cond) {
        OK(pthread_mutex_lock(&o.mutex));
        o.open = true;
        OK(pthread_cond_signal(&o.cond));
    }
    OK(pthread_mutex_unlock(&o.mutex));
    for (int i = 0; i < WAITERS; i++)
        join(threads[i]);
    for (int i = 0; i < WAITERS; i++)
        if (o.place[i] != WAITERS - 1 - i)
            fail_at(__FILE__, __LINE__, "the waiter of priority %d came %d. of %d", 10 + i, o.place[i] + 1, WAITERS);
}

/* Only where the lock serves by priority, which the caller knows: it says so in the environment. */
static void by_priority(void) {
    if (!getenv("DRIVER_BY_PRIORITY"))
        skip("not every lock serves by priority: set DRIVER_BY_PRIORITY for one that does");
    stay_off_cpu_0();
    for (int round = 0; round < 2; round++) {
        serve_in_order(false, false);
        serve_in_order(false, true);
    }
}

static void cond_by_priority(void) {
    stay_off_cpu_0();
    for (int round = 0; round < 2; round++)
        serve_in_order(true, false);
}

const struct subtest realtime_tests[] = {
    {"realtime_by_priority", by_priority},
    {"realtime_cond_by_priority", cond_by_priority},
    {"realtime_fifo", fifo},
    {"realtime_fifo_spin", fifo_spin},
    {"realtime_fifo_over_fifo", fifo_over_fifo},
    {"realtime_fifo_over_fifo_spin", fifo_over_fifo_spin},
    {"realtime_fifo_cond", fifo_cond},
    {NULL, NULL},
};

/* Spinlocks. */
#include "driver.h"

static int try_and_undo(void *lock) {
    int rc = pthread_spin_trylock(lock);
    if (rc == 0)
        OK(pthread_spin_unlock(lock));
    return rc;
}

static void basic(void) {
    int sharing[] = {PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED};
    for (int i = 0; i < 2; i++) {
        pthread_spinlock_t s = 12345;
        errno = 4242;
        OK(pthread_spin_init(&s, sharing[i]));
        OK(pthread_spin_lock(&s));
        RC(pthread_spin_trylock(&s), EBUSY);
        RC(in_thread(try_and_undo, (void *)&s), EBUSY);
        OK(pthread_spin_unlock(&s));
        OK(in_thread(try_and_undo, (void *)&s));
        OK(pthread_spin_trylock(&s));
        RC(pthread_spin_trylock(&s), EBUSY);
        OK(pthread_spin_unlock(&s));
        OK(pthread_spin_destroy(&s));
        CHECK(errno == 4242);
    }
}

static int just_unlock(void *lock) {
    return pthread_spin_unlock(lock);
}

static void foreign_unlock(void) {
    pthread_spinlock_t s;
    OK(pthread_spin_init(&s, 0));
    for (int i = 0; i < 50; i++) {
        OK(pthread_spin_lock(&s));
        OK(in_thread(just_unlock, (void *)&s));
        OK(pthread_spin_trylock(&s));
        RC(in_thread(try_and_undo, (void *)&s), EBUSY);
        OK(pthread_spin_unlock(&s));
    }
}

struct packed {
    int before;
    pthread_spinlock_t lock;
    int after, counter;
};

static void *count_up(void *argument) {
    struct packed *p = argument;
    for (int i = 0; i < 50000; i++) {
        if (i % 4)
            OK(pthread_spin_lock(&p->lock));
        else
            while (pthread_spin_trylock(&p->lock) != 0)
                sched_yield();
        int seen = p->counter;
        atomic_signal_fence(memory_order_seq_cst);
        if (i % 100 == 0)
            sched_yield(); /* long enough that a second thread would get in */
        p->counter = seen + 1;
        OK(pthread_spin_unlock(&p->lock));
    }
    return NULL;
}

/* Four bytes with neighbours that must survive. */
static void exclusion(void) {
    struct packed p = {.before = 0x11111111, .after = 0x22222222};
    OK(pthread_spin_init(&p.lock, PTHREAD_PROCESS_PRIVATE));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(count_up, &p);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    CHECK(p.counter == 150000);
    CHECK(p.before == 0x11111111 && p.after == 0x22222222);
}

static atomic_int gone;

static void *hold_long(void *lock) {
    OK(pthread_spin_lock(lock));
    atomic_store(&gone, 1);
    nap_ms(50);
    OK(pthread_spin_unlock(lock));
    return NULL;
}

static void long_hold(void) {
    pthread_spinlock_t s;
    OK(pthread_spin_init(&s, 0));
    pthread_t holder = spawn(hold_long, (void *)&s);
    await(&gone, 1);
    OK(pthread_spin_lock(&s));
    OK(pthread_spin_unlock(&s));
    join(holder);
}

static void held_at_once(void) {
    static pthread_spinlock_t locks[5000];
    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        OK(pthread_spin_init(&locks[i], i % 2));
        OK(pthread_spin_lock(&locks[i]));
    }
    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        RC(pthread_spin_trylock(&locks[i]), EBUSY);
        OK(pthread_spin_unlock(&locks[i]));
        OK(pthread_spin_destroy(&locks[i]));
    }
}

const struct subtest spin_tests[] = {
    {"spin_basic", basic},         {"spin_foreign_unlock", foreign_unlock}, {"spin_exclusion", exclusion},
    {"spin_long_hold", long_hold}, {"spin_held_at_once", held_at_once},     {NULL, NULL},
};

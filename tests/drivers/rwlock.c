/* Read-write locks. */
#include "driver.h"

static pthread_rwlock_t static_default = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t static_writer = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void init_kind_rw(pthread_rwlock_t *lock, int kind) {
    pthread_rwlockattr_t attributes;
    OK(pthread_rwlockattr_init(&attributes));
    OK(pthread_rwlockattr_setkind_np(&attributes, kind));
    OK(pthread_rwlock_init(lock, &attributes));
    OK(pthread_rwlockattr_destroy(&attributes));
}

static int try_read(void *lock) {
    int rc = pthread_rwlock_tryrdlock(lock);
    if (rc == 0)
        OK(pthread_rwlock_unlock(lock));
    return rc;
}

static int try_write(void *lock) {
    int rc = pthread_rwlock_trywrlock(lock);
    if (rc == 0)
        OK(pthread_rwlock_unlock(lock));
    return rc;
}

static void exercise(pthread_rwlock_t *lock) {
    OK(in_thread(try_read, lock));
    OK(in_thread(try_write, lock));
    OK(pthread_rwlock_rdlock(lock));
    OK(pthread_rwlock_tryrdlock(lock));
    OK(in_thread(try_read, lock));
    RC(in_thread(try_write, lock), EBUSY);
    RC(pthread_rwlock_trywrlock(lock), EBUSY);
    OK(pthread_rwlock_unlock(lock));
    RC(in_thread(try_write, lock), EBUSY);
    OK(pthread_rwlock_unlock(lock));
    OK(pthread_rwlock_wrlock(lock));
    RC(in_thread(try_read, lock), EBUSY);
    RC(in_thread(try_write, lock), EBUSY);
    RC(pthread_rwlock_tryrdlock(lock), EBUSY);
    RC(pthread_rwlock_trywrlock(lock), EBUSY);
    OK(pthread_rwlock_unlock(lock));
    OK(in_thread(try_write, lock));
    OK(pthread_rwlock_trywrlock(lock));
    RC(in_thread(try_read, lock), EBUSY);
    OK(pthread_rwlock_unlock(lock));
}

static void basic(void) {
    exercise(&static_default);
    exercise(&static_writer);
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlock_t lock;
        memset(&lock, 0xA5, sizeof lock);
        init_kind_rw(&lock, kind);
        exercise(&lock);
        OK(pthread_rwlock_destroy(&lock));
    }
    OK(pthread_rwlock_destroy(&static_default));
    OK(pthread_rwlock_destroy(&static_writer));
}

static void deadlock_is_seen(void) {
    struct timespec later = in_ms(CLOCK_REALTIME, 3000), later_mono = in_ms(CLOCK_MONOTONIC, 3000);
    struct timespec past = {-1, 0};
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlock_t lock;
        init_kind_rw(&lock, kind);
        OK(pthread_rwlock_wrlock(&lock));
        RC(pthread_rwlock_rdlock(&lock), EDEADLK);
        RC(pthread_rwlock_wrlock(&lock), EDEADLK);
        RC(pthread_rwlock_timedrdlock(&lock, &later), EDEADLK);
        RC(pthread_rwlock_timedwrlock(&lock, &later), EDEADLK);
        RC(pthread_rwlock_timedwrlock(&lock, &past), EDEADLK);
        RC(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &later_mono), EDEADLK);
        RC(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &later_mono), EDEADLK);
        OK(pthread_rwlock_unlock(&lock));
        OK(in_thread(try_write, &lock));
        OK(pthread_rwlock_destroy(&lock));
    }
}

typedef int (*timed_form)(pthread_rwlock_t *, const struct timespec *);
typedef int (*clock_form)(pthread_rwlock_t *, clockid_t, const struct timespec *);

static void expect_on_time(pthread_rwlock_t *lock, bool write) {
    timed_form timed = write ? pthread_rwlock_timedwrlock : pthread_rwlock_timedrdlock;
    clock_form clocked = write ? pthread_rwlock_clockwrlock : pthread_rwlock_clockrdlock;
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int form = 0; form < 3; form++) {
        struct timespec until = in_ms(clocks[form], 15);
        RC(form ? clocked(lock, clocks[form], &until) : timed(lock, &until), ETIMEDOUT);
        long long late = now_on(clocks[form]) - until.tv_sec * SECOND - until.tv_nsec;
        if (late < 0 || late > 5 * SECOND)
            fail_at(__FILE__, __LINE__, "%s form %d returned %lld us after its time", write ? "write" : "read", form,
                    late / 1000);
    }
    static const struct timespec past[] = {{-1, 0}, {INT64_MIN, 5}, {0, 0}};
    for (size_t i = 0; i < COUNT_OF(past); i++) {
        RC(timed(lock, &past[i]), ETIMEDOUT);
        RC(clocked(lock, CLOCK_MONOTONIC, &past[i]), ETIMEDOUT);
    }
}

static int both_time_out(void *lock) {
    expect_on_time(lock, false);
    expect_on_time(lock, true);
    return 0;
}

static int writer_times_out(void *lock) {
    expect_on_time(lock, true);
    return 0;
}

static void not_early(void) {
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlock_t lock;
        init_kind_rw(&lock, kind);
        OK(pthread_rwlock_wrlock(&lock));
        OK(in_thread(both_time_out, &lock));
        OK(pthread_rwlock_unlock(&lock));
        OK(pthread_rwlock_rdlock(&lock));
        OK(in_thread(writer_times_out, &lock));
        OK(writer_times_out(&lock));
        OK(in_thread(try_read, &lock)); /* the writer that gave up is forgotten */
        OK(pthread_rwlock_unlock(&lock));
        OK(in_thread(try_write, &lock));
        OK(pthread_rwlock_destroy(&lock));
    }
}

/* Unlike a mutex, glibc's rwlock looks at time and clock before it looks at the lock. */
static void expect_refused(pthread_rwlock_t *lock) {
    static const struct timespec bad[] = {{0, 1000000000}, {0, -1}, {-1, 1000000000}};
    struct timespec later = in_ms(CLOCK_REALTIME, 2000);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        RC(pthread_rwlock_timedrdlock(lock, &bad[i]), EINVAL);
        RC(pthread_rwlock_timedwrlock(lock, &bad[i]), EINVAL);
        RC(pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &bad[i]), EINVAL);
        RC(pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, &bad[i]), EINVAL);
    }
    RC(pthread_rwlock_clockrdlock(lock, 77, &later), EINVAL);
    RC(pthread_rwlock_clockwrlock(lock, CLOCK_PROCESS_CPUTIME_ID, &later), EINVAL);
}

static void arguments(void) {
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlock_t lock;
        init_kind_rw(&lock, kind);
        expect_refused(&lock);
        OK(pthread_rwlock_rdlock(&lock));
        expect_refused(&lock);
        OK(pthread_rwlock_unlock(&lock));
        OK(pthread_rwlock_wrlock(&lock));
        expect_refused(&lock);
        OK(pthread_rwlock_unlock(&lock));
        struct timespec past = {-1, 0};
        OK(pthread_rwlock_timedrdlock(&lock, &past));
        OK(pthread_rwlock_unlock(&lock));
        OK(pthread_rwlock_timedwrlock(&lock, &past));
        OK(pthread_rwlock_unlock(&lock));
        OK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &past));
        OK(pthread_rwlock_unlock(&lock));
        OK(pthread_rwlock_destroy(&lock));
    }
}

static pthread_barrier_t inside;
static pthread_rwlock_t shared;

static void *meet_inside(void *unused) {
    OK(pthread_rwlock_rdlock(&shared));
    pthread_barrier_wait(&inside); /* passes only when all are inside at once */
    OK(pthread_rwlock_unlock(&shared));
    return unused;
}

static void readers_share(void) {
    enum { READERS = 100 };
    static pthread_t threads[READERS];
    for (int kind = 0; kind < 3; kind++) {
        init_kind_rw(&shared, kind);
        OK(pthread_barrier_init(&inside, NULL, READERS));
        for (int i = 0; i < READERS; i++)
            threads[i] = spawn(meet_inside, NULL);
        for (int i = 0; i < READERS; i++)
            join(threads[i]);
        OK(pthread_barrier_destroy(&inside));
        OK(in_thread(try_write, &shared));
        OK(pthread_rwlock_destroy(&shared));
    }
}

static atomic_int writer_in, writer_trying;

static void *write_once(void *lock) {
    atomic_store(&writer_trying, 1);
    OK(pthread_rwlock_wrlock(lock));
    atomic_store(&writer_in, 1);
    nap_ms(10);
    atomic_store(&writer_in, 2);
    OK(pthread_rwlock_unlock(lock));
    return NULL;
}

static pthread_t waiting_writer(pthread_rwlock_t *lock) {
    writer_in = writer_trying = 0;
    pthread_t writer = spawn(write_once, lock);
    await(&writer_trying, 1);
    settle();
    CHECK(atomic_load(&writer_in) == 0);
    return writer;
}

static void recursive_read(void) {
    for (int kind = 0; kind < 2; kind++) { /* default and PREFER_WRITER, which glibc treats like the default */
        pthread_rwlock_t lock;
        init_kind_rw(&lock, kind);
        OK(pthread_rwlock_rdlock(&lock));
        pthread_t writer = waiting_writer(&lock);
        for (int i = 0; i < 5; i++)
            OK(pthread_rwlock_rdlock(&lock));
        OK(in_thread(try_read, &lock));
        for (int i = 0; i < 6; i++) {
            CHECK(atomic_load(&writer_in) == 0);
            OK(pthread_rwlock_unlock(&lock));
        }
        join(writer);
        OK(pthread_rwlock_destroy(&lock));
    }
}

static int read_after_writer(void *lock) {
    OK(pthread_rwlock_rdlock(lock));
    int seen = atomic_load(&writer_in);
    OK(pthread_rwlock_unlock(lock));
    return seen;
}

static void *read_after_writer_body(void *lock) {
    CHECK(read_after_writer(lock) == 2);
    return NULL;
}

static int read_soon(void *lock) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    return pthread_rwlock_timedrdlock(lock, &soon);
}

static void writer_first(void) {
    pthread_rwlock_t lock;
    init_kind_rw(&lock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    OK(pthread_rwlock_rdlock(&lock));
    pthread_t writer = waiting_writer(&lock);
    while (in_thread(try_read, &lock) == 0) /* the writer has not got to its wait yet */
        usleep(500);
    RC(in_thread(read_soon, &lock), ETIMEDOUT);
    pthread_t reader = spawn(read_after_writer_body, &lock);
    settle();
    OK(pthread_rwlock_unlock(&lock));
    join(writer);
    join(reader);
    OK(pthread_rwlock_destroy(&lock));
}

/* A writer that gives up lets the readers in that it kept out. */
static void *write_for_a_while(void *lock) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 40);
    RC(pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    return NULL;
}

static int just_read(void *lock) {
    OK(pthread_rwlock_rdlock(lock));
    return pthread_rwlock_unlock(lock);
}

static void writer_gives_up(void) {
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlock_t lock;
        init_kind_rw(&lock, kind);
        OK(pthread_rwlock_rdlock(&lock));
        pthread_t writer = spawn(write_for_a_while, &lock);
        nap_ms(10);
        OK(in_thread(just_read, &lock));
        join(writer);
        OK(pthread_rwlock_unlock(&lock));
        OK(in_thread(try_write, &lock));
        OK(pthread_rwlock_destroy(&lock));
    }
}

static int just_unlock(void *lock) {
    return pthread_rwlock_unlock(lock);
}

static int just_rdlock(void *lock) {
    return pthread_rwlock_rdlock(lock);
}

/* glibc does not tie a read lock to a thread. */
static void foreign_read_unlock(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    for (int i = 0; i < 20; i++) {
        OK(in_thread(just_rdlock, &lock));
        RC(in_thread(try_write, &lock), EBUSY);
        OK(i % 2 ? in_thread(just_unlock, &lock) : pthread_rwlock_unlock(&lock));
        OK(in_thread(try_write, &lock));
    }
    OK(pthread_rwlock_destroy(&lock));
}

static int just_wrlock(void *lock) {
    return pthread_rwlock_wrlock(lock);
}

static void holder_exits(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    OK(in_thread(just_wrlock, &lock));
    RC(in_thread(try_read, &lock), EBUSY);
    RC(in_thread(try_write, &lock), EBUSY);
    RC(in_thread(read_soon, &lock), ETIMEDOUT);
}

static atomic_int let_go;

static void *write_under_signals(void *ready) {
    OK(pthread_rwlock_wrlock(&shared));
    atomic_store((atomic_int *)ready, 1);
    await(&let_go, 1);
    nap_ms(10);
    OK(pthread_rwlock_unlock(&shared));
    return NULL;
}

static void under_signals(void) {
    OK(pthread_rwlock_init(&shared, NULL));
    storm_start(pthread_self());
    for (int i = 0; i < 8; i++) {
        atomic_int ready = 0;
        atomic_store(&let_go, 0);
        pthread_t writer = spawn(write_under_signals, &ready);
        await(&ready, 1);
        struct timespec soon = in_ms(CLOCK_REALTIME, 4), later = in_ms(CLOCK_MONOTONIC, 9000);
        RC(i % 2 ? pthread_rwlock_timedrdlock(&shared, &soon) : pthread_rwlock_timedwrlock(&shared, &soon), ETIMEDOUT);
        atomic_store(&let_go, 1);
        errno = 4242;
        switch (i % 4) {
        case 0: OK(pthread_rwlock_rdlock(&shared)); break;
        case 1: OK(pthread_rwlock_wrlock(&shared)); break;
        case 2: OK(pthread_rwlock_clockrdlock(&shared, CLOCK_MONOTONIC, &later)); break;
        case 3: OK(pthread_rwlock_clockwrlock(&shared, CLOCK_MONOTONIC, &later)); break;
        }
        OK(pthread_rwlock_unlock(&shared));
        CHECK(errno == 4242);
        join(writer);
    }
    storm_stop();
}

static void held_at_once(void) {
    static pthread_rwlock_t locks[3000];
    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        init_kind_rw(&locks[i], i % 3);
        OK(i % 2 ? pthread_rwlock_rdlock(&locks[i]) : pthread_rwlock_wrlock(&locks[i]));
    }
    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        size_t at = i * 7 % COUNT_OF(locks) * 7 % COUNT_OF(locks);
        if (i % 300 == 0)
            RC(in_thread(try_write, &locks[at]), EBUSY);
        OK(pthread_rwlock_unlock(&locks[at]));
        OK(try_write(&locks[at]));
        OK(pthread_rwlock_destroy(&locks[at]));
    }
}

struct counted {
    pthread_rwlock_t lock;
    int references;
};

static void *drop_reference(void *argument) {
    struct counted *object = argument;
    OK(pthread_rwlock_wrlock(&object->lock));
    bool last = --object->references == 0;
    OK(pthread_rwlock_unlock(&object->lock));
    if (last) {
        OK(pthread_rwlock_destroy(&object->lock));
        CHECK(munmap(object, 4096) == 0);
    }
    return NULL;
}

static void refcount(void) {
    for (int round = 0; round < 1500; round++) {
        struct counted *object = fresh_pages(4096);
        init_kind_rw(&object->lock, round % 3);
        object->references = 3;
        pthread_t threads[2] = {spawn(drop_reference, object), spawn(drop_reference, object)};
        drop_reference(object);
        join(threads[0]);
        join(threads[1]);
    }
}

const struct subtest rwlock_tests[] = {
    {"rwlock_basic", basic},
    {"rwlock_deadlock_is_seen", deadlock_is_seen},
    {"rwlock_not_early", not_early},
    {"rwlock_time_arguments", arguments},
    {"rwlock_readers_share", readers_share},
    {"rwlock_recursive_read", recursive_read},
    {"rwlock_writer_first", writer_first},
    {"rwlock_writer_gives_up", writer_gives_up},
    {"rwlock_foreign_read_unlock", foreign_read_unlock},
    {"rwlock_holder_exits", holder_exits},
    {"rwlock_under_signals", under_signals},
    {"rwlock_held_at_once", held_at_once},
    {"rwlock_refcount", refcount},
    {NULL, NULL},
};

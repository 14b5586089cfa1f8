/* What a process has only so much of: keys, and memory. */
#include "driver.h"

#include <limits.h>
#include <sys/resource.h>

/* A program may use all keys that there are, and a key that it has not created is none. */
static void keys_are_the_programs(void) {
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    OK(pthread_mutex_lock(&m));
    OK(pthread_mutex_unlock(&m));
    for (unsigned key = 0; key < PTHREAD_KEYS_MAX; key++) {
        RC(pthread_setspecific(key, &m), EINVAL);
        CHECK(pthread_getspecific(key) == NULL);
        RC(pthread_key_delete(key), EINVAL);
    }
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++)
        OK(pthread_key_create(&keys[i], NULL));
    pthread_key_t one_more;
    RC(pthread_key_create(&one_more, NULL), EAGAIN);
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++)
        OK(pthread_key_delete(keys[i]));
}

enum { OBJECTS = 4000, HELD = 500, WORKERS = 4, SHARED = 7 };
/* Several threads use those of the first two names; the others are the main thread's alone. */
static pthread_mutex_t shared[SHARED], turns, mutexes[OBJECTS], *initialised;
static pthread_rwlock_t rwlocks[OBJECTS];
static pthread_cond_t conds[OBJECTS];
static atomic_int has_no_memory, turn;
static long total;

/* Nobody else may hold them: trylock must acquire each. */
static void use_all(pthread_mutex_t *all) {
    for (int i = 0; i < OBJECTS; i++) {
        OK(pthread_mutex_lock(&all[i]));
        OK(pthread_mutex_unlock(&all[i]));
        OK(pthread_mutex_trylock(&all[i]));
        OK(pthread_mutex_unlock(&all[i]));
    }
}

/* Threads that are there before memory ends. */
static void *worker(void *unused) {
    (void)unused;
    await(&has_no_memory, 1);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_t *m = &shared[i % SHARED];
        OK(pthread_mutex_lock(m));
        if (i % SHARED == 0)
            total++;
        OK(pthread_mutex_unlock(m));
        pthread_rwlock_t *rw = &rwlocks[i % OBJECTS];
        OK(i % 5 == 0 ? pthread_rwlock_wrlock(rw) : pthread_rwlock_rdlock(rw));
        OK(pthread_rwlock_unlock(rw));
        OK(pthread_cond_signal(&conds[i % OBJECTS]));
    }
    return NULL;
}

static void *take_turn(void *unused) {
    (void)unused;
    await(&has_no_memory, 1);
    OK(pthread_mutex_lock(&turns));
    atomic_store(&turn, 1);
    while (atomic_load(&turn) != 2)
        OK(pthread_cond_wait(&conds[0], &turns));
    OK(pthread_mutex_unlock(&turns));
    return NULL;
}

static void no_memory(void) {
    initialised = fresh_pages(OBJECTS * sizeof *initialised);
    /* Memory of the objects themselves is the program's matter. */
    memset(initialised, 0, OBJECTS * sizeof *initialised);
    pthread_t workers[WORKERS], waiter = spawn(take_turn, NULL);
    for (int i = 0; i < WORKERS; i++)
        workers[i] = spawn(worker, NULL);
    settle();
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    atomic_store(&has_no_memory, 1);
    for (int i = 0; i < OBJECTS; i++) {
        int result = pthread_mutex_init(&initialised[i], NULL);
        if (result == ENOMEM)
            skip("pthread_mutex_init says that there is no memory, as it may");
        RC(result, 0);
    }
    use_all(initialised);
    use_all(mutexes);
    for (int i = 0; i < HELD; i++)
        OK(pthread_mutex_lock(&mutexes[100 + i]));
    for (int i = 0; i < HELD; i++) {
        RC(pthread_mutex_trylock(&mutexes[100 + i]), EBUSY);
        RC(pthread_mutex_destroy(&mutexes[100 + i]), EBUSY);
        OK(pthread_mutex_unlock(&mutexes[100 + i]));
        OK(pthread_mutex_destroy(&mutexes[100 + i]));
    }
    await(&turn, 1);
    OK(pthread_mutex_lock(&turns));
    atomic_store(&turn, 2);
    OK(pthread_cond_broadcast(&conds[0]));
    OK(pthread_mutex_unlock(&turns));
    join(waiter);
    for (int i = 0; i < WORKERS; i++)
        join(workers[i]);
    CHECK(total == WORKERS * ((2000 + SHARED - 1) / SHARED));
}

const struct subtest limit_tests[] = {
    {"limit_keys_are_the_programs", keys_are_the_programs},
    {"limit_no_memory", no_memory},
    {NULL, NULL},
};

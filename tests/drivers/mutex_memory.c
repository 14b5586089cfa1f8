/* Mutexes: many at once, life and death of their memory. */
#include "driver.h"

static void held_at_once(void) {
    enum { COUNT = 10000 };
    static pthread_mutex_t mutexes[COUNT];
    static int order[COUNT];
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < COUNT; i++) {
        init_kind(&mutexes[i], kinds[i % 4].type);
        OK(i % 3 ? pthread_mutex_lock(&mutexes[i]) : pthread_mutex_trylock(&mutexes[i]));
        order[i] = i;
    }
    for (int i = COUNT - 1; i > 0; i--) {
        int j = next_random(&random) % (i + 1), old = order[i];
        order[i] = order[j];
        order[j] = old;
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 500 == 0)
            RC(trylock_elsewhere(&mutexes[order[i]]), EBUSY);
        OK(pthread_mutex_unlock(&mutexes[order[i]]));
        if (i % 500 == 0)
            OK(trylock_elsewhere(&mutexes[order[i]]));
    }
    for (int i = 0; i < COUNT; i++)
        OK(pthread_mutex_destroy(&mutexes[i]));
}

/* Unlocks what the main thread locked: nodes of one thread end in another. */
static void *unlock_slice(void *slice) {
    pthread_mutex_t *mutexes = slice;
    for (int i = 0; i < 500; i++)
        OK(pthread_mutex_unlock(&mutexes[i]));
    return NULL;
}

static void held_then_unlocked_elsewhere(void) {
    static pthread_mutex_t mutexes[2000];
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < COUNT_OF(mutexes); i++)
            OK(pthread_mutex_lock(&mutexes[i]));
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            threads[t] = spawn(unlock_slice, &mutexes[t * 500]);
        for (int t = 0; t < 4; t++)
            join(threads[t]);
    }
    for (size_t i = 0; i < COUNT_OF(mutexes); i++)
        OK(pthread_mutex_destroy(&mutexes[i]));
}

static void reuse_memory(void) {
    union {
        pthread_mutex_t mutex;
        pthread_cond_t cond;
        pthread_rwlock_t rwlock;
        unsigned char bytes[64];
    } place;
    for (int round = 0; round < 2000; round++) {
        memset(&place, round % 2 ? 0xA5 : 0xFF, sizeof place);
        init_kind(&place.mutex, kinds[round % 4].type);
        OK(pthread_mutex_lock(&place.mutex));
        OK(pthread_mutex_unlock(&place.mutex));
        if (round % 3)
            OK(pthread_mutex_destroy(&place.mutex));
        memset(&place, 0xA5, sizeof place);
        OK(pthread_rwlock_init(&place.rwlock, NULL));
        OK(pthread_rwlock_rdlock(&place.rwlock));
        OK(pthread_rwlock_unlock(&place.rwlock));
        OK(pthread_rwlock_destroy(&place.rwlock));
        memset(&place, 0xA5, sizeof place);
        OK(pthread_cond_init(&place.cond, NULL));
        OK(pthread_cond_signal(&place.cond));
        OK(pthread_cond_destroy(&place.cond));
        /* Zeroed memory is a statically initialised mutex. */
        memset(&place, 0, sizeof place);
        OK(pthread_mutex_lock(&place.mutex));
        RC(pthread_mutex_trylock(&place.mutex), EBUSY);
        OK(pthread_mutex_unlock(&place.mutex));
    }
}

struct counted {
    pthread_mutex_t mutex;
    int references;
};

struct batch {
    struct counted **objects;
    int count, way;
    pthread_barrier_t *gate;
};

/* The last one to leave destroys the object, while the one before may still be inside its unlock. */
static void release(struct counted *object, int way) {
    OK(pthread_mutex_lock(&object->mutex));
    bool last = --object->references == 0;
    OK(pthread_mutex_unlock(&object->mutex));
    if (!last)
        return;
    if (way != 2)
        OK(pthread_mutex_destroy(&object->mutex));
    if (way == 0) {
        memset(object, 0xA5, sizeof *object);
        free(object);
    } else {
        CHECK(munmap(object, 4096) == 0);
    }
}

static void *release_batch(void *argument) {
    struct batch *batch = argument;
    pthread_barrier_wait(batch->gate);
    for (int i = 0; i < batch->count; i++)
        release(batch->objects[i], batch->way);
    return NULL;
}

static void last_one_frees(int type, int way) {
    enum { OBJECTS = 400, THREADS = 3 };
    static struct counted *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = way == 0 ? malloc(sizeof **objects) : fresh_pages(4096);
        init_kind(&objects[i]->mutex, type);
        objects[i]->references = THREADS;
    }
    pthread_barrier_t gate;
    OK(pthread_barrier_init(&gate, NULL, THREADS));
    struct batch batch = {objects, OBJECTS, way, &gate};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(release_batch, &batch);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    OK(pthread_barrier_destroy(&gate));
}

static void refcount(void) {
    FOR_EACH_KIND(k) {
        for (int way = 0; way < 3; way++)
            for (int round = 0; round < 5; round++)
                last_one_frees(k->type, way);
    }
}

struct stack_job {
    pthread_mutex_t *mutex;
    bool *done;
};

static void *finish_job(void *argument) {
    struct stack_job *job = argument;
    pthread_mutex_t *mutex = job->mutex;
    OK(pthread_mutex_lock(mutex));
    *job->done = true;
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

/* The mutex's page goes away as soon as its waiter has seen the flag, right after the other's unlock. */
static void unmap_after_unlock(void) {
    FOR_EACH_KIND(k) {
        for (int round = 0; round < 300; round++) {
            pthread_mutex_t *mutex = fresh_pages(4096);
            bool done = false;
            init_kind(mutex, k->type);
            struct stack_job job = {mutex, &done};
            OK(pthread_mutex_lock(mutex));
            pthread_t other = spawn(finish_job, &job);
            for (bool seen = false; !seen;) {
                OK(pthread_mutex_unlock(mutex));
                sched_yield(); /* an unfair lock would let us back in for a whole time slice */
                OK(pthread_mutex_lock(mutex));
                seen = done;
            }
            OK(pthread_mutex_unlock(mutex));
            OK(pthread_mutex_destroy(mutex));
            CHECK(munmap(mutex, 4096) == 0);
            join(other);
        }
    }
}

const struct subtest mutex_memory_tests[] = {
    {"mutex_10000_held_at_once", held_at_once},
    {"mutex_many_unlocked_elsewhere", held_then_unlocked_elsewhere},
    {"mutex_reuse_memory", reuse_memory},
    {"mutex_refcount_free", refcount},
    {"mutex_unmap_after_unlock", unmap_after_unlock},
    {NULL, NULL},
};

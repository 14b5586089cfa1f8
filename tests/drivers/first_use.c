/* Mutexes and rwlocks that nobody initialises or destroys: first use, memory that is used again, memory that moves. */
#include "driver.h"

/* Resident memory of this process. */
static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*s %ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

union object {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
};

static void use(union object *object, bool as_rwlock) {
    if (as_rwlock) {
        OK(pthread_rwlock_wrlock(&object->rwlock));
        OK(pthread_rwlock_unlock(&object->rwlock));
    } else {
        OK(pthread_mutex_lock(&object->mutex));
        OK(pthread_mutex_unlock(&object->mutex));
    }
}

/* What std::mutex does: its destructor is trivial, and the next one at the address begins with zeros. */
static void same_addresses(bool as_rwlock) {
    enum { OBJECTS = 100, ROUNDS = 10000 };
    static union object objects[OBJECTS];
    long before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 10)
            before = resident_kib();
        memset(objects, 0, sizeof objects);
        for (int i = 0; i < OBJECTS; i++)
            use(&objects[i], as_rwlock);
    }
    long grown = resident_kib() - before;
    if (grown > 1024)
        fail_at(__FILE__, __LINE__, "a million objects at %d addresses took %ld KiB", OBJECTS, grown);
}

static void mutexes_at_same_addresses(void) {
    same_addresses(false);
}

static void rwlocks_at_same_addresses(void) {
    same_addresses(true);
}

/* Addresses are never used again, and the memory behind them is gone or holds something else. */
static void new_addresses(bool as_rwlock) {
    enum { PAGE = 4096, ROUNDS = 4000, EACH = PAGE / sizeof(union object) };
    unsigned char *area = mmap(NULL, (size_t)ROUNDS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    long before = resident_kib();
    for (int round = 0; round < ROUNDS; round++) {
        union object *objects = (union object *)(area + (size_t)round * PAGE);
        CHECK(mprotect(objects, PAGE, PROT_READ | PROT_WRITE) == 0);
        for (size_t i = 0; i < EACH; i++)
            use(&objects[i], as_rwlock);
        if (round % 2)
            CHECK(munmap(objects, PAGE) == 0);
        else if (round % 64)
            CHECK(mprotect(objects, PAGE, PROT_NONE) == 0);
        else
            memset(objects, 0xA5, PAGE);
    }
    /* Pages that are not unmapped stay resident: 4 KiB each. A bound that lets a few thousand large locks live. */
    long grown = resident_kib() - before - ROUNDS / 2 * 4;
    if (grown > 32 * 1024)
        fail_at(__FILE__, __LINE__, "%d objects at as many addresses took %ld KiB", (int)(ROUNDS * EACH), grown);
    CHECK(munmap(area, (size_t)ROUNDS * PAGE) == 0);
}

static void mutexes_at_new_addresses(void) {
    new_addresses(false);
}

static void rwlocks_at_new_addresses(void) {
    new_addresses(true);
}

/* Tens of thousands of mutexes alive at once, half of them destroyed and made anew. */
static void many_alive(void) {
    enum { COUNT = 40000 };
    pthread_mutex_t *mutexes = fresh_pages(COUNT * sizeof *mutexes);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT; i++) {
            OK(pthread_mutex_trylock(&mutexes[i]));
            OK(pthread_mutex_unlock(&mutexes[i]));
        }
    for (int i = 0; i < COUNT; i += 2)
        OK(pthread_mutex_destroy(&mutexes[i]));
    for (int i = 0; i < COUNT; i++) {
        if (i % 2 == 0)
            OK(pthread_mutex_init(&mutexes[i], NULL));
        OK(pthread_mutex_lock(&mutexes[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        RC(pthread_mutex_trylock(&mutexes[i]), EBUSY);
        OK(pthread_mutex_unlock(&mutexes[i]));
    }
}

enum { RACERS = 4, RACED = 3000 };

struct raced {
    pthread_mutex_t mutex;
    int inside, count;
};

static struct raced raced[RACED];
static atomic_int at_line[RACED];

static void enter(pthread_mutex_t *mutex, uintptr_t racer) {
    struct timespec late = in_ms(CLOCK_REALTIME, 10000);
    switch (racer % 3) {
    case 0: OK(pthread_mutex_lock(mutex)); break;
    case 1: OK(pthread_mutex_timedlock(mutex, &late)); break;
    default:
        for (int rc; (rc = pthread_mutex_trylock(mutex)) != 0; sched_yield())
            RC(rc, EBUSY);
    }
}

static void *race(void *argument) {
    uintptr_t racer = (uintptr_t)argument;
    for (int i = 0; i < RACED; i++) {
        struct raced *r = &raced[i];
        atomic_fetch_add(&at_line[i], 1);
        for (int spins = 0; atomic_load(&at_line[i]) < RACERS; spins++)
            if (spins > 1000)
                sched_yield();
        enter(&r->mutex, racer + i);
        CHECK(r->inside++ == 0);
        r->count++;
        r->inside--;
        OK(pthread_mutex_unlock(&r->mutex));
    }
    return NULL;
}

static void racing_first_users(void) {
    for (int round = 0; round < 5; round++) {
        memset(raced, 0, sizeof raced);
        memset(at_line, 0, sizeof at_line);
        pthread_t threads[RACERS];
        for (uintptr_t i = 0; i < RACERS; i++)
            threads[i] = spawn(race, (void *)i);
        for (int i = 0; i < RACERS; i++)
            join(threads[i]);
        for (int i = 0; i < RACED; i++)
            CHECK(raced[i].count == RACERS);
    }
}

static pthread_rwlock_t raced_rwlocks[RACED];
static int written[RACED];

static void *race_rwlock(void *writes) {
    for (int i = 0; i < RACED; i++) {
        atomic_fetch_add(&at_line[i], 1);
        for (int spins = 0; atomic_load(&at_line[i]) < RACERS; spins++)
            if (spins > 1000)
                sched_yield();
        OK(writes ? pthread_rwlock_wrlock(&raced_rwlocks[i]) : pthread_rwlock_rdlock(&raced_rwlocks[i]));
        if (writes)
            written[i]++;
        OK(pthread_rwlock_unlock(&raced_rwlocks[i]));
    }
    return NULL;
}

static void racing_first_users_of_rwlocks(void) {
    for (int round = 0; round < 3; round++) {
        memset(raced_rwlocks, 0, sizeof raced_rwlocks);
        memset(at_line, 0, sizeof at_line);
        memset(written, 0, sizeof written);
        pthread_t threads[RACERS];
        for (uintptr_t i = 0; i < RACERS; i++)
            threads[i] = spawn(race_rwlock, (void *)(uintptr_t)(i != 0));
        for (int i = 0; i < RACERS; i++)
            join(threads[i]);
        for (int i = 0; i < RACED; i++)
            CHECK(written[i] == RACERS - 1);
    }
}

/* Undefined, and done: structures move by realloc while nobody holds their mutexes. Old and new place are independent. */
static void moved(void) {
    static union object old[8], new[8];
    for (int as_rwlock = 0; as_rwlock < 2; as_rwlock++) {
        memset(old, 0, sizeof old);
        for (int i = 0; i < 8; i++)
            use(&old[i], as_rwlock);
        memcpy(new, old, sizeof old);
        for (int fresh = 0; fresh < 2; fresh++) {
            if (fresh)
                memset(old, 0, sizeof old);
            for (int i = 0; i < 8; i++) {
                if (as_rwlock) {
                    OK(pthread_rwlock_wrlock(&new[i].rwlock));
                    OK(pthread_rwlock_wrlock(&old[i].rwlock));
                    RC(pthread_rwlock_tryrdlock(&new[i].rwlock), EBUSY);
                    OK(pthread_rwlock_unlock(&new[i].rwlock));
                    RC(pthread_rwlock_tryrdlock(&old[i].rwlock), EBUSY);
                    OK(pthread_rwlock_unlock(&old[i].rwlock));
                } else {
                    OK(pthread_mutex_lock(&new[i].mutex));
                    OK(pthread_mutex_lock(&old[i].mutex));
                    RC(trylock_elsewhere(&new[i].mutex), EBUSY);
                    OK(pthread_mutex_unlock(&new[i].mutex));
                    RC(trylock_elsewhere(&old[i].mutex), EBUSY);
                    OK(pthread_mutex_unlock(&old[i].mutex));
                    OK(trylock_elsewhere(&new[i].mutex));
                }
            }
        }
        for (int i = 0; i < 8; i++) {
            OK(as_rwlock ? pthread_rwlock_destroy(&old[i].rwlock) : pthread_mutex_destroy(&old[i].mutex));
            use(&new[i], as_rwlock);
        }
    }
}

/* The memory of a mutex that is still held, whose holder is gone, becomes another mutex. */
static void *lock_and_leave(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    return NULL;
}

static void held_and_zeroed(void) {
    static pthread_mutex_t mutexes[16];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 16; i++)
            join(spawn(lock_and_leave, &mutexes[i]));
        memset(mutexes, 0, sizeof mutexes);
        for (int i = 0; i < 16; i++) {
            OK(pthread_mutex_lock(&mutexes[i]));
            RC(trylock_elsewhere(&mutexes[i]), EBUSY);
            OK(pthread_mutex_unlock(&mutexes[i]));
        }
    }
}

/* The memory of a mutex that the thread still holds becomes another mutex, of any kind, that another thread initialises. */
struct successor {
    pthread_mutex_t mutex;
    int type, sharing, robustness, protocol;
};

static void *begin_anew(void *argument) {
    struct successor *there = argument;
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, there->type));
    OK(pthread_mutexattr_setpshared(&attributes, there->sharing));
    OK(pthread_mutexattr_setrobust(&attributes, there->robustness));
    OK(pthread_mutexattr_setprotocol(&attributes, there->protocol));
    memset(&there->mutex, 0, sizeof there->mutex);
    OK(pthread_mutex_init(&there->mutex, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
    return NULL;
}

static void held_and_of_another_kind(void) {
    static struct successor there;
    static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
    FOR_EACH_KIND(k) {
        for (int i = 0; i < 8; i++) {
            memset(&there, 0, sizeof there);
            OK(pthread_mutex_lock(&there.mutex));
            there.type = k->type;
            there.sharing = i & 1 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE;
            there.robustness = i & 2 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED;
            there.protocol = i & 4 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE;
            join(spawn(begin_anew, &there));
            for (int round = 0; round < 3; round++) {
                OK(pthread_mutex_lock(&there.mutex));
                OK(pthread_mutex_lock(&inner));
                RC(trylock_elsewhere(&there.mutex), EBUSY);
                OK(pthread_mutex_unlock(&inner));
                OK(pthread_mutex_unlock(&there.mutex));
                OK(trylock_elsewhere(&there.mutex));
                OK(pthread_mutex_trylock(&there.mutex));
                RC(trylock_elsewhere(&there.mutex), EBUSY);
                OK(pthread_mutex_unlock(&there.mutex));
            }
            OK(pthread_mutex_destroy(&there.mutex));
        }
    }
}

static atomic_bool churn_paused, churn_over;

static void *churn_first_uses(void *unused) {
    union object objects[32];
    while (!atomic_load(&churn_over)) {
        if (atomic_load(&churn_paused)) {
            usleep(200);
            continue;
        }
        memset(objects, 0, sizeof objects);
        for (int i = 0; i < 32; i++) {
            use(&objects[i], i % 4 == 0);
            if (i % 4)
                OK(pthread_mutex_destroy(&objects[i].mutex));
        }
    }
    return unused;
}

static void *queue_up(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

/* The child inherits what others were doing with the memory of locks, and locks that are held and waited for. */
static void first_use_and_fork(void) {
    enum { HELD = 8 };
    static pthread_mutex_t held[HELD], unheld[HELD];
    pthread_t churners[2] = {spawn(churn_first_uses, NULL), spawn(churn_first_uses, NULL)};
    for (int round = 0; round < 30; round++) {
        pthread_t waiters[HELD];
        for (int i = 0; i < HELD; i++) {
            OK(pthread_mutex_lock(&held[i]));
            OK(pthread_mutex_lock(&unheld[i]));
            OK(pthread_mutex_unlock(&unheld[i]));
            waiters[i] = spawn(queue_up, &held[i]);
        }
        settle();
        /* The churners run while the process is forked, and leave the CPUs to the child then. */
        atomic_store(&churn_paused, false);
        nap_ms(2);
        pid_t pid = fork_child();
        if (pid == 0) {
            pthread_t churner = spawn(churn_first_uses, NULL);
            for (int i = 0; i < HELD; i++) {
                RC(trylock_elsewhere(&held[i]), EBUSY);
                OK(pthread_mutex_unlock(&held[i]));
                OK(trylock_elsewhere(&held[i]));
                OK(pthread_mutex_destroy(&held[i]));
                OK(trylock_elsewhere(&unheld[i]));
            }
            memset(held, 0, sizeof held);
            for (int i = 0; i < HELD; i++) {
                OK(pthread_mutex_lock(&held[i]));
                RC(trylock_elsewhere(&held[i]), EBUSY);
                OK(pthread_mutex_unlock(&held[i]));
            }
            atomic_store(&churn_over, true);
            join(churner);
            _exit(0);
        }
        atomic_store(&churn_paused, true);
        wait_child(pid);
        for (int i = 0; i < HELD; i++) {
            OK(pthread_mutex_unlock(&held[i]));
            join(waiters[i]);
        }
    }
    atomic_store(&churn_over, true);
    join(churners[0]);
    join(churners[1]);
}

const struct subtest first_use_tests[] = {
    {"first_use_same_addresses", mutexes_at_same_addresses},
    {"first_use_same_addresses_rwlock", rwlocks_at_same_addresses},
    {"first_use_new_addresses", mutexes_at_new_addresses},
    {"first_use_new_addresses_rwlock", rwlocks_at_new_addresses},
    {"first_use_many_alive", many_alive},
    {"first_use_race", racing_first_users},
    {"first_use_race_rwlock", racing_first_users_of_rwlocks},
    {"first_use_moved", moved},
    {"first_use_held_and_zeroed", held_and_zeroed},
    {"first_use_held_and_of_another_kind", held_and_of_another_kind},
    {"first_use_and_fork", first_use_and_fork},
    {NULL, NULL},
};

/* fork: the child has the forking thread's locks, and nobody who waits for them. */
#include "driver.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* glibc knows the owner of a recursive or errorcheck mutex by its thread id, which is another one in the child. */
static const int ownerless[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP};
enum { QUEUED = 3 };

static void *queue_up(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

static void exercise(pthread_mutex_t *m) {
    for (int i = 0; i < 50; i++) {
        OK(pthread_mutex_lock(m));
        RC(trylock_elsewhere(m), EBUSY);
        OK(pthread_mutex_unlock(m));
        OK(trylock_elsewhere(m));
    }
}

static void *count_up(void *argument) {
    struct {
        pthread_mutex_t *mutex;
        int counter;
    } *c = argument;
    for (int i = 0; i < 2000; i++) {
        OK(pthread_mutex_lock(c->mutex));
        c->counter++;
        OK(pthread_mutex_unlock(c->mutex));
    }
    return NULL;
}

static void contend(pthread_mutex_t *m) {
    struct {
        pthread_mutex_t *mutex;
        int counter;
    } c = {m, 0};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(count_up, &c);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    CHECK(c.counter == 6000);
}

static void held_with_queue(void) {
    for (size_t type = 0; type < COUNT_OF(ownerless); type++) {
        pthread_mutex_t m;
        init_kind(&m, ownerless[type]);
        OK(pthread_mutex_lock(&m));
        pthread_t threads[QUEUED];
        for (int i = 0; i < QUEUED; i++)
            threads[i] = spawn(queue_up, &m);
        settle();
        pid_t pid = fork_child();
        if (pid == 0) {
            RC(trylock_elsewhere(&m), EBUSY);
            OK(pthread_mutex_unlock(&m));
            exercise(&m);
            contend(&m);
            OK(pthread_mutex_destroy(&m));
            _exit(0);
        }
        wait_child(pid);
        OK(pthread_mutex_unlock(&m));
        for (int i = 0; i < QUEUED; i++)
            join(threads[i]);
        exercise(&m);
        OK(pthread_mutex_destroy(&m));
    }
}

static void owned_in_child(void) {
    int types[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (size_t type = 0; type < COUNT_OF(types); type++) {
        pthread_mutex_t m;
        init_kind(&m, types[type]);
        OK(pthread_mutex_lock(&m));
        pthread_t waiter = spawn(queue_up, &m);
        settle();
        pid_t pid = fork_child();
        if (pid == 0) {
            /* Refused like by glibc, or really given up: never half. */
            int rc = pthread_mutex_unlock(&m);
            if (rc == EPERM) {
                RC(trylock_elsewhere(&m), EBUSY);
                OK(pthread_mutex_init(&m, NULL));
            } else {
                OK(rc);
                note("the child unlocked a %s mutex; with glibc it cannot", type ? "errorcheck" : "recursive");
            }
            exercise(&m);
            _exit(0);
        }
        wait_child(pid);
        OK(pthread_mutex_unlock(&m));
        join(waiter);
        exercise(&m);
    }
}

enum { LOCKS = 64 };
static pthread_mutex_t atfork_mutexes[LOCKS];
static pthread_rwlock_t atfork_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t atfork_spin;
static atomic_bool churn_over;

static void before_fork(void) {
    for (int i = 0; i < LOCKS; i++)
        OK(pthread_mutex_lock(&atfork_mutexes[i]));
    /* For reading: glibc knows a writer by its thread id, which is another one in the child. */
    OK(pthread_rwlock_rdlock(&atfork_rwlock));
    OK(pthread_spin_lock(&atfork_spin));
}

static void after_fork(void) {
    OK(pthread_spin_unlock(&atfork_spin));
    OK(pthread_rwlock_unlock(&atfork_rwlock));
    for (int i = LOCKS - 1; i >= 0; i--)
        OK(pthread_mutex_unlock(&atfork_mutexes[i]));
}

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!atomic_load(&churn_over)) {
        pthread_mutex_t *m = &atfork_mutexes[next_random(&random) % LOCKS];
        OK(pthread_mutex_lock(m));
        OK(pthread_mutex_unlock(m));
        if (next_random(&random) % 64 == 0) {
            OK(pthread_rwlock_wrlock(&atfork_rwlock));
            OK(pthread_rwlock_unlock(&atfork_rwlock));
        }
        OK(pthread_spin_lock(&atfork_spin));
        OK(pthread_spin_unlock(&atfork_spin));
        if (next_random(&random) % 16 == 0)
            usleep(20);
    }
    return NULL;
}

static void use_all_in_child(void) {
    atomic_store(&churn_over, true);
    for (int i = 0; i < LOCKS; i++) {
        OK(trylock_elsewhere(&atfork_mutexes[i]));
        OK(pthread_mutex_lock(&atfork_mutexes[i]));
        OK(pthread_mutex_unlock(&atfork_mutexes[i]));
    }
    contend(&atfork_mutexes[0]);
    OK(pthread_rwlock_wrlock(&atfork_rwlock));
    OK(pthread_rwlock_unlock(&atfork_rwlock));
    _exit(0);
}

static void atfork_handlers(void) {
    for (int i = 0; i < LOCKS; i++)
        init_kind(&atfork_mutexes[i], i % 2 ? PTHREAD_MUTEX_ADAPTIVE_NP : PTHREAD_MUTEX_NORMAL);
    OK(pthread_spin_init(&atfork_spin, 0));
    OK(pthread_atfork(before_fork, after_fork, after_fork));
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        threads[i] = spawn(churn, (void *)(i + 77));
    for (int round = 0; round < 25; round++) {
        pid_t pid = fork_child();
        if (pid == 0)
            use_all_in_child();
        wait_child(pid);
    }
    atomic_store(&churn_over, true);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
}

struct waited {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting;
    bool go;
};

static void *wait_in_cond(void *argument) {
    struct waited *w = argument;
    OK(pthread_mutex_lock(&w->mutex));
    w->waiting++;
    while (!w->go)
        OK(pthread_cond_wait(&w->cond, &w->mutex));
    OK(pthread_mutex_unlock(&w->mutex));
    return NULL;
}

static void gate_cycle(struct waited *w, int threads_wanted) {
    pthread_t threads[4];
    w->waiting = 0;
    w->go = false;
    for (int i = 0; i < threads_wanted; i++)
        threads[i] = spawn(wait_in_cond, w);
    for (bool full = false; !full; usleep(100)) {
        OK(pthread_mutex_lock(&w->mutex));
        full = w->waiting == threads_wanted;
        OK(pthread_mutex_unlock(&w->mutex));
    }
    OK(pthread_mutex_lock(&w->mutex));
    w->go = true;
    OK(pthread_cond_broadcast(&w->cond));
    OK(pthread_mutex_unlock(&w->mutex));
    for (int i = 0; i < threads_wanted; i++)
        join(threads[i]);
}

/* The parent's waiters do not exist in the child, which initialises the condition variable afresh. */
static void cond_afresh(void) {
    struct waited w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(wait_in_cond, &w);
    settle();
    OK(pthread_mutex_lock(&w.mutex));
    pid_t pid = fork_child();
    if (pid == 0) {
        OK(pthread_mutex_unlock(&w.mutex));
        OK(pthread_cond_init(&w.cond, NULL));
        gate_cycle(&w, 4);
        struct timespec soon = in_ms(CLOCK_REALTIME, 5);
        OK(pthread_mutex_lock(&w.mutex));
        RC(pthread_cond_timedwait(&w.cond, &w.mutex, &soon), ETIMEDOUT);
        OK(pthread_mutex_unlock(&w.mutex));
        OK(pthread_cond_destroy(&w.cond));
        _exit(0);
    }
    OK(pthread_mutex_unlock(&w.mutex));
    wait_child(pid);
    OK(pthread_mutex_lock(&w.mutex));
    w.go = true;
    OK(pthread_cond_broadcast(&w.cond));
    OK(pthread_mutex_unlock(&w.mutex));
    for (int i = 0; i < 3; i++)
        join(threads[i]);
}

/* A condition variable that had no waiters works on in the child as it is. */
static void cond_idle(void) {
    struct waited w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    gate_cycle(&w, 3);
    pid_t pid = fork_child();
    if (pid == 0) {
        gate_cycle(&w, 3);
        OK(pthread_cond_destroy(&w.cond));
        _exit(0);
    }
    wait_child(pid);
    gate_cycle(&w, 3);
}

static void *read_and_leave(void *lock) {
    OK(pthread_rwlock_rdlock(lock));
    OK(pthread_rwlock_unlock(lock));
    return NULL;
}

static void *write_and_leave(void *lock) {
    OK(pthread_rwlock_wrlock(lock));
    OK(pthread_rwlock_unlock(lock));
    return NULL;
}

static void use_rwlock(pthread_rwlock_t *lock) {
    OK(pthread_rwlock_rdlock(lock));
    OK(pthread_rwlock_tryrdlock(lock));
    OK(pthread_rwlock_unlock(lock));
    OK(pthread_rwlock_unlock(lock));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(i % 2 ? read_and_leave : write_and_leave, lock);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
}

/* Only a read-held one: glibc knows a writer by its thread id, which changes in the child. */
static void rwlock_read_held(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    OK(pthread_rwlock_rdlock(&lock));
    pid_t pid = fork_child();
    if (pid == 0) {
        OK(pthread_rwlock_unlock(&lock));
        use_rwlock(&lock);
        _exit(0);
    }
    wait_child(pid);
    OK(pthread_rwlock_unlock(&lock));
    use_rwlock(&lock);
}

static void nested(void) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    OK(pthread_mutex_lock(&m));
    pthread_t outer = spawn(queue_up, &m);
    settle();
    pid_t pid = fork_child();
    if (pid == 0) {
        pthread_t inner = spawn(queue_up, &m);
        settle();
        pid_t grandchild = fork_child();
        if (grandchild == 0) {
            OK(pthread_mutex_unlock(&m));
            exercise(&m);
            contend(&m);
            _exit(0);
        }
        wait_child(grandchild);
        OK(pthread_mutex_unlock(&m));
        join(inner);
        exercise(&m);
        _exit(0);
    }
    wait_child(pid);
    OK(pthread_mutex_unlock(&m));
    join(outer);
    exercise(&m);
}

/* Waits for all descendants, of whom each has ended with status 0, and returns how many there were. */
static int reap_descendants(void) {
    int count = 0;
    for (int status; wait(&status) > 0; count++)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(errno == ECHILD);
    return count;
}

/* Generation counters wrap: 300 generations, the lock held across each fork with a waiter behind it. Each generation but
   the first ends when it has forked: what a fork costs the kernel grows with the number of ancestors that live. */
static void many_generations(void) {
    enum { GENERATIONS = 300 };
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, untouched = PTHREAD_MUTEX_INITIALIZER;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    OK(pthread_mutex_lock(&untouched));
    OK(pthread_mutex_unlock(&untouched));
    for (int generation = 0; generation < GENERATIONS; generation++) {
        OK(pthread_mutex_lock(&m));
        pthread_t waiter = generation % 50 == 0 ? spawn(queue_up, &m) : 0;
        if (waiter)
            nap_ms(3);
        pid_t pid = fork_child();
        if (pid != 0) {
            OK(pthread_mutex_unlock(&m));
            if (waiter)
                join(waiter);
            if (generation != 0)
                _exit(0);
            CHECK(reap_descendants() == GENERATIONS);
            return;
        }
        OK(pthread_mutex_unlock(&m));
        RC(pthread_mutex_trylock(&m), 0);
        OK(pthread_mutex_unlock(&m));
    }
    exercise(&m);
    exercise(&untouched);
    _exit(0);
}

static pthread_mutex_t loaded = PTHREAD_MUTEX_INITIALIZER;

static void *load(void *unused) {
    while (!atomic_load(&churn_over)) {
        OK(pthread_mutex_lock(&loaded));
        OK(pthread_mutex_unlock(&loaded));
    }
    return unused;
}

static void spawn_under_load(void) {
    pthread_t threads[2] = {spawn(load, NULL), spawn(load, NULL)};
    char *const arguments[] = {"true", NULL};
    for (int i = 0; i < 20; i++) {
        pid_t pid;
        OK(pthread_mutex_lock(&loaded));
        OK(posix_spawnp(&pid, "true", NULL, NULL, arguments, environ));
        OK(pthread_mutex_unlock(&loaded));
        wait_child(pid);
    }
    CHECK(system("exit 3") == 3 << 8);
    atomic_store(&churn_over, true);
    join(threads[0]);
    join(threads[1]);
}

/* The child of a thread other than main has that thread as its only one. */
static void *fork_from_here(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    pid_t pid = fork_child();
    if (pid == 0) {
        OK(pthread_mutex_unlock(mutex));
        exercise(mutex);
        exit(0);
    }
    wait_child(pid);
    OK(pthread_mutex_unlock(mutex));
    return NULL;
}

static void from_threads(void) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    for (int round = 0; round < 5; round++) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            threads[i] = spawn(fork_from_here, &m);
        for (int i = 0; i < 3; i++)
            join(threads[i]);
    }
    OK(pthread_mutex_destroy(&m));
}

const struct subtest fork_tests[] = {
    {"fork_held_with_queue", held_with_queue},
    {"fork_owned_in_child", owned_in_child},
    {"fork_atfork_handlers", atfork_handlers},
    {"fork_cond_afresh", cond_afresh},
    {"fork_cond_idle", cond_idle},
    {"fork_rwlock_read_held", rwlock_read_held},
    {"fork_nested", nested},
    {"fork_many_generations", many_generations},
    {"fork_spawn_under_load", spawn_under_load},
    {"fork_from_threads", from_threads},
    {NULL, NULL},
};

/* Process-shared objects: between related processes, and with one that runs without the preload library. */
#include "driver.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { ROUNDS = 3000 };

struct shared {
    pthread_mutex_t mutex, recursive;
    pthread_cond_t cond;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    int turn, by_mutex, by_rwlock, by_spin, by_recursive;
};

static void shared_init(struct shared *s) {
    pthread_mutexattr_t mutex;
    OK(pthread_mutexattr_init(&mutex));
    OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&s->mutex, &mutex));
    OK(pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_RECURSIVE));
    OK(pthread_mutex_init(&s->recursive, &mutex));
    OK(pthread_mutexattr_destroy(&mutex));
    pthread_condattr_t cond;
    OK(pthread_condattr_init(&cond));
    OK(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
    OK(pthread_condattr_setclock(&cond, CLOCK_MONOTONIC));
    OK(pthread_cond_init(&s->cond, &cond));
    OK(pthread_condattr_destroy(&cond));
    pthread_rwlockattr_t rwlock;
    OK(pthread_rwlockattr_init(&rwlock));
    OK(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    OK(pthread_rwlock_init(&s->rwlock, &rwlock));
    OK(pthread_rwlockattr_destroy(&rwlock));
    OK(pthread_spin_init(&s->spin, PTHREAD_PROCESS_SHARED));
}

static void count_all(struct shared *s) {
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec later = in_ms(CLOCK_REALTIME, 9000);
        OK(i % 2 ? pthread_mutex_lock(&s->mutex) : pthread_mutex_timedlock(&s->mutex, &later));
        s->by_mutex++;
        OK(pthread_mutex_unlock(&s->mutex));
        OK(pthread_mutex_lock(&s->recursive));
        OK(pthread_mutex_lock(&s->recursive));
        s->by_recursive++;
        OK(pthread_mutex_unlock(&s->recursive));
        OK(pthread_mutex_unlock(&s->recursive));
        OK(pthread_rwlock_rdlock(&s->rwlock));
        OK(pthread_rwlock_unlock(&s->rwlock));
        OK(i % 2 ? pthread_rwlock_wrlock(&s->rwlock) : pthread_rwlock_timedwrlock(&s->rwlock, &later));
        s->by_rwlock++;
        OK(pthread_rwlock_unlock(&s->rwlock));
        OK(pthread_spin_lock(&s->spin));
        s->by_spin++;
        OK(pthread_spin_unlock(&s->spin));
    }
}

static void take_turns(struct shared *s, int mine) {
    for (int i = 0; i < 1000; i++) {
        OK(pthread_mutex_lock(&s->mutex));
        while (s->turn != mine) {
            struct timespec later = in_ms(CLOCK_MONOTONIC, 9000);
            OK(i % 2 ? pthread_cond_wait(&s->cond, &s->mutex) : pthread_cond_timedwait(&s->cond, &s->mutex, &later));
        }
        s->turn = !mine;
        OK(i % 2 ? pthread_cond_signal(&s->cond) : pthread_cond_broadcast(&s->cond));
        OK(pthread_mutex_unlock(&s->mutex));
    }
}

static void one_side(struct shared *s, int mine) {
    count_all(s);
    take_turns(s, mine);
}

static void check_sums(const struct shared *s) {
    CHECK(s->by_mutex == 2 * ROUNDS);
    CHECK(s->by_recursive == 2 * ROUNDS);
    CHECK(s->by_rwlock == 2 * ROUNDS);
    CHECK(s->by_spin == 2 * ROUNDS);
}

static void shared_destroy(struct shared *s) {
    OK(pthread_mutex_destroy(&s->mutex));
    OK(pthread_mutex_destroy(&s->recursive));
    OK(pthread_cond_destroy(&s->cond));
    OK(pthread_rwlock_destroy(&s->rwlock));
    OK(pthread_spin_destroy(&s->spin));
}

static void related_processes(void) {
    struct shared *s = shared_memory(sizeof *s);
    shared_init(s);
    pid_t pid = fork_child();
    if (pid == 0) {
        one_side(s, 1);
        _exit(0);
    }
    one_side(s, 0);
    wait_child(pid);
    check_sums(s);
    shared_destroy(s);
}

static struct shared *map_file(int fd) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(s != MAP_FAILED);
    return s;
}

/* Body of the process that runs without LD_PRELOAD. */
int pshared_stranger(const char *fd) {
    alarm(20);
    one_side(map_file(atoi(fd)), 1);
    return 0;
}

static void unrelated_process(void) {
    int fd = memfd_create("shared", 0);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
    struct shared *s = map_file(fd);
    shared_init(s);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    pid_t pid = fork_child();
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "driver", "--stranger", number, (char *)NULL);
        _exit(127);
    }
    one_side(s, 0);
    wait_child(pid);
    check_sums(s);
    shared_destroy(s);
}

static pthread_mutex_t *robust_mutex(void) {
    pthread_mutex_t *m = shared_memory(sizeof *m);
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutex_init(m, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
    return m;
}

static void owner_process_dies(void) {
    pthread_mutex_t *m = robust_mutex();
    pid_t pid = fork_child();
    if (pid == 0) {
        OK(pthread_mutex_lock(m));
        _exit(0);
    }
    wait_child(pid);
    RC(pthread_mutex_lock(m), EOWNERDEAD);
    OK(pthread_mutex_consistent(m));
    OK(pthread_mutex_unlock(m));
    OK(pthread_mutex_lock(m));
    OK(pthread_mutex_unlock(m));
    OK(pthread_mutex_destroy(m));
}

/* A mutex that is private, though its memory is shared after fork: each process has its own state of mind about it, but
 * programs do put private ones there and use them in one process only. */
static void private_in_shared_memory(void) {
    pthread_mutex_t *m = shared_memory(sizeof *m);
    OK(pthread_mutex_init(m, NULL));
    pid_t pid = fork_child();
    if (pid == 0) {
        for (int i = 0; i < 1000; i++) {
            OK(pthread_mutex_lock(m));
            OK(pthread_mutex_unlock(m));
        }
        _exit(0);
    }
    wait_child(pid);
    OK(pthread_mutex_lock(m));
    RC(trylock_elsewhere(m), EBUSY);
    OK(pthread_mutex_unlock(m));
}

const struct subtest pshared_tests[] = {
    {"pshared_related_processes", related_processes},
    {"pshared_unpreloaded_process", unrelated_process},
    {"pshared_owner_process_dies", owner_process_dies},
    {"pshared_private_in_shared_memory", private_in_shared_memory},
    {NULL, NULL},
};

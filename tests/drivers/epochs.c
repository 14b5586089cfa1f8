/* Epochs: nothing that a program does with them may harm it, and their marks change nothing that it sees. What the marks
 * are counted as is checked by tests/tests/epochs.rs. */
#include "driver.h"

#include "../../include/lockswap.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void use_lock(void) {
    OK(pthread_mutex_lock(&mutex));
    OK(pthread_mutex_unlock(&mutex));
}

/* 3 ends without a start, 2 starts without an end, and an impossible percentile twice. */
static void misuse(void) {
    errno = 77;
    lockswap_epoch_end(1, 1000);
    lockswap_epoch_start(1);
    lockswap_epoch_end(2, 1000);
    lockswap_epoch_start(2);
    lockswap_epoch_start(3);
    use_lock();
    lockswap_epoch_end(1, 1000); /* 2 and 3 have no end */
    lockswap_epoch_end(3, 1000);
    lockswap_epoch_percentile(1, 101);
    lockswap_epoch_percentile(1, -1);
    lockswap_epoch_percentile(1, 99.9);
    CHECK(errno == 77);
}

static void nesting(void) {
    for (int round = 0; round < 100; round++) {
        for (int id = 0; id < 50; id++) {
            lockswap_epoch_start(id);
            use_lock();
        }
        for (int id = 49; id >= 0; id--)
            lockswap_epoch_end(id, 1000000000);
    }
    /* The same id inside itself, and far deeper than anybody nests. */
    for (int i = 0; i < 1000; i++)
        lockswap_epoch_start(7);
    use_lock();
    for (int i = 0; i < 1000; i++)
        lockswap_epoch_end(7, 1000000000);
}

/* More ids than the library remembers. */
static void many_ids(void) {
    for (int round = 0; round < 2; round++)
        for (int64_t id = -40000; id < 40000; id++) {
            int spread = (int)(id * 53687);
            lockswap_epoch_start(spread);
            if (id % 1000 == 0)
                use_lock();
            lockswap_epoch_end(spread, UINT64_MAX);
        }
}

static void *short_life(void *argument) {
    int id = (int)(intptr_t)argument;
    for (int i = 0; i < 10; i++) {
        lockswap_epoch_start(id);
        use_lock();
        lockswap_epoch_end(id, i % 3 ? 1000000000 : 0);
    }
    lockswap_epoch_start(id); /* the thread ends inside */
    return NULL;
}

static void threads(void) {
    for (int round = 0; round < 20; round++) {
        pthread_t all[50];
        for (size_t i = 0; i < COUNT_OF(all); i++)
            all[i] = spawn(short_life, (void *)(intptr_t)(i % 5));
        for (size_t i = 0; i < COUNT_OF(all); i++)
            join(all[i]);
    }
}

static pthread_key_t key;

static void late_epoch(void *again) {
    lockswap_epoch_start(1);
    use_lock();
    lockswap_epoch_end(1, 1000);
    if (again)
        OK(pthread_setspecific(key, NULL));
}

static void *with_destructor(void *argument) {
    (void)argument;
    OK(pthread_setspecific(key, &key));
    short_life(NULL);
    return NULL;
}

/* Destructors of thread-specific data run after the library has given back the thread's memory. */
static void destructors(void) {
    OK(pthread_key_create(&key, late_epoch));
    for (int i = 0; i < 100; i++)
        join(spawn(with_destructor, NULL));
}

static void *child_thread(void *argument) {
    short_life(argument);
    return NULL;
}

static void forking(void) {
    short_life(NULL);
    lockswap_epoch_start(3);
    lockswap_epoch_start(4);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            lockswap_epoch_end(4, 1000000000);
            lockswap_epoch_end(3, 1000000000);
            use_lock();
            join(spawn(child_thread, (void *)5));
            short_life(NULL);
            _exit(0);
        }
        wait_child(pid);
    }
    lockswap_epoch_end(4, 1000000000);
    lockswap_epoch_end(3, 1000000000);
}

static atomic_int signals;
static int handler_id;

static void handler(int number) {
    (void)number;
    int id = 1000 + handler_id++ % 5000;
    lockswap_epoch_start(id);
    lockswap_epoch_start(1);
    lockswap_epoch_end(1, 1000);
    lockswap_epoch_end(id, 1000);
    atomic_fetch_add(&signals, 1);
}

/* A handler that comes anywhere, also while the thread's table grows. */
static void signal_handlers(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    OK(sigaction(SIGALRM, &action, NULL));
    struct itimerval timer = {{0, 50}, {0, 50}};
    OK(setitimer(ITIMER_REAL, &timer, NULL));
    long long end = now_on(CLOCK_MONOTONIC) + SECOND / 2;
    for (int id = 0; now_on(CLOCK_MONOTONIC) < end; id = (id + 1) % 20000) {
        lockswap_epoch_start(id);
        lockswap_epoch_start(-id);
        lockswap_epoch_end(-id, 1000000);
        lockswap_epoch_end(id, 1000000);
    }
    struct itimerval none = {{0, 0}, {0, 0}};
    OK(setitimer(ITIMER_REAL, &none, NULL));
    CHECK(atomic_load(&signals) > 10);
}

static __thread int fresh_id;
static atomic_bool growing;

/* Set again by each handler, so that a slow machine is not busy with handlers alone. */
static void next_signal(void) {
    struct itimerval once = {{0, 0}, {0, 20}};
    OK(setitimer(ITIMER_REAL, &once, NULL));
}

static void growing_handler(int number) {
    (void)number;
    for (int i = 0; i < 64; i++) {
        int id = fresh_id++;
        lockswap_epoch_start(id);
        lockswap_epoch_end(id, 1000);
    }
    if (atomic_load(&growing))
        next_signal();
}

static void *interrupted(void *argument) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    fresh_id = 1000;
    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    long long end = now_on(CLOCK_MONOTONIC) + 100 * MS;
    for (int i = 0; *(volatile int *)&fresh_id < 5000 && (i % 1000 || now_on(CLOCK_MONOTONIC) < end); i++) {
        lockswap_epoch_start(i % 8);
        lockswap_epoch_end(i % 8, 1000);
    }
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    return argument;
}

/* The table grows in handlers, while the threads that they interrupt look something up in it. */
static void handlers_grow_the_table(void) {
    struct sigaction action = {.sa_handler = growing_handler, .sa_flags = SA_RESTART};
    OK(sigaction(SIGALRM, &action, NULL));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    atomic_store(&growing, true);
    next_signal();
    for (int i = 0; i < 50; i++)
        join(spawn(interrupted, NULL));
    atomic_store(&growing, false);
}

/* 1000 runs of epoch 5, and an end that leaves no time to write anything. */
static void thousand_then_killed(void) {
    for (int i = 0; i < 1000; i++) {
        lockswap_epoch_start(5);
        lockswap_epoch_end(5, 1000000000);
    }
    raise(SIGKILL);
}

static void killed(void) {
    pid_t pid = fork_child();
    if (pid == 0)
        thousand_then_killed();
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    pid = fork_child();
    if (pid == 0) {
        for (int i = 0; i < 1000; i++) {
            lockswap_epoch_start(5);
            lockswap_epoch_end(5, 1000000000);
        }
        _exit(0);
    }
    wait_child(pid);
}

const struct subtest epoch_tests[] = {
    {"epoch_misuse", misuse},
    {"epoch_nesting", nesting},
    {"epoch_many_ids", many_ids},
    {"epoch_threads", threads},
    {"epoch_destructors", destructors},
    {"epoch_fork", forking},
    {"epoch_signal_handlers", signal_handlers},
    {"epoch_handlers_grow_the_table", handlers_grow_the_table},
    {"epoch_killed", killed},
    {NULL, NULL},
};

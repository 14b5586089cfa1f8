/* Signal handlers that take and release other mutexes than those that they interrupt, a thousand times a second in each
   thread. POSIX does not promise that this works; glibc's own locks do it, and programs rely on it. */
#include "driver.h"

#include <signal.h>
#include <sys/syscall.h>

enum { FRESH = 16384, HANDLERS_OWN = 8, TICK_NS = 1000000 };

static pthread_mutex_t hammered = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t handlers_own[HANDLERS_OWN] = {[0 ... HANDLERS_OWN - 1] = PTHREAD_MUTEX_INITIALIZER};
static long inside_hammered, inside_handlers_own[HANDLERS_OWN];
/* Mutexes and rwlocks that nobody has used before. */
static pthread_mutex_t fresh_mutexes[FRESH];
static pthread_rwlock_t fresh_rwlocks[FRESH];
static atomic_int next_fresh, stop;
static atomic_long ticks, handlers_counted[HANDLERS_OWN];
static bool handler_tries;

static void use_fresh(void) {
    int mine = atomic_fetch_add(&next_fresh, 1);
    if (mine >= FRESH)
        return;
    OK(pthread_mutex_lock(&fresh_mutexes[mine]));
    OK(pthread_mutex_unlock(&fresh_mutexes[mine]));
    OK(pthread_rwlock_wrlock(&fresh_rwlocks[mine]));
    OK(pthread_rwlock_unlock(&fresh_rwlocks[mine]));
}

static void on_tick(int signal) {
    (void)signal;
    int saved = errno;
    long tick = atomic_fetch_add(&ticks, 1);
    int which = (int)(tick % HANDLERS_OWN);
    pthread_mutex_t *other = &handlers_own[which];
    if (!handler_tries || pthread_mutex_trylock(other) == 0) {
        if (!handler_tries)
            OK(pthread_mutex_lock(other));
        inside_handlers_own[which]++;
        atomic_fetch_add(&handlers_counted[which], 1);
        OK(pthread_mutex_unlock(other));
    }
    use_fresh();
    errno = saved;
}

static void *hammer(void *unused) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    long done = 0;
    while (!atomic_load(&stop)) {
        OK(pthread_mutex_lock(&hammered));
        inside_hammered++;
        OK(pthread_mutex_unlock(&hammered));
        if (++done % 64 == 0)
            use_fresh();
    }
    CHECK(timer_delete(timer) == 0);
    /* A tick that is under way comes before the signal is blocked, or not at all. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    (void)unused;
    return (void *)done;
}

static void with_handler(bool tries) {
    handler_tries = tries;
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    long expected = 0;
    for (int threads = 2; threads <= 4; threads++) {
        pthread_t all[4];
        atomic_store(&stop, 0);
        for (int i = 0; i < threads; i++)
            all[i] = spawn(hammer, NULL);
        nap_ms(250);
        atomic_store(&stop, 1);
        for (int i = 0; i < threads; i++)
            expected += (long)join(all[i]);
    }
    CHECK(inside_hammered == expected);
    for (int i = 0; i < HANDLERS_OWN; i++)
        CHECK(inside_handlers_own[i] == atomic_load(&handlers_counted[i]));
    CHECK(atomic_load(&ticks) > 0);
}

static void locks_another(void) {
    with_handler(false);
}

static void tries_another(void) {
    with_handler(true);
}

const struct subtest signal_tests[] = {
    {"signal_locks_another", locks_another},
    {"signal_tries_another", tries_another},
    {NULL, NULL},
};

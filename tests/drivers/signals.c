/* Signal handlers that use mutexes, 5,000 times a second in each thread: other ones than those that they interrupt,
   the same ones without waiting, and some that stay locked when the handler returns. POSIX does not promise that this
   works; glibc's own locks do it, and programs rely on it. */
#include "driver.h"

#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum { FRESH = 16384, HANDLERS_OWN = 8, TICK_NS = 200000 };

static pthread_mutex_t hammered = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t handlers_own[HANDLERS_OWN] = {[0 ... HANDLERS_OWN - 1] = PTHREAD_MUTEX_INITIALIZER};
static long inside_hammered, inside_handlers_own[HANDLERS_OWN];
/* Mutexes and rwlocks that nobody has used before. */
static pthread_mutex_t fresh_mutexes[FRESH];
static pthread_rwlock_t fresh_rwlocks[FRESH];
static atomic_int next_fresh, stop;
static atomic_long ticks, handlers_counted[HANDLERS_OWN];
static bool handler_tries;
/* What a handler has left locked in its thread, for the thread to count and to unlock. */
struct kept {
    pthread_mutex_t mutex;
    bool is_locked;
    long times, inside;
};
static __thread struct kept kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static atomic_long all_kept;

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

static void keeps_one(int signal) {
    (void)signal;
    int saved = errno;
    atomic_fetch_add(&ticks, 1);
    if (!kept.is_locked) {
        OK(pthread_mutex_lock(&kept.mutex));
        kept.times++;
        kept.is_locked = true;
    }
    errno = saved;
}

static void give_up_kept(void) {
    if (!kept.is_locked)
        return;
    RC(pthread_mutex_trylock(&kept.mutex), EBUSY);
    kept.inside++;
    OK(pthread_mutex_unlock(&kept.mutex));
    OK(pthread_mutex_trylock(&kept.mutex));
    OK(pthread_mutex_unlock(&kept.mutex));
    kept.is_locked = false;
}

static void tries_the_same_one(int signal) {
    (void)signal;
    int saved = errno;
    atomic_fetch_add(&ticks, 1);
    if (pthread_mutex_trylock(&hammered) == 0) {
        inside_hammered++;
        atomic_fetch_add(&handlers_counted[0], 1);
        OK(pthread_mutex_unlock(&hammered));
    }
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
        give_up_kept();
    }
    CHECK(timer_delete(timer) == 0);
    /* A tick that is under way comes before the signal is blocked, or not at all. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    give_up_kept();
    CHECK(kept.times == kept.inside);
    atomic_fetch_add(&all_kept, kept.times);
    (void)unused;
    return (void *)done;
}

/* Lets 2, 3 and 4 threads hammer under this handler, and returns how often they did. */
static long hammered_under(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    long expected = 0;
    for (int threads = 2; threads <= 4; threads++) {
        pthread_t all[4];
        atomic_store(&stop, 0);
        for (int i = 0; i < threads; i++)
            all[i] = spawn(hammer, NULL);
        nap_ms(50);
        atomic_store(&stop, 1);
        for (int i = 0; i < threads; i++)
            expected += (long)join(all[i]);
    }
    CHECK(atomic_load(&ticks) > 0);
    return expected;
}

static void with_handler(bool tries) {
    handler_tries = tries;
    CHECK(hammered_under(on_tick) == inside_hammered);
    for (int i = 0; i < HANDLERS_OWN; i++)
        CHECK(inside_handlers_own[i] == atomic_load(&handlers_counted[i]));
}

static void locks_another(void) {
    with_handler(false);
}

static void tries_another(void) {
    with_handler(true);
}

static void tries_the_same(void) {
    long expected = hammered_under(tries_the_same_one);
    CHECK(inside_hammered == expected + atomic_load(&handlers_counted[0]));
}

static void keeps_another(void) {
    CHECK(hammered_under(keeps_one) == inside_hammered);
    CHECK(atomic_load(&all_kept) > 0);
}

/* A handler at each instruction of a call: the trap flag of the CPU raises SIGTRAP after every one. */
#ifdef __x86_64__
#include <ucontext.h>

static pthread_mutex_t stepped = PTHREAD_MUTEX_INITIALIZER, beside = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t around[5] = {[0 ... 4] = PTHREAD_MUTEX_INITIALIZER};
static sem_t asked, answered;
static bool is_over, stepped_is_locked, beside_is_seen_locked;
static volatile int steps_left;
static volatile bool handled, beside_is_locked;
static void (*volatile at_step)(void);

static void on_step(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    if (--steps_left > 0)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100LL;
    handled = true;
    at_step();
}

static void keep_beside(void) {
    OK(pthread_mutex_lock(&beside));
    beside_is_locked = true;
}

static void use_beside(void) {
    OK(pthread_mutex_lock(&beside));
    OK(pthread_mutex_unlock(&beside));
}

static void release_beside(void) {
    OK(pthread_mutex_unlock(&beside));
    beside_is_locked = false;
}

static void try_stepped(void) {
    if (pthread_mutex_trylock(&stepped) == 0)
        OK(pthread_mutex_unlock(&stepped));
}

/* Makes the call, with the handler after its first `steps` instructions; whether it took as many. */
static bool with_step(int (*call)(pthread_mutex_t *), int steps) {
    steps_left = steps;
    handled = false;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    int result = call(&stepped);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    OK(result);
    return handled;
}

static bool is_locked(pthread_mutex_t *mutex) {
    int result = pthread_mutex_trylock(mutex);
    if (result == 0)
        OK(pthread_mutex_unlock(mutex));
    else
        RC(result, EBUSY);
    return result != 0;
}

/* The other thread: looks when it is asked whether the mutexes are locked. */
static void *looks(void *unused) {
    while (sem_wait(&asked) == 0 && !is_over) {
        stepped_is_locked = is_locked(&stepped);
        beside_is_seen_locked = is_locked(&beside);
        CHECK(sem_post(&answered) == 0);
    }
    return unused;
}

/* Checks that `stepped` is locked or not, and `beside` as the thread has left it. */
static void expect(bool stepped_is) {
    CHECK(sem_post(&asked) == 0 && sem_wait(&answered) == 0);
    CHECK(stepped_is_locked == stepped_is);
    CHECK(beside_is_seen_locked == beside_is_locked);
}

/* Holds `depth` other mutexes meanwhile, so that the calls use what a thread has for its first locks, and for later ones. */
static void at_each_step_of(int (*acquire)(pthread_mutex_t *), void (*action)(void), int depth) {
    at_step = action;
    for (int i = 0; i < depth; i++)
        OK(pthread_mutex_lock(&around[i]));
    bool in_acquire = true, in_release = true;
    for (int steps = 1; in_acquire || in_release; steps++) {
        for (int part = 0; part < 2; part++) {
            bool *is_inside = part ? &in_release : &in_acquire;
            if (!*is_inside)
                continue;
            if (action == release_beside)
                keep_beside();
            if (part == 0) {
                *is_inside = with_step(acquire, steps);
            } else {
                OK(acquire(&stepped));
                *is_inside = with_step(pthread_mutex_unlock, steps);
            }
            expect(part == 0);
            if (part == 0)
                OK(pthread_mutex_unlock(&stepped));
            if (beside_is_locked)
                release_beside();
            expect(false);
        }
    }
    for (int i = 0; i < depth; i++)
        OK(pthread_mutex_unlock(&around[i]));
}

static void at_each_instruction(void) {
    struct sigaction handler = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &handler, NULL) == 0);
    void (*const actions[])(void) = {keep_beside, use_beside, release_beside, try_stepped};
    const int depths[] = {0, 1, (int)COUNT_OF(around)};
    CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    pthread_t other = spawn(looks, NULL);
    for (size_t a = 0; a < COUNT_OF(actions); a++) {
        for (size_t d = 0; d < COUNT_OF(depths); d++)
            at_each_step_of(pthread_mutex_lock, actions[a], depths[d]);
        /* A lock may refuse a try while another one is under way. */
        if (actions[a] != try_stepped)
            at_each_step_of(pthread_mutex_trylock, actions[a], 0);
    }
    is_over = true;
    CHECK(sem_post(&asked) == 0);
    join(other);
}
#else
static void at_each_instruction(void) {
    skip("the trap flag is one of x86-64");
}
#endif

const struct subtest signal_tests[] = {
    {"signal_locks_another", locks_another},
    {"signal_tries_another", tries_another},
    {"signal_tries_the_same", tries_the_same},
    {"signal_keeps_another", keeps_another},
    {"signal_at_each_instruction", at_each_instruction},
    {NULL, NULL},
};

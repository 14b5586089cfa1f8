/* Clocks, threads, memory and signals for the sub-tests. */
#include "driver.h"

#include <signal.h>

long long now_on(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

struct timespec at_ns(long long ns) {
    long long seconds = ns / SECOND, rest = ns % SECOND;
    if (rest < 0) {
        rest += SECOND;
        seconds--;
    }
    return (struct timespec){.tv_sec = seconds, .tv_nsec = rest};
}

struct timespec in_ms(clockid_t clock, long ms) {
    return at_ns(now_on(clock) + ms * MS);
}

void nap_ms(long ms) {
    long long end = now_on(CLOCK_MONOTONIC) + ms * MS;
    struct timespec until = at_ns(end);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

void settle(void) {
    nap_ms(15);
}

void await(atomic_int *flag, int value) {
    while (atomic_load(flag) < value)
        usleep(200);
}

pthread_t spawn(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, body, argument);
    check_rc(__FILE__, __LINE__, "pthread_create", rc, 0);
    return thread;
}

void *join(pthread_t thread) {
    void *result;
    OK(pthread_join(thread, &result));
    return result;
}

struct in_thread_call {
    int (*body)(void *);
    void *argument;
    int result;
};

static void *in_thread_body(void *argument) {
    struct in_thread_call *call = argument;
    call->result = call->body(call->argument);
    return NULL;
}

int in_thread(int (*body)(void *), void *argument) {
    struct in_thread_call call = {body, argument, -1};
    join(spawn(in_thread_body, &call));
    return call.result;
}

void *shared_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

void *fresh_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

const struct kind kinds[4] = {
    {"normal", PTHREAD_MUTEX_NORMAL},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},
    {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};

void init_kind(pthread_mutex_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, type));
    OK(pthread_mutex_init(mutex, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
}

static int try_and_undo(void *mutex) {
    int rc = pthread_mutex_trylock(mutex);
    if (rc == 0)
        OK(pthread_mutex_unlock(mutex));
    return rc;
}

int trylock_elsewhere(pthread_mutex_t *mutex) {
    return in_thread(try_and_undo, mutex);
}

static int just_unlock(void *mutex) {
    return pthread_mutex_unlock(mutex);
}

int unlock_elsewhere(pthread_mutex_t *mutex) {
    return in_thread(just_unlock, mutex);
}

static pthread_t storm_target, storm_sender;
static atomic_bool storm_over;

static void storm_signal(int number) {
    (void)number;
}

static void *storm_body(void *unused) {
    while (!atomic_load(&storm_over)) {
        OK(pthread_kill(storm_target, SIGUSR1));
        usleep(300);
    }
    return unused;
}

void storm_start(pthread_t target) {
    /* No SA_RESTART: what can give EINTR shall. */
    struct sigaction action = {.sa_handler = storm_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    storm_target = target;
    atomic_store(&storm_over, false);
    storm_sender = spawn(storm_body, NULL);
}

void storm_stop(void) {
    atomic_store(&storm_over, true);
    join(storm_sender);
}

/* Threads that end in every way, and lock on their way out; the argument names what runs:
   "create": threads that take five mutexes at once and return,
   "timers": the same in threads that the C library starts for timers (SIGEV_THREAD),
   "exit":   the same in threads that end by pthread_exit, and lock in the destructors of keys,
   "cancel": the same in threads that are cancelled in a condition wait.
   The second argument is their number. Prints by how many KiB the process has grown since the first quarter. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MUTEXES = 5 };

static pthread_mutex_t mutexes[MUTEXES];
static pthread_mutex_t waiting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_key_t key;
static sem_t started, ended;
static long count;
static const char *how;

static void expect(int error, int expected) {
    if (error != expected) {
        fprintf(stderr, "error %d instead of %d\n", error, expected);
        exit(EXIT_FAILURE);
    }
}

static void take_all(void) {
    for (int i = 0; i < MUTEXES; i++)
        expect(pthread_mutex_lock(&mutexes[i]), 0);
    count++;
    for (int i = 0; i < MUTEXES; i++)
        expect(pthread_mutex_unlock(&mutexes[i]), 0);
}

/* Comes back until it has run four times, the most that POSIX promises. */
static void destroy(void *value) {
    long rounds = (long)value;
    take_all();
    if (rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(key, (void *)(rounds + 1));
}

static void release(void *mutex) {
    take_all();
    expect(pthread_mutex_unlock(mutex), 0);
}

static void *run(void *unused) {
    take_all();
    if (!strcmp(how, "exit")) {
        pthread_setspecific(key, (void *)1);
        pthread_exit(NULL);
    }
    if (!strcmp(how, "cancel")) {
        pthread_setspecific(key, (void *)1);
        expect(pthread_mutex_lock(&waiting), 0);
        pthread_cleanup_push(release, &waiting);
        sem_post(&started);
        for (;;)
            pthread_cond_wait(&never, &waiting);
        pthread_cleanup_pop(0);
    }
    return unused;
}

static void expired(union sigval unused) {
    (void)unused;
    take_all();
    sem_post(&ended);
}

static void one_thread(void) {
    if (!strcmp(how, "timers")) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired};
        struct itimerspec soon = {.it_value = {0, 1}};
        expect(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
        expect(timer_settime(timer, 0, &soon, NULL), 0);
        while (sem_wait(&ended))
            ;
        expect(timer_delete(timer), 0);
        return;
    }
    pthread_t thread;
    expect(pthread_create(&thread, NULL, run, NULL), 0);
    if (!strcmp(how, "cancel")) {
        while (sem_wait(&started))
            ;
        expect(pthread_cancel(thread), 0);
    }
    expect(pthread_join(thread, NULL), 0);
}

static long resident_kib(void) {
    char line[256];
    long found = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmRSS: %ld kB", &found);
    if (status)
        fclose(status);
    return found;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return EXIT_FAILURE;
    how = argv[1];
    long threads = atol(argv[2]), before = 0;
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_init(&mutexes[i], NULL);
    sem_init(&started, 0, 0);
    sem_init(&ended, 0, 0);
    expect(pthread_key_create(&key, destroy), 0);
    for (long i = 0; i < threads; i++) {
        if (i == threads / 4)
            before = resident_kib();
        one_thread();
    }
    long each = !strcmp(how, "exit") ? 1 + PTHREAD_DESTRUCTOR_ITERATIONS
                : !strcmp(how, "cancel") ? 2 + PTHREAD_DESTRUCTOR_ITERATIONS : 1;
    if (count != each * threads) {
        fprintf(stderr, "%ld instead of %ld\n", count, each * threads);
        return EXIT_FAILURE;
    }
    printf("%ld\n", resident_kib() - before);
    return EXIT_SUCCESS;
}

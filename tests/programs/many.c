/* many MUTEXES THREADS FORKS: locks so many mutexes, one after the other, starts so many threads, ten at a time, each of which
 * locks a mutex that is always the same, and forks so often, with ten children at a time that do the same with two threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 10 };

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static long counter;

__attribute__((noinline)) void make(pthread_mutex_t *mutex) {
    pthread_mutex_init(mutex, NULL);
}

static void *count(void *times) {
    for (long i = 0; i < (long)times; i++) {
        pthread_mutex_lock(&shared);
        counter++;
        pthread_mutex_unlock(&shared);
    }
    return NULL;
}

static void run_threads(int threads, long times) {
    pthread_t started[AT_ONCE];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, count, (void *)times) != 0)
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    long mutexes = atol(argv[1]), threads = atol(argv[2]), forks = atol(argv[3]);
    pthread_mutex_t *all = malloc((mutexes + 1) * sizeof *all);
    for (long i = 0; i < mutexes; i++)
        make(&all[i]);
    for (long i = 0; i < mutexes; i++) {
        pthread_mutex_lock(&all[i]);
        pthread_mutex_unlock(&all[i]);
    }
    for (long i = 0; i < threads; i += AT_ONCE)
        run_threads(AT_ONCE, 3);
    for (long i = 0; i < forks; i++) {
        if (i >= AT_ONCE && wait(NULL) < 0)
            abort();
        if (fork() == 0) {
            run_threads(2, 3);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
    printf("%ld\n", counter);
}

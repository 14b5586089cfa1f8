/* sections SECONDS: two threads share the mutex `hot`, one for 1 ms at a time, one for 20 us; the second one also takes a
 * mutex of its own. Prints how often each got `hot`, after that time or SIGTERM. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER, cold = PTHREAD_MUTEX_INITIALIZER;
static volatile int64_t end;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void keep_busy(int64_t ns) {
    for (int64_t begin = now(); now() - begin < ns;)
        ;
}

__attribute__((noinline)) void slow_section(void) {
    pthread_mutex_lock(&hot);
    keep_busy(1000000);
    pthread_mutex_unlock(&hot);
}

__attribute__((noinline)) void fast_section(void) {
    pthread_mutex_lock(&hot);
    keep_busy(20000);
    pthread_mutex_unlock(&hot);
}

static void *slow(void *count) {
    for (; now() < end; ++*(long *)count) {
        slow_section();
        keep_busy(1000000);
    }
    return NULL;
}

static void *fast(void *count) {
    for (; now() < end; ++*(long *)count) {
        fast_section();
        pthread_mutex_lock(&cold);
        pthread_mutex_unlock(&cold);
        keep_busy(20000);
    }
    return NULL;
}

static void finish(int signal) {
    (void)signal;
    end = 0;
}

int main(int argc, char **argv) {
    (void)argc;
    signal(SIGTERM, finish);
    end = now() + (int64_t)(atof(argv[1]) * 1e9);
    long counts[2] = {0};
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, slow, &counts[0]);
    pthread_create(&threads[1], NULL, fast, &counts[1]);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("slow %ld fast %ld\n", counts[0], counts[1]);
}

/* hotcold ROUNDS: four threads hold the mutex `hot` ROUNDS times each, for a nap of 50 us, and after each time take one
 * of 1,000 mutexes that hardly anybody else wants. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4, COLD = 1000 };

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t cold[COLD];
static long rounds, count, counts[COLD];

static void nap(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) void hot_section(void) {
    pthread_mutex_lock(&hot);
    count++;
    nap(50);
    pthread_mutex_unlock(&hot);
}

static void *work(void *seed) {
    unsigned random = (unsigned)(long)seed;
    for (long round = 0; round < rounds; round++) {
        hot_section();
        random = random * 1103515245 + 12345;
        int i = (random >> 8) % COLD;
        pthread_mutex_lock(&cold[i]);
        counts[i]++;
        pthread_mutex_unlock(&cold[i]);
        nap(400 + (random >> 8) % 800);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    rounds = atol(argv[1]);
    for (int i = 0; i < COLD; i++) pthread_mutex_init(&cold[i], NULL);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", count);
    return count != THREADS * rounds;
}

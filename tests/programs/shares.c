/* shares SECONDS SECTION THINK [THREADS]: threads that hold the mutex `hot` for SECTION ns and then think for THINK ns, over
 * and over. Prints how often they did so in a second, all together. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static int64_t end, section, think;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void keep_busy(int64_t ns) {
    for (int64_t begin = now(); now() - begin < ns;)
        ;
}

static void *work(void *count) {
    while (now() < end) {
        pthread_mutex_lock(&hot);
        keep_busy(section);
        pthread_mutex_unlock(&hot);
        ++*(long *)count;
        keep_busy(think);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    double seconds = atof(argv[1]);
    int number = argc > 4 ? atoi(argv[4]) : 2;
    section = atol(argv[2]), think = atol(argv[3]), end = now() + (int64_t)(seconds * 1e9);
    struct { long count; char line[120]; } counts[64] = {0};
    pthread_t threads[64];
    for (int i = 0; i < number; i++) pthread_create(&threads[i], NULL, work, &counts[i].count);
    long sum = 0;
    for (int i = 0; i < number; i++) pthread_join(threads[i], NULL), sum += counts[i].count;
    printf("%.0f\n", sum / seconds);
}

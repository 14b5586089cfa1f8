/* Who gets a mutex first: a thread on CPU argv[2] that asked first, or one on CPU argv[1] that asked 10 ms later? The
 * holder is on CPU argv[1], too. One letter per round, 'f' for the first and 's' for the second, for argv[3] seconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char order[2];
static int served;

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("sched_setaffinity");
        exit(2);
    }
}

struct waiter { int cpu; char name; };

static void *wait_for_it(void *argument) {
    struct waiter *waiter = argument;
    pin(waiter->cpu);
    pthread_mutex_lock(&lock);
    order[served++] = waiter->name;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct waiter first = {atoi(argv[2]), 'f'}, second = {atoi(argv[1]), 's'};
    time_t end = time(NULL) + atoi(argv[3]);
    pin(second.cpu);
    while (time(NULL) < end) {
        pthread_t threads[2];
        served = 0;
        pthread_mutex_lock(&lock);
        pthread_create(&threads[0], NULL, wait_for_it, &first);
        usleep(10000);
        pthread_create(&threads[1], NULL, wait_for_it, &second);
        usleep(10000);
        pthread_mutex_unlock(&lock);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        putchar(order[0]);
        fflush(stdout);
    }
    return 0;
}

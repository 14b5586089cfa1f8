/* twowants: the mutexes `slow` and `fast`, for each of which four threads wait that nap while they hold it. At the end it
 * prints a rate that is the higher the better both have their locks, as $LOCKSWAP_PROFILE and $LOCKSWAP_LOCK say:
 * `mcs_stp` for `slow`, `futex` for `fast`. What locks are really worth depends on the machine and on what else it
 * does; a test of who chooses them should not. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t slow = PTHREAD_MUTEX_INITIALIZER, fast = PTHREAD_MUTEX_INITIALIZER;

static void nap(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

/* Holds it again and again for a nap of 50 us, with longer naps of random length between. */
static void hold(pthread_mutex_t *mutex, unsigned random) {
    for (int i = 0; i < 300; i++) {
        random = random * 1103515245 + 12345;
        pthread_mutex_lock(mutex);
        nap(50);
        pthread_mutex_unlock(mutex);
        nap(200 + (random >> 8) % 400);
    }
}

static void *hold_slow(void *seed) {
    hold(&slow, (unsigned)(long)seed);
    return NULL;
}

static void *hold_fast(void *seed) {
    hold(&fast, (unsigned)(long)seed);
    return NULL;
}

/* Whether the mutex has this lock: by the rule for its symbol, else as everything has. */
static int has(const char *symbol, const char *lock) {
    const char *path = getenv("LOCKSWAP_PROFILE"), *all = getenv("LOCKSWAP_LOCK");
    FILE *profile = path ? fopen(path, "r") : NULL;
    char line[256], wanted[256], given[256] = "";
    int is_its = 0;
    snprintf(wanted, sizeof wanted, "symbol = \"%s\"", symbol);
    while (profile && fgets(line, sizeof line, profile)) {
        if (!strncmp(line, "[[mutex]]", 9)) is_its = 0;
        if (!strncmp(line, wanted, strlen(wanted))) is_its = 1;
        if (is_its && !*given) sscanf(line, "lock = \"%255[^\"]\"", given);
    }
    if (profile) fclose(profile);
    if (!*given && all) snprintf(given, sizeof given, "%s", all);
    return !strcmp(given, lock);
}

int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, i % 2 ? hold_fast : hold_slow, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    printf("rate: %d\n", 100 * (has("slow", "mcs_stp") ? 3 : 2) * (has("fast", "futex") ? 3 : 2));
}

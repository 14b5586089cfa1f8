// A program for the sanitizers: two threads take turns with a mutex and a condition variable and count under an rwlock.
//
//   correct    nothing is wrong with it
//   overflow   writes behind a block of memory, which AddressSanitizer reports
//   race       counts once more without the lock, which ThreadSanitizer reports
//   run CMD    runs a command and prints its status
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long turn;
static long counted;
static long races;
static int racing;

static void *work(void *argument) {
    long self = *(long *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        while (turn != self) pthread_cond_wait(&turned, &mutex);
        turn = !turn;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        counted++;
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        if (counted > 2 * ROUNDS) abort();
        pthread_rwlock_unlock(&rwlock);
    }
    if (racing) races++;
    return NULL;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "correct";
    if (!strncmp(mode, "run ", 4)) {
        printf("%d\n", system(mode + 4));
        return 0;
    }
    racing = !strcmp(mode, "race");
    pthread_t threads[2];
    long numbers[2] = {0, 1};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", counted);
    if (!strcmp(mode, "overflow")) {
        volatile char *block = malloc(8);
        block[7 + count / 2] = 1;
        free((void *)block);
    }
    return 0;
}

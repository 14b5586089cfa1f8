/* Cancels threads, at any instruction, while they lock mutexes for the first time; the other threads must not
   notice. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 200, MUTEXES = 512 };

struct round {
    /* How far the thread is, from 1 on, and whether it may go on from there. */
    atomic_int reached, may_go;
    pthread_mutex_t mutexes[MUTEXES];
};

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;

/* The only function of the library that may be cancelled anywhere is pthread_mutex_lock: nothing is unlocked here. */
static void *victim(void *argument) {
    struct round *round = argument;
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    atomic_store(&round->reached, 1);
    while (!atomic_load(&round->may_go))
        ;
    for (int i = 0; i < MUTEXES; i++) {
        pthread_mutex_lock(&round->mutexes[i]);
        atomic_store(&round->reached, i + 1);
    }
    for (;;)
        pause();
    return NULL;
}

/* Uses a mutex for the first time, and one that all rounds use. */
static void use_others(void) {
    pthread_mutex_t *own = calloc(1, sizeof *own);
    if (pthread_mutex_lock(own) || pthread_mutex_unlock(own) || pthread_mutex_destroy(own))
        abort();
    free(own);
    if (pthread_mutex_lock(&shared) || pthread_mutex_unlock(&shared))
        abort();
}

int main(void) {
    long taken = 0, left = 0;
    unsigned seed = 1;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result;
        struct round *round = calloc(1, sizeof *round);
        pthread_create(&thread, NULL, victim, round);
        while (!atomic_load(&round->reached))
            ;
        atomic_store(&round->may_go, 1);
        int target = 1 + rand_r(&seed) % (MUTEXES / 2);
        while (atomic_load(&round->reached) < target)
            ;
        pthread_cancel(thread);
        use_others();
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            abort();
        /* Held for ever, or free and whole; the thread that holds them is gone, so their memory stays. */
        for (int m = 0; m < MUTEXES; m++) {
            int error = pthread_mutex_trylock(&round->mutexes[m]);
            if (error && error != EBUSY)
                abort();
            error ? left++ : taken++;
            if (!error && pthread_mutex_unlock(&round->mutexes[m]))
                abort();
        }
        use_others();
    }
    /* The more are free, the more threads were met on their way; with a CPU for both that are most. */
    printf("%ld held, %ld free\n", left, taken);
    return EXIT_SUCCESS;
}

/* Loads the library that the argument names while four threads are busy with the C library's own locks, and calls
   the functions of the library from all of them at once. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, MUTEXES = 32, ROUNDS = 20000 };

typedef int function(pthread_mutex_t *);

static _Atomic(function *) lock, unlock;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER, shared[MUTEXES];
static long own_count, counts[MUTEXES];
static atomic_int busy;

static void *run(void *unused) {
    function *library_lock, *library_unlock;
    /* Until the library is there: glibc's functions. */
    do {
        pthread_mutex_lock(&own);
        if (!own_count++)
            atomic_fetch_add(&busy, 1);
        pthread_mutex_unlock(&own);
        library_unlock = atomic_load(&unlock);
        library_lock = atomic_load(&lock);
    } while (!library_lock || !library_unlock);
    for (int i = 0; i < ROUNDS; i++) {
        int which = i % MUTEXES;
        if (library_lock(&shared[which]))
            abort();
        counts[which]++;
        if (library_unlock(&shared[which]))
            abort();
        pthread_mutex_lock(&own);
        own_count++;
        pthread_mutex_unlock(&own);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    if (argc != 2)
        return EXIT_FAILURE;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    while (!atomic_load(&busy))
        ;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    atomic_store(&unlock, (function *)dlsym(library, "pthread_mutex_unlock"));
    atomic_store(&lock, (function *)dlsym(library, "pthread_mutex_lock"));
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < MUTEXES; i++)
        sum += counts[i];
    printf("%ld of %d\n", sum, THREADS * ROUNDS);
    return sum == THREADS * ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}

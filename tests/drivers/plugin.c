/* A library that the driver loads while it runs: locks in its constructor, its destructor and when called. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int constructed;

int plugin_constructed(void);
int plugin_exercise(void);

__attribute__((constructor)) static void construct(void) {
    int bad = pthread_mutex_lock(&mutex);
    constructed++;
    bad |= pthread_cond_broadcast(&cond);
    bad |= pthread_mutex_unlock(&mutex);
    bad |= pthread_rwlock_rdlock(&rwlock);
    bad |= pthread_rwlock_unlock(&rwlock);
    if (bad)
        abort();
}

__attribute__((destructor)) static void destruct(void) {
    if (pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex))
        abort();
}

int plugin_constructed(void) {
    return constructed == 1 ? 0 : 1;
}

static void *get_ready(void *ready) {
    pthread_mutex_lock(&recursive);
    *(int *)ready = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&recursive);
    return NULL;
}

int plugin_exercise(void) {
    pthread_t thread;
    int ready = 0, bad = pthread_mutex_lock(&recursive);
    bad |= pthread_create(&thread, NULL, get_ready, &ready);
    while (!ready)
        bad |= pthread_cond_wait(&cond, &recursive);
    bad |= pthread_mutex_unlock(&recursive);
    bad |= pthread_join(thread, NULL);
    bad |= pthread_rwlock_wrlock(&rwlock);
    bad |= pthread_rwlock_unlock(&rwlock);
    return bad;
}

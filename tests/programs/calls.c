/* Makes known numbers of calls on objects of each sort in each of four threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 100 };

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, robust, inherit, shared;
static pthread_cond_t shared_cond;
/* Of each thread its own: a signal would end the wait of another. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
} waiting[THREADS];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER, shared_rwlock;
static pthread_spinlock_t spin, shared_spin;
static mtx_t c11;

static void expect(int error, int expected) {
    if (error != expected) {
        fprintf(stderr, "error %d instead of %d\n", error, expected);
        exit(EXIT_FAILURE);
    }
}

static void *run(void *argument) {
    const struct timespec past = {0}, future = {2000000000, 0};
    pthread_mutex_t *own = &waiting[(long)argument].mutex;
    pthread_cond_t *cond = &waiting[(long)argument].cond;
    for (int i = 0; i < ROUNDS; i++) {
        /* Mutexes that lockswap replaces: 5 calls, and 1 by C11's name. */
        expect(pthread_mutex_lock(&plain), 0);
        expect(pthread_mutex_trylock(&plain), EBUSY);
        expect(pthread_mutex_timedlock(&plain, &past), ETIMEDOUT);
        expect(pthread_mutex_unlock(&plain), 0);
        expect(pthread_mutex_timedlock(&plain, &future), 0);
        expect(pthread_mutex_unlock(&plain), 0);
        expect(pthread_mutex_clocklock(&plain, CLOCK_REALTIME, &future), 0);
        expect(pthread_mutex_unlock(&plain), 0);
        expect(mtx_lock(&c11), thrd_success);
        expect(mtx_unlock(&c11), thrd_success);
        /* Mutexes that stay glibc's: robust 2, inherit 1, shared 3. */
        expect(pthread_mutex_lock(&robust), 0);
        expect(pthread_mutex_trylock(&robust), EBUSY);
        expect(pthread_mutex_unlock(&robust), 0);
        expect(pthread_mutex_lock(&inherit), 0);
        expect(pthread_mutex_unlock(&inherit), 0);
        expect(pthread_mutex_lock(&shared), 0);
        expect(pthread_mutex_trylock(&shared), EBUSY);
        expect(pthread_mutex_timedlock(&shared, &past), ETIMEDOUT);
        expect(pthread_mutex_unlock(&shared), 0);
        /* Condition variables: 4 calls with a mutex locked once, 2 on a shared one. */
        expect(pthread_mutex_lock(own), 0);
        expect(pthread_cond_timedwait(cond, own, &past), ETIMEDOUT);
        expect(pthread_cond_clockwait(cond, own, CLOCK_REALTIME, &past), ETIMEDOUT);
        expect(pthread_mutex_unlock(own), 0);
        expect(pthread_cond_signal(cond), 0);
        expect(pthread_cond_broadcast(cond), 0);
        expect(pthread_cond_signal(&shared_cond), 0);
        expect(pthread_cond_broadcast(&shared_cond), 0);
        /* rwlocks: 6 calls, 2 on a shared one. */
        expect(pthread_rwlock_rdlock(&rwlock), 0);
        expect(pthread_rwlock_trywrlock(&rwlock), EBUSY);
        expect(pthread_rwlock_timedwrlock(&rwlock, &past), ETIMEDOUT);
        expect(pthread_rwlock_unlock(&rwlock), 0);
        expect(pthread_rwlock_wrlock(&rwlock), 0);
        expect(pthread_rwlock_tryrdlock(&rwlock), EBUSY);
        expect(pthread_rwlock_unlock(&rwlock), 0);
        expect(pthread_rwlock_clockrdlock(&rwlock, CLOCK_REALTIME, &future), 0);
        expect(pthread_rwlock_unlock(&rwlock), 0);
        expect(pthread_rwlock_rdlock(&shared_rwlock), 0);
        expect(pthread_rwlock_unlock(&shared_rwlock), 0);
        expect(pthread_rwlock_wrlock(&shared_rwlock), 0);
        expect(pthread_rwlock_unlock(&shared_rwlock), 0);
        /* Spinlocks: 2 calls, 1 on a shared one. */
        expect(pthread_spin_lock(&spin), 0);
        expect(pthread_spin_trylock(&spin), EBUSY);
        expect(pthread_spin_unlock(&spin), 0);
        expect(pthread_spin_lock(&shared_spin), 0);
        expect(pthread_spin_unlock(&shared_spin), 0);
    }
    return NULL;
}

int main(void) {
    pthread_mutexattr_t attr;
    pthread_condattr_t cond_attr;
    pthread_rwlockattr_t rwlock_attr;
    pthread_t threads[THREADS];
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    expect(pthread_mutex_init(&robust, &attr), 0);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    expect(pthread_mutex_init(&inherit, &attr), 0);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    expect(pthread_mutex_init(&shared, &attr), 0);
    pthread_condattr_init(&cond_attr);
    pthread_condattr_setpshared(&cond_attr, PTHREAD_PROCESS_SHARED);
    expect(pthread_cond_init(&shared_cond, &cond_attr), 0);
    pthread_rwlockattr_init(&rwlock_attr);
    pthread_rwlockattr_setpshared(&rwlock_attr, PTHREAD_PROCESS_SHARED);
    expect(pthread_rwlock_init(&shared_rwlock, &rwlock_attr), 0);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_init(&shared_spin, PTHREAD_PROCESS_SHARED);
    mtx_init(&c11, mtx_plain);
    for (long i = 0; i < THREADS; i++) {
        expect(pthread_mutex_init(&waiting[i].mutex, NULL), 0);
        expect(pthread_cond_init(&waiting[i].cond, NULL), 0);
        expect(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}

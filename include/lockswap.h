/* lockswap.h - what a program can tell lockswap: its epochs, and which lock each of its mutexes is to have.
 *
 * Epochs are stretches of code, a request for instance, that should take no longer than a target.
 *
 *     lockswap_epoch_start(5);
 *     ... locks are taken and released here ...
 *     lockswap_epoch_end(5, 50000);            the target: 50000 ns at the 99th percentile
 *
 * Under `lockswap run --lock asl -- PROGRAM`, threads on big cores may overtake those on little cores at the program's
 * locks as far as the targets allow (LibASL, PPoPP 2022). Without lockswap the marks do nothing: nothing is linked, no
 * flag is needed, and each costs a load and a branch.
 *
 * Ids are numbers of your choice, one for each sort of epoch; every thread runs its own epochs. Epochs may be nested; the
 * innermost one counts. An end without a start, and a start without an end, do no harm. Signal handlers may mark epochs.
 * A mark that runs before the constructors of priority 101 of its program or shared object does nothing.
 *
 * A mutex gets its lock with
 *
 *     lockswap_mutex_choose(&mutex, "cna");
 *
 * before threads use it, under `lockswap run --profile FILE -- PROGRAM`, if a rule of FILE names the lock or its `locks`
 * does (docs/profile.md).
 *
 * C89 with inline functions, C99 and later, C++98 and later; GCC and Clang on Linux. Elsewhere the marks are empty.
 */
#ifndef LOCKSWAP_H
#define LOCKSWAP_H

#include <errno.h>
#include <stdint.h>

#if defined(__linux__) && defined(__GNUC__)

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program finds in the preload library when it starts: all null without the library. One for each program and
 * shared object: a weak definition, so that all translation units have the same, and hidden, so that no other object
 * takes part. */
struct lockswap_found_ {
    int looked_up;
    void *start;
    void *end;
    void *percentile;
    void *choose; /* null in libraries that do not have it yet */
};
#ifdef __cplusplus
extern struct lockswap_found_ lockswap_found_ __attribute__((weak, visibility("hidden")));
#endif
struct lockswap_found_ lockswap_found_ __attribute__((weak, visibility("hidden"))) = {0, 0, 0, 0, 0};

/* dlsym and dlerror where the C library has them: they are null in a static program, and in one that was linked with a
 * glibc before 2.34 and without -ldl. (A weak reference to lockswap's own functions would be resolved to null for ever by
 * the linker in a program that is not position-independent.) */
static void *lockswap_dlsym_(void *, const char *) __attribute__((weakref("dlsym")));
static char *lockswap_dlerror_(void) __attribute__((weakref("dlerror")));

/* Looks the functions up before other code of the program or shared object runs, and never later: dlsym allocates
 * memory to describe what it has not found, which a mark in a signal handler must not do. */
__attribute__((cold, constructor(101))) static void lockswap_look_up_(void) {
    if (lockswap_found_.looked_up || !lockswap_dlsym_ || !lockswap_dlerror_) {
        return; /* another translation unit did it, or nobody can */
    }
    lockswap_found_.looked_up = 1;
    lockswap_found_.start = lockswap_dlsym_(0, "lockswap_epoch_start");
    if (lockswap_found_.start) {
        lockswap_found_.end = lockswap_dlsym_(0, "lockswap_epoch_end");
        lockswap_found_.percentile = lockswap_dlsym_(0, "lockswap_epoch_percentile");
        lockswap_found_.choose = lockswap_dlsym_(0, "lockswap_mutex_choose");
    }
    if (!lockswap_found_.choose) {
        lockswap_dlerror_(); /* removes the message of a failed look-up, which the program would take for its own */
    }
}

/* Whether the preload library is there. */
static __inline__ int lockswap_is_preloaded(void) {
    return lockswap_found_.start != 0;
}

/* Begins an epoch of the calling thread. */
static __inline__ void lockswap_epoch_start(int id) {
    union {
        void *address;
        void (*call)(int);
    } found;
    found.address = lockswap_found_.start;
    if (__builtin_expect(found.address != 0, 0)) {
        found.call(id);
    }
}

/* Ends the calling thread's epoch `id`, which should have taken no more than `slo_ns` nanoseconds. */
static __inline__ void lockswap_epoch_end(int id, uint64_t slo_ns) {
    union {
        void *address;
        void (*call)(int, uint64_t);
    } found;
    found.address = lockswap_found_.end;
    if (__builtin_expect(found.address != 0, 0)) {
        found.call(id, slo_ns);
    }
}

/* Sets the percentile that the targets of the epochs `id` are meant for, in all threads: 50 to 99.9999, 99 by default. */
static __inline__ void lockswap_epoch_percentile(int id, double percentile) {
    union {
        void *address;
        void (*call)(int, double);
    } found;
    found.address = lockswap_found_.percentile;
    if (found.address) {
        found.call(id, percentile);
    }
}

/* Gives a mutex this lock, written as for `lockswap run --lock`. The mutex is initialised, and no other thread uses it
 * meanwhile. Returns 0; EINVAL if there is no such lock, if the process was not started with a profile that names it, or if
 * the mutex is robust, shared, or knows priorities; EBUSY if it is held; ENOSYS without lockswap, and nothing has changed. */
static __inline__ int lockswap_mutex_choose(pthread_mutex_t *mutex, const char *lock) {
    union {
        void *address;
        int (*call)(pthread_mutex_t *, const char *);
    } found;
    found.address = lockswap_found_.choose;
    return found.address ? found.call(mutex, lock) : ENOSYS;
}

#ifdef __cplusplus
}
#endif

#else

#ifdef __cplusplus
#define LOCKSWAP_EMPTY_ static inline
#else
#define LOCKSWAP_EMPTY_ static
#endif
LOCKSWAP_EMPTY_ int lockswap_is_preloaded(void) { return 0; }
LOCKSWAP_EMPTY_ void lockswap_epoch_start(int id) { (void)id; }
LOCKSWAP_EMPTY_ void lockswap_epoch_end(int id, uint64_t slo_ns) { (void)id, (void)slo_ns; }
LOCKSWAP_EMPTY_ void lockswap_epoch_percentile(int id, double percentile) { (void)id, (void)percentile; }
LOCKSWAP_EMPTY_ int lockswap_mutex_choose(void *mutex, const char *lock) { return (void)mutex, (void)lock, ENOSYS; }

#endif
#endif

/* A CPU that plays a little one: see little.h. */
#define _GNU_SOURCE
#include "little.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int little_cpu = -1;
static double factor = 1;

static __thread double missing; /* of each nanosecond, FACTOR - 1; 0 on other CPUs */
static __thread uint64_t since; /* when the thread began to run */

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void resume_pace(void) {
    if (missing > 0)
        since = clock_ns();
}

void keep_pace(void) {
    if (missing > 0) {
        uint64_t now = clock_ns(), until = now + (uint64_t)((double)(now - since) * missing);
        while (clock_ns() < until)
            continue;
    }
}

void read_little(const char *text) {
    char rest;
    int read = sscanf(text, "%d:%lf%c", &little_cpu, &factor, &rest);
    if (read != 2 || little_cpu < 0 || !(factor > 1 && factor <= 1000)) {
        fprintf(stderr, "--little %s: give CPU:FACTOR, as in 1:3\n", text);
        exit(2);
    }
}

int has_little(void) {
    return little_cpu >= 0;
}

int take_seat(int number) {
    cpu_set_t allowed, seat;
    if (!has_little())
        return 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (!CPU_ISSET(little_cpu, &allowed)) {
        fprintf(stderr, "--little: there is no CPU %d that this process may use\n", little_cpu);
        exit(2);
    }
    int cpu = 0;
    for (int left = number % CPU_COUNT(&allowed); !CPU_ISSET(cpu, &allowed) || left-- > 0;)
        cpu++;
    CPU_ZERO(&seat);
    CPU_SET(cpu, &seat);
    sched_setaffinity(0, sizeof seat, &seat);
    missing = cpu == little_cpu ? factor - 1 : 0;
    resume_pace();
    return cpu == little_cpu;
}

/* NAME, called at the pace of its thread. `build` has the linker put it in the place of NAME (--wrap). */
#define AT_ITS_PACE(NAME, PARAMETERS, ARGUMENTS)                                                                       \
    int __real_##NAME PARAMETERS;                                                                                      \
    int __wrap_##NAME PARAMETERS;                                                                                      \
    int __wrap_##NAME PARAMETERS {                                                                                     \
        keep_pace();                                                                                                   \
        int code = __real_##NAME ARGUMENTS;                                                                            \
        resume_pace();                                                                                                 \
        return code;                                                                                                   \
    }

AT_ITS_PACE(pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))
AT_ITS_PACE(pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex))
AT_ITS_PACE(pthread_mutex_unlock, (pthread_mutex_t *mutex), (mutex))
AT_ITS_PACE(pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock))
AT_ITS_PACE(pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock))
AT_ITS_PACE(pthread_rwlock_unlock, (pthread_rwlock_t *lock), (lock))
AT_ITS_PACE(pthread_spin_lock, (pthread_spinlock_t *lock), (lock))
AT_ITS_PACE(pthread_spin_unlock, (pthread_spinlock_t *lock), (lock))
AT_ITS_PACE(pthread_cond_signal, (pthread_cond_t *cond), (cond))
AT_ITS_PACE(pthread_cond_broadcast, (pthread_cond_t *cond), (cond))
AT_ITS_PACE(pthread_cond_wait, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex))
AT_ITS_PACE(pthread_cond_timedwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until),
            (cond, mutex, until))
AT_ITS_PACE(pthread_cond_clockwait,
            (pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
            (cond, mutex, clock, until))

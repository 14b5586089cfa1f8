/* SPDX-License-Identifier: GPL-2.0 */
/* Virtual CPUs (vcpu.c), the locks they use (glue.c) and the checks (check.c). */
#ifndef USIM_CHECK_H
#define USIM_CHECK_H

#include "shim.h"

struct qspinlock;
typedef struct qspinlock lock_t;
#define LOCK_SIZE 4

struct order {
	const char *name;
	void (*slowpath)(lock_t *lock, u32 val);
};
extern const struct order orders[], *order;
extern unsigned long lockevents[];
extern const char *const event_names[];
extern u32 order_fair;	/* in units of 1 << 10 of the clock */
extern int ron_pos, *ron_route, ron_route_len;
extern bool ron_array_key;

void lock_init(lock_t *lock, u32 val);
void lock_lock(lock_t *lock);
bool lock_try(lock_t *lock);
void lock_unlock(lock_t *lock);
void lock_unlock_pending(lock_t *lock);
void section_enter(unsigned long *work);
void clock_tick(u64 *clock, u64 by);

#define MAX_CPUS 260
#define MAX_LOCKS 16

/* What the virtual CPUs share: each access of the code under test to it is a point where another CPU may run. */
struct world {
	u32 locks[MAX_LOCKS];
	unsigned long work[MAX_LOCKS];	/* counts the critical sections */
	u32 owner[MAX_LOCKS];		/* a CPU's number plus 1 */
	u64 clock;
};
extern struct world world;

extern int nr_cpus;
extern int cpu_nid[MAX_CPUS];
extern bool weak;		/* stores may become visible late and out of order */
extern u64 steps;		/* accesses so far */
extern u64 sleeps;		/* calls of usim_sleep() so far */
extern bool (*interrupt)(void);	/* called on the CPU before an access, or NULL; returns whether it did anything */
/* Called when the CPU has made itself the tail of a queue, or is to write to an array that all share; or NULL. */
extern void (*queued)(int cpu);
extern bool clock_is_steps;	/* else it is world.clock */

/* Prepares @n CPUs that run @program each. All is as after a boot. */
void vcpu_boot(int n, void (*program)(int cpu));
/* Ends the run with a complaint unless @ok. */
void check(bool ok, const char *complaint, ...) __attribute__((format(printf, 2, 3)));
/*
 * Random choices, until all programs are done. @burst: how many accesses a CPU makes in a row, on average. More than
 * @max_steps are an error.
 */
void vcpu_random(u64 seed, int burst, u64 max_steps);
/* All choices, up to @max states. Returns the number of states; *all: whether these were all. */
u64 vcpu_all(u64 max, bool *all, void (*at_end)(void));
/*
 * Runs the CPUs, in the order of their numbers, until each is done or waits for another one to write something. What the
 * caller has written since it was called before may let them go on.
 */
void vcpu_rest(void);
u64 random_below(u64 n);
void random_seed(u64 seed);

#endif

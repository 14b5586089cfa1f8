// SPDX-License-Identifier: GPL-2.0
/*
 * handovers: which CPU gets a lock after which, for random patterns of arrivals and releases. A line is
 *
 *	ORDER EVENTS = CPUS
 *
 * with the events in turn: a number is a CPU that comes to take the lock, - is a release by the one that has it, + is a
 * time that is longer than any bound on unfairness. What follows from an event is over when the next one comes. CPUS are
 * those that got the lock, in that order. CPU i is on node i / PER_NODE, and the route goes from CPU to CPU in steps of
 * STEP. handovers.txt has the output; lockswap's simulator reads it as well, and its own locks have to serve alike.
 */
#include <stdio.h>
#include <string.h>
#include "check.h"

enum { CPUS = 12, PER_NODE = 4, STEP = 5, PATTERNS = 80, EVENTS = 50, LONG = 1 };

static bool coming[CPUS], away[CPUS], leaves, over;
static int holder, taken, order_taken[EVENTS];

static lock_t *the_lock(void) { return (lock_t *)&world.locks[0]; }

static void come_and_go(int cpu)
{
	for (;;) {
		while (!coming[cpu]) {
			if (over)
				return;
			usim_relax();
		}
		coming[cpu] = false;
		lock_lock(the_lock());
		check(holder < 0, "CPUs %d and %d have the lock", holder, cpu);
		holder = cpu;
		order_taken[taken++] = cpu;
		while (!leaves)
			usim_relax();
		leaves = false;
		holder = -1;
		away[cpu] = true;
		lock_unlock(the_lock());
	}
}

static int queue_of_others(void)
{
	int n = 0;

	for (int i = 0; i < CPUS; i++)
		n += !away[i];
	return n - (holder >= 0);
}

/* A CPU that is away, if there is any. */
static int random_newcomer(void)
{
	int from = random_below(CPUS);

	for (int i = 0; i < CPUS; i++)
		if (away[(from + i) % CPUS])
			return (from + i) % CPUS;
	return -1;
}

static void release(void)
{
	printf(" -");
	leaves = true;
	vcpu_rest();
}

static void pattern(u64 seed)
{
	int events;

	vcpu_boot(CPUS, come_and_go);
	random_seed(seed);
	order_fair = LONG;
	for (int i = 0; i < CPUS; i++) {
		coming[i] = false;
		away[i] = true;
		cpu_nid[i] = i / PER_NODE;
		*(int *)usim_percpu(&ron_pos, i * STEP % CPUS) = i;
	}
	holder = -1;
	leaves = over = false;
	taken = 0;
	vcpu_rest();

	printf("%s", order->name);
	/* All that has come goes again within EVENTS. */
	for (events = 0; events + queue_of_others() + 2 < EVENTS; events++) {
		u64 what = random_below(16);
		int cpu = what < 9 ? random_newcomer() : -1;

		if (cpu >= 0) {
			printf(" %d", cpu);
			away[cpu] = false;
			coming[cpu] = true;
			vcpu_rest();
		} else if (what == 15) {
			printf(" +");
			world.clock += LONG;
			vcpu_rest();
		} else if (holder >= 0) {
			release();
		}
	}
	while (holder >= 0)
		release();
	over = true;
	vcpu_rest();
	check(!world.locks[0], "the lock is %#x at the end", world.locks[0]);

	printf(" =");
	for (int i = 0; i < taken; i++)
		printf(" %d", order_taken[i]);
	printf("\n");
}

int main(void)
{
	for (order = orders; order->name; order++) {
		/* The simulator has no ron-array. */
		if (!strcmp(order->name, "ron-array"))
			continue;
		for (u64 seed = 1; seed <= PATTERNS; seed++)
			pattern(seed);
	}
	return 0;
}

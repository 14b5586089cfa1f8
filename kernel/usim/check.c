// SPDX-License-Identifier: GPL-2.0
/*
 * The checks: check ORDER [long]. Whatever the order, critical sections exclude each other and see each other's
 * stores, every waiter gets the lock, no word or node is left in use; and each order does what it is there for: it
 * keeps the lock near, within its bound on unfairness.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

#define LOCKED_AND_PENDING 0x101
#define LEVELS 4	/* of nested contexts: task, softirq, hardirq, NMI */

static bool is(const char *name) { return !strcmp(order->name, name); }

static int acquisitions;	/* each CPU's */
static int section_work;	/* accesses in a critical section */

static lock_t *lock(int l) { return (lock_t *)&world.locks[l]; }

static void section(int l)
{
	check(!world.owner[l], "CPUs %d and %d have the lock", usim_cpu(), world.owner[l] - 1);
	world.owner[l] = usim_cpu() + 1;
	section_enter(&world.work[l]);
	for (int i = 0; i < section_work; i++)
		clock_tick(&world.clock, 1);
	check(world.owner[l] == (u32)usim_cpu() + 1, "CPU %d came in", world.owner[l] - 1);
	world.owner[l] = 0;
}

static void at_end(void)
{
	for (int l = 0; l < MAX_LOCKS; l++)
		check(!world.locks[l], "lock %d is %#x at the end", l, world.locks[l]);
}

static unsigned long event(const char *name)
{
	for (int i = 0; event_names[i]; i++)
		if (!strcmp(event_names[i], name))
			return lockevents[i];
	check(false, "no event %s", name);
	return 0;
}

static void boot(int cpus, int nodes, void (*program)(int cpu))
{
	vcpu_boot(cpus, program);
	for (int i = 0; event_names[i]; i++)
		lockevents[i] = 0;
	/* A route through the nodes in turn, unlike the order of the numbers. */
	ron_route_len = 0;
	for (int node = 0; node < nodes; node++) {
		for (int i = node; i < cpus; i += nodes) {
			cpu_nid[i] = node;
			*(int *)usim_percpu(&ron_pos, i) = ron_route_len;
			ron_route[ron_route_len++] = i;
		}
	}
}

/* --- all schedules of a few CPUs --- */

static int cpus_total, cpus_twice;

/*
 * The last CPU is there for the others to queue behind: it ends the critical sections of an owner and of a CPU that
 * had the pending bit. The one before is the clock, which ticks once: the time of whatever began before is over then.
 */
static void queue_of_few(int cpu)
{
	if (cpu == cpus_total - 1) {
		lock_unlock_pending(lock(0));
		return;
	}
	if (cpu == cpus_total - 2) {
		clock_tick(&world.clock, 1);
		return;
	}
	for (int i = 0; i < 1 + (cpu < cpus_twice); i++) {
		lock_lock(lock(0));
		section(0);
		lock_unlock(lock(0));
	}
}

/* From an unlocked lock, so with the fast path and the pending bit. Every second CPU only tries. */
static void few_with_try(int cpu)
{
	if (cpu % 2) {
		if (!lock_try(lock(0)))
			return;
	} else {
		lock_lock(lock(0));
	}
	section(0);
	lock_unlock(lock(0));
}

/* @nids: a digit for each CPU. The first @twice CPUs take the lock twice. */
static void all_schedules(const char *nids, int twice, u64 max)
{
	int cpus = strlen(nids);
	bool all;
	u64 n;

	cpus_total = cpus + 2;
	cpus_twice = twice;
	order_fair = 1;
	boot(cpus_total, 1, queue_of_few);
	for (int i = 0; i < cpus; i++)
		cpu_nid[i] = nids[i] - '0';
	world.locks[0] = LOCKED_AND_PENDING;
	n = vcpu_all(max, &all, at_end);
	printf("%-6s %d CPUs wait (nodes %s, %d twice)%s: %lu states%s\n", order->name, cpus, nids, twice,
	       weak ? ", stores delayed" : "", (unsigned long)n, all ? ", all there are" : " of more");
	fflush(stdout);
}

static void all_schedules_with_try(int cpus)
{
	bool all;
	u64 n;

	boot(cpus, 2, few_with_try);
	n = vcpu_all(1000000, &all, at_end);
	printf("%-6s %d CPUs, half of them try%s: %lu states%s\n", order->name, cpus, weak ? ", stores delayed" : "",
	       (unsigned long)n, all ? ", all there are" : " of more");
	fflush(stdout);
}

/* --- long runs --- */

static int level[MAX_CPUS];	/* of nested contexts */
static int interrupts_left[MAX_CPUS][LEVELS];
static int last_nid;
static unsigned long handovers, local, queued_work[MAX_CPUS], passed_over;
static u64 queued_at[MAX_CPUS], longest;
static bool pauses;

static void on_queued(int cpu)
{
	queued_work[cpu] = world.work[0];
	queued_at[cpu] = steps;
}

/* One lock that all want, all the time, or with pauses. */
static void one_lock(int cpu)
{
	for (int i = 0; i < acquisitions; i++) {
		queued_at[cpu] = 0;
		lock_lock(lock(0));
		if (queued_at[cpu]) {
			unsigned long others = world.work[0] - queued_work[cpu];

			passed_over = others > passed_over ? others : passed_over;
			longest = steps - queued_at[cpu] > longest ? steps - queued_at[cpu] : longest;
		}
		handovers++;
		local += cpu_nid[cpu] == last_nid;
		last_nid = cpu_nid[cpu];
		section(0);
		lock_unlock(lock(0));
		if (pauses)
			for (int k = random_below(200); k; k--)
				clock_tick(&world.clock, 1);
	}
}

static void at_least(const char *name, unsigned long n)
{
	check(event(name) >= n, "%s is %lu, not at least %lu", name, event(name), n);
}

/*
 * What an order is there for, and its bound on unfairness. All CPUs wait nearly all the time, so an order by nodes
 * should hand over to the same node most of the time.
 */
static void check_order(int cpus, int nodes)
{
	unsigned long percent = 100 * local / handovers;
	unsigned long some = handovers / 500;

	at_least("lock_slowpath", handovers * 9 / 10);
	if (is("native")) {
		check(passed_over < (unsigned long)cpus, "passed over by %lu of %d CPUs", passed_over, cpus);
		return;
	}
	check(percent >= 80, "only %lu %% local", percent);
	if (is("ron-array")) {
		check(passed_over <= (unsigned long)cpus, "passed over by %lu of %d CPUs", passed_over, cpus);
		at_least("ron_passed", handovers * 9 / 10);
		return;
	}
	if (is("ron")) {
		/* Once while those before it are put into order, once when it is. */
		check(passed_over <= 2ul * cpus, "passed over by %lu, more than twice the %d CPUs", passed_over, cpus);
		check(event("ron_rounds") <= handovers * 3 / 2 / cpus + 1, "%lu rounds for %lu acquisitions",
		      event("ron_rounds"), handovers);
		at_least("ron_moved", some);
		return;
	}
	/* Each node may keep the lock from a waiter for that time once, and the waiters of a turn wait for each other. */
	check(longest <= 2ul * nodes * order_fair, "waited %lu, more than twice the bound of %d nodes",
	      (unsigned long)longest, nodes);
	if (is("cna")) {
		at_least("cna_moved", some);
		at_least("cna_local", some);
		check(event("cna_flush_fair") + event("cna_flush_empty") >= some, "the second queue hardly came back");
	} else {
		at_least("shfl_groups", some);
		at_least("shfl_moved", some);
		at_least("shfl_handed", some);
		at_least("shfl_fair", cpus < 64 ? 50 : 0);
	}
}

static void run_one_lock(int cpus, int nodes, int total, bool with_pauses)
{
	acquisitions = total / cpus;
	pauses = with_pauses;
	handovers = local = passed_over = longest = 0;
	clock_is_steps = true;
	order_fair = 1000 * cpus;
	section_work = cpus < 64 ? 2 * cpus : 64;
	queued = on_queued;
	boot(cpus, nodes, one_lock);
	vcpu_random(cpus, 20, (cpus < 64 ? 2000ul : 50000ul) * total);
	queued = NULL;
	section_work = 0;
	clock_is_steps = false;
	at_end();
	check(world.work[0] == (unsigned long)acquisitions * cpus, "%lu critical sections of %lu", world.work[0],
	      (unsigned long)acquisitions * cpus);
	printf("%-6s %3d CPUs on %d nodes%s: %lu acquisitions, %lu %% local, passed over by %lu, waited %lu at most\n",
	       order->name, cpus, nodes, pauses ? ", pauses" : "", handovers, 100 * local / handovers, passed_over,
	       (unsigned long)longest);
	printf("      ");
	for (int i = 0; event_names[i]; i++)
		if (lockevents[i])
			printf(" %s %lu", event_names[i], lockevents[i]);
	printf("\n");
	fflush(stdout);
	check_order(cpus, nodes);
}

/* Two locks at each level of nested contexts, and both ways to take one. May be interrupted twice. */
static void locks_of_level(int cpu)
{
	int l = level[cpu] * 2 + random_below(2);

	interrupts_left[cpu][level[cpu]] = 2;
	if (random_below(8)) {
		lock_lock(lock(l));
	} else if (!lock_try(lock(l))) {
		return;
	}
	section(l);
	lock_unlock(lock(l));
}

static void nested(int cpu)
{
	for (int i = 0; i < acquisitions; i++)
		locks_of_level(cpu);
}

static bool maybe_interrupt(void)
{
	int cpu = usim_cpu();

	if (level[cpu] == LEVELS - 1 || !interrupts_left[cpu][level[cpu]] || random_below(4))
		return false;
	interrupts_left[cpu][level[cpu]]--;
	level[cpu]++;
	locks_of_level(cpu);
	level[cpu]--;
	return true;
}

static void run_nested(int cpus, int nodes, int total)
{
	unsigned long work = 0;

	acquisitions = total / cpus;
	clock_is_steps = true;
	order_fair = 1000;
	interrupt = maybe_interrupt;
	boot(cpus, nodes, nested);
	vcpu_random(cpus, 5, 20000ul * total);
	interrupt = NULL;
	clock_is_steps = false;
	at_end();
	for (int l = 0; l < MAX_LOCKS; l++)
		work += world.work[l];
	/* ron-array has a place for one context only. */
	const char *last = is("ron-array") ? "lock_no_node" : "lock_use_node4";

	check(event(last), "no CPU waited in the last context");
	printf("%-6s %3d CPUs, nested contexts%s: %lu acquisitions, %s %lu\n", order->name, cpus,
	       weak ? ", stores delayed" : "", work, last, event(last));
	fflush(stdout);
}

/* Of the code under test; the checks themselves access nothing else than it does. */
static void on_segv(int signal)
{
	(void)signal;
	check(false, "a pointer leads nowhere");
}

int main(int argc, char **argv)
{
	for (order = orders; order->name && (argc < 2 || strcmp(order->name, argv[1])); order++)
		;
	if (!order->name) {
		fprintf(stderr, "usage: check ORDER [long], where ORDER is native, cna, shfl, ron or ron-array\n");
		return 2;
	}
	ron_array_key = is("ron-array");
	signal(SIGSEGV, on_segv);

	bool thorough = argc > 2 && !strcmp(argv[2], "long");
	u64 max = thorough ? 30000000 : 100000;

	for (int w = 0; w < 2; w++) {
		weak = w;
		run_nested(16, 2, 4000);
		run_nested(8, 2, 4000);
		run_one_lock(16, 2, 50000, false);
		run_one_lock(16, 2, 20000, true);
	}
	weak = false;
	run_one_lock(256, 4, 5120, false);

	for (int w = 0; w < 2; w++) {
		weak = w;
		all_schedules_with_try(2);
		all_schedules_with_try(3);
		all_schedules("01", 1, max);
		all_schedules("010", 0, max);
		all_schedules("011", 0, max);
		all_schedules("0110", 0, max);
	}
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The checks of the sleeping locks: sleep_check mutex|rwsem. Critical sections exclude each other (readers: writers), no
 * wake-up is lost, nothing is left in the lock at the end, waiters do sleep, and stay near each other.
 */
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "sleeping.h"
#include "../locking/mcs_spinlock.h"

/* vcpu.c looks for a CPU's count of nested contexts in the first bytes, where this has nothing. */
struct task {
	struct mcs_spinlock unused;
	struct shfl_waiter waiter;
};
static DEFINE_PER_CPU_ALIGNED(struct task, task);
static u32 unused_array[1] __cacheline_aligned __attribute__((used));

static const struct order kinds[] = { { "shfl-mutex", NULL }, { "shfl-rwsem", NULL } };
const struct order *order;
u32 order_fair;
int shfl_spins;

static int acquisitions, section_work;
static bool rwsem;
static int last_nid;
static unsigned long handovers, local;

static struct shfl_mutex *mutex(void) { return (struct shfl_mutex *)world.locks; }
static struct shfl_rwsem *sem(void) { return (struct shfl_rwsem *)world.locks; }

/* world.work[0] counts the exclusive sections, owner[0] has who is in one, owner[1] how many readers there are. */
static void work(void)
{
	check(!world.owner[0] && !world.owner[1], "CPU %d comes in beside others", usim_cpu());
	world.owner[0] = usim_cpu() + 1;
	section_enter(&world.work[0]);
	for (int i = 0; i < section_work; i++)
		clock_tick(&world.clock, 1);
	check(world.owner[0] == (u32)usim_cpu() + 1 && !world.owner[1], "another came in");
	world.owner[0] = 0;
	handovers++;
	local += cpu_nid[usim_cpu()] == last_nid;
	last_nid = cpu_nid[usim_cpu()];
}

static void read(void)
{
	check(!world.owner[0], "a reader comes in beside a writer");
	world.owner[1]++;
	clock_tick(&world.clock, 1);
	check(!world.owner[0], "a writer came in beside a reader");
	world.owner[1]--;
}

/* Every third CPU reads. */
static void program(int cpu)
{
	struct shfl_waiter *me = &((struct task *)usim_percpu(&task, cpu))->waiter;

	for (int i = 0; i < acquisitions; i++) {
		if (!rwsem) {
			shfl_mutex_lock(mutex(), me);
			work();
			shfl_mutex_unlock(mutex());
		} else if (cpu % 3 == 2) {
			shfl_down_read(sem(), me);
			read();
			shfl_up_read(sem());
		} else {
			shfl_down_write(sem(), me);
			work();
			shfl_up_write(sem());
		}
	}
}

static void at_end(void)
{
	for (int i = 0; i < MAX_LOCKS; i++)
		/* Who was woken last is of no importance. */
		check(i == 1 || (rwsem && i == 3) || !world.locks[i], "word %d is %#x at the end", i, world.locks[i]);
}

static void boot(int cpus, int nodes)
{
	vcpu_boot(cpus, program);
	for (int i = 0; i < cpus; i++)
		cpu_nid[i] = i % nodes;
	sleeps = handovers = local = 0;
}

static void random_run(int cpus, int spins)
{
	acquisitions = 40000 / cpus;
	section_work = 2 * cpus;
	shfl_spins = spins;
	order_fair = 1000 * cpus;
	clock_is_steps = true;
	boot(cpus, 2);
	vcpu_random(cpus + spins, 20, 200000000);
	at_end();
	clock_is_steps = false;
	printf("%s %3d CPUs, asleep after %d looks%s: %lu exclusive, %lu %% local, %lu sleeps\n", order->name, cpus, spins,
	       weak ? ", stores delayed" : "", handovers, 100 * local / handovers, (unsigned long)sleeps);
	fflush(stdout);
	check(world.work[0] == handovers, "%lu sections of %lu", world.work[0], handovers);
	check(sleeps > handovers / 100, "hardly anybody sleeps");
	check(rwsem || 100 * local / handovers >= 70, "only %lu %% local", 100 * local / handovers);
}

static void all_schedules(int cpus, int times)
{
	bool all;
	u64 n;

	acquisitions = times;
	section_work = shfl_spins = 0;
	order_fair = 1;
	boot(cpus, 2);
	n = vcpu_all(300000, &all, at_end);
	printf("%s %d CPUs, %d times%s: %lu states%s, %lu sleeps\n", order->name, cpus, times, weak ? ", stores delayed" : "",
	       (unsigned long)n, all ? ", all there are" : " of more", (unsigned long)sleeps);
	fflush(stdout);
	check(sleeps, "nobody sleeps");
}

int main(int argc, char **argv)
{
	if (argc != 2 || (strcmp(argv[1], "mutex") && strcmp(argv[1], "rwsem"))) {
		fprintf(stderr, "usage: sleep_check mutex|rwsem\n");
		return 2;
	}
	rwsem = !strcmp(argv[1], "rwsem");
	order = &kinds[rwsem];
	for (int w = 0; w < 2; w++) {
		weak = w;
		random_run(16, 0);
		random_run(16, 20);
		random_run(64, 5);
		all_schedules(2, 2);
		all_schedules(3, 1);
		all_schedules(4, 1);
	}
	return 0;
}

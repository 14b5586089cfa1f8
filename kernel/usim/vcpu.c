// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual CPUs: coroutines that run kernel code, and switch before each access to what they share.
 *
 * The compiler calls __tsan_read4() and its like before each load and store of the code under test (-fsanitize=thread,
 * without its library). With `weak`, stores go through a buffer for each CPU, from which they reach memory at any
 * later time and in any order that the barriers and releases among them allow, those to one address in turn. That is
 * PSO plus release stores: it shows a missing release or write barrier, not a missing acquire, since loads are made
 * when the program comes to them.
 *
 * A CPU that calls cpu_relax() is not run before another one has written something since it did so the last time. So
 * a state in which no CPU can run, and not all are done, is one from which a waiter never returns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "check.h"
#include "../locking/mcs_spinlock.h"

#define STACK_SIZE 32768
#define PERCPU_SIZE 256
#define BUFFER_SIZE 16

struct store {
	char *to;
	u64 value;
	u8 size;
	bool release;
	u16 epoch;	/* write barriers of this CPU before it */
};

struct vcpu {
	jmp_buf context;
	char *sp;
	bool done, spinning, changed, queued, next_is_release, pending_is_release, asleep, woken;
	u16 epoch;
	char *pending;	/* store that the program makes after this call */
	u64 before;	/* what was there */
	u8 pending_size;
	int stores;
	struct store buffer[BUFFER_SIZE];
};

struct world world;
int nr_cpus, cpu_nid[MAX_CPUS];
bool weak, clock_is_steps;
u64 steps, sleeps;
bool (*interrupt)(void);
void (*queued)(int cpu);

static struct vcpu vcpus[MAX_CPUS], *self;
static char percpu[MAX_CPUS][PERCPU_SIZE] __attribute__((aligned(64)));
static char stacks[MAX_CPUS][STACK_SIZE] __attribute__((aligned(64)));
static jmp_buf scheduler;
static ucontext_t scheduler_start;
static void (*program_of_all)(int cpu);
static u64 random_state;
static const char *doing = "";
static bool may_rest;	/* it is no error that all CPUs wait */

extern char __start_usim_section[], __stop_usim_section[];
extern char __start_usim_shared[], __stop_usim_shared[];	/* __cacheline_aligned */

int usim_cpu(void) { return self - vcpus; }
int usim_nid(void) { return cpu_nid[self - vcpus]; }
void *usim_percpu(const volatile void *p, int cpu) { return percpu[cpu] + ((char *)p - __start_usim_section); }

u64 random_below(u64 n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

void random_seed(u64 seed)
{
	random_state = seed * 0x9e3779b97f4a7c15 + 1;
}

void check(bool ok, const char *complaint, ...)
{
	va_list args;

	if (ok)
		return;
	va_start(args, complaint);
	printf("FAILED %s%s%s: ", order->name, doing, weak ? ", stores delayed" : "");
	vprintf(complaint, args);
	printf(" (access %lu)\n", (unsigned long)steps);
	fflush(stdout);
	exit(1);
}

/* --- memory --- */

static bool in_shared_array(const char *p)
{
	return p >= __start_usim_shared && p < __stop_usim_shared;
}

static bool shared(const char *p)
{
	return (p >= (char *)&world && p < (char *)(&world + 1)) || (p >= percpu[0] && p < percpu[MAX_CPUS]) ||
	       in_shared_array(p);
}

static bool overlap(const char *a, int a_size, const char *b, int b_size)
{
	return a < b + b_size && b < a + a_size;
}

static void written(const struct vcpu *by)
{
	for (struct vcpu *v = vcpus; v < vcpus + nr_cpus; v++)
		v->changed |= v != by;
}

/* May store @k of the buffer reach memory before those ahead of it? */
static bool may_commit(const struct vcpu *v, int k)
{
	const struct store *s = &v->buffer[k];

	for (int i = 0; i < k; i++)
		if (s->release || v->buffer[i].epoch != s->epoch ||
		    overlap(v->buffer[i].to, v->buffer[i].size, s->to, s->size))
			return false;
	return true;
}

static void commit(struct vcpu *v, int k)
{
	memcpy(v->buffer[k].to, &v->buffer[k].value, v->buffer[k].size);
	written(v);
	memmove(&v->buffer[k], &v->buffer[k + 1], (--v->stores - k) * sizeof(struct store));
	memset(&v->buffer[v->stores], 0, sizeof(struct store));
}

/* Commits all up to the last store that overlaps, or all if @size is -1. */
static void commit_for(struct vcpu *v, const char *p, int size)
{
	int last = v->stores;

	while (size >= 0 && last && !overlap(v->buffer[last - 1].to, v->buffer[last - 1].size, p, size))
		last--;
	while (last--)
		commit(v, 0);
}

/* The store that was announced before has been made since: put it into the buffer. */
static void settle(void)
{
	struct vcpu *v = self;
	struct store s = { .to = v->pending, .size = v->pending_size, .release = v->pending_is_release, .epoch = v->epoch };

	if (!v->pending)
		return;
	v->pending = NULL;
	if (!weak) {
		written(v);
		return;
	}
	memcpy(&s.value, s.to, s.size);
	memcpy(s.to, &v->before, s.size);
	if (v->stores == BUFFER_SIZE)
		commit(v, 0);
	v->buffer[v->stores++] = s;
}

/* --- coroutines --- */

static void to_scheduler(void)
{
#if defined(__x86_64__)
	__asm__("mov %%rsp, %0" : "=r"(self->sp));
#elif defined(__aarch64__)
	__asm__("mov %0, sp" : "=r"(self->sp));
#else
#error "how to read the stack pointer?"
#endif
	if (!_setjmp(self->context))
		_longjmp(scheduler, 1);
}

static void maybe_interrupted(void)
{
	settle();
	/* What was interrupted has not seen what changed meanwhile. */
	if (interrupt && interrupt()) {
		settle();
		self->changed = true;
	}
}

static void point(void)
{
	maybe_interrupted();
	to_scheduler();
	steps++;
}

static void run(struct vcpu *v)
{
	self = v;
	if (!_setjmp(scheduler))
		_longjmp(v->context, 1);
}

static void start(void)
{
	struct vcpu *v = self;

	to_scheduler();
	program_of_all(v - vcpus);
	settle();
	v->done = true;
	to_scheduler();
}

void vcpu_boot(int n, void (*program)(int cpu))
{
	nr_cpus = n;
	program_of_all = program;
	check((size_t)(__stop_usim_section - __start_usim_section) <= PERCPU_SIZE, "PERCPU_SIZE is too small");
	memset(&world, 0, sizeof(world));
	memset(vcpus, 0, sizeof(vcpus));
	memset(percpu, 0, sizeof(percpu));
	memset(__start_usim_shared, 0, __stop_usim_shared - __start_usim_shared);
	steps = 0;
	for (int i = 0; i < n; i++) {
		static ucontext_t c;

		memset(stacks[i], 0, STACK_SIZE);
		self = &vcpus[i];
		getcontext(&c);
		c.uc_stack.ss_sp = stacks[i];
		c.uc_stack.ss_size = STACK_SIZE;
		makecontext(&c, start, 0);
		if (!_setjmp(scheduler))
			swapcontext(&scheduler_start, &c);
	}
}

/* --- what the code under test calls --- */

void usim_relax(void)
{
	maybe_interrupted();
	self->spinning = !self->changed;
	self->changed = false;
	to_scheduler();
}

void usim_wmb(void)
{
	settle();
	if (self->stores)
		self->epoch++;
}

void usim_release(void)
{
	settle();
	self->next_is_release = true;
}

u64 usim_clock(void)
{
	if (clock_is_steps)
		return steps << 10;
	point();
	return world.clock << 10;
}

/* Before an atomic operation. */
static void atomic_point(void *p, int size, bool release)
{
	point();
	/* Stores before a write barrier go first, since this is a store as well. */
	if (release || (self->stores && self->buffer[0].epoch != self->epoch))
		commit_for(self, NULL, -1);
	commit_for(self, p, size);
}

bool usim_cmpxchg(u32 *p, u32 *old, u32 new, bool release)
{
	atomic_point(p, sizeof(*p), release);
	if (*p != *old) {
		*old = *p;
		return false;
	}
	*p = new;
	written(self);
	return true;
}

u16 usim_xchg16(u16 *p, u16 new)
{
	u16 old;

	atomic_point(p, sizeof(*p), false);
	old = *p;
	*p = new;
	written(self);
	self->queued = true;
	if (queued)
		queued(usim_cpu());
	return old;
}

u32 usim_fetch_or(u32 *p, u32 bits)
{
	u32 old;

	atomic_point(p, sizeof(*p), false);
	old = *p;
	*p |= bits;
	written(self);
	return old;
}

u32 usim_xchg(u32 *p, u32 new)
{
	u32 old;

	atomic_point(p, sizeof(*p), true);
	old = *p;
	*p = new;
	written(self);
	return old;
}

void *usim_xchg_pointer(void **p, void *new)
{
	void *old;

	atomic_point(p, sizeof(*p), true);
	old = *p;
	*p = new;
	written(self);
	self->queued = true;
	if (queued)
		queued(usim_cpu());
	return old;
}

bool usim_cmpxchg_pointer(void **p, void **old, void *new)
{
	atomic_point(p, sizeof(*p), true);
	if (*p != *old) {
		*old = *p;
		return false;
	}
	*p = new;
	written(self);
	return true;
}

void usim_sleep(void)
{
	maybe_interrupted();
	commit_for(self, NULL, -1);
	self->asleep = true;
	sleeps++;
	to_scheduler();
	self->asleep = self->woken = false;
}

void usim_wake(int cpu)
{
	point();
	commit_for(self, NULL, -1);
	vcpus[cpu].woken = true;
}

/*
 * Nobody looks at a CPU's queue nodes as long as it is not queued, nor at its number of nodes in use: no other CPU has
 * to run between accesses to these. A CPU has left the queue when it counts that number down.
 */
static bool local(const char *p, bool write)
{
	const char *own = percpu[usim_cpu()];
	bool count = p - own == offsetof(struct mcs_spinlock, count);

	if (interrupt || p < own || p >= own + PERCPU_SIZE)
		return false;
	if (count && write && self->queued)
		self->queued = false;
	return count || !self->queued;
}

static void on_read(char *p, int size)
{
	if (!shared(p))
		return;
	if (local(p, false))
		settle();
	else
		point();
	commit_for(self, p, size);
}

static void on_write(char *p, int size)
{
	bool release = self->next_is_release;

	if (!shared(p))
		return;
	self->next_is_release = false;
	if (local(p, true))
		settle();
	else
		point();
	if (queued && in_shared_array(p))
		queued(usim_cpu());
	self->pending = p;
	self->pending_size = size;
	self->pending_is_release = release;
	memcpy(&self->before, p, size);
}

void __tsan_init(void) {}
void __tsan_func_entry(void *from) { (void)from; }
void __tsan_func_exit(void) {}
#define ACCESS(size)								\
	void __tsan_read##size(void *p) { on_read(p, size); }			\
	void __tsan_write##size(void *p) { on_write(p, size); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8)

/* --- schedules --- */

static bool runnable(struct vcpu *v)
{
	if (v->asleep)
		return v->woken;
	if (v->spinning && v->changed)
		v->spinning = false;
	return !v->done && !v->spinning;
}

/* Fills in what may happen next: a CPU's number, or that of one of its stores behind all CPUs' numbers. */
static int choices(int *choice)
{
	int n = 0, left = 0;

	for (int i = 0; i < nr_cpus; i++) {
		left += !vcpus[i].done;
		if (runnable(&vcpus[i]))
			choice[n++] = i;
		for (int k = 0; k < vcpus[i].stores; k++)
			if (may_commit(&vcpus[i], k))
				choice[n++] = MAX_CPUS + i * BUFFER_SIZE + k;
	}
	check(n || !left || may_rest, "%d CPUs wait forever", left);
	return n;
}

static void take(int choice)
{
	if (choice < MAX_CPUS)
		run(&vcpus[choice]);
	else
		commit(&vcpus[(choice - MAX_CPUS) / BUFFER_SIZE], (choice - MAX_CPUS) % BUFFER_SIZE);
}

void vcpu_random(u64 seed, int burst, u64 max_steps)
{
	static int choice[MAX_CPUS * (BUFFER_SIZE + 1)];
	int n, cpu;

	random_seed(seed);
	doing = ", at random";
	while ((n = choices(choice))) {
		check(steps < max_steps, "no end");
		cpu = choice[random_below(n)];
		take(cpu);
		while (cpu < MAX_CPUS && runnable(&vcpus[cpu]) && random_below(burst))
			run(&vcpus[cpu]);
	}
}

void vcpu_rest(void)
{
	static int choice[MAX_CPUS * (BUFFER_SIZE + 1)];

	doing = ", from rest to rest";
	may_rest = true;
	written(NULL);
	while (choices(choice))
		take(choice[0]);
	may_rest = false;
}

/*
 * All schedules: depth first, with the states seen before left out. A state is all that can make a difference later,
 * put into one block: memory, the CPUs and what they use of their stacks. States are known by a hash of 64 bits.
 */
struct state {
	size_t size;
	int n, next, choice[40];
	char block[24 * 1024];
};

static void state_part(struct state *s, void *p, size_t size, bool restore)
{
	if (restore)
		memcpy(p, s->block + s->size, size);
	else
		memcpy(s->block + s->size, p, size);
	s->size += size;
}

static void state_do(struct state *s, bool restore)
{
	s->size = 0;
	state_part(s, &world, sizeof(world), restore);
	state_part(s, percpu, nr_cpus * sizeof(*percpu), restore);
	state_part(s, __start_usim_shared, __stop_usim_shared - __start_usim_shared, restore);
	for (int i = 0; i < nr_cpus; i++) {
		state_part(s, &vcpus[i], offsetof(struct vcpu, buffer), restore);
		state_part(s, vcpus[i].buffer, vcpus[i].stores * sizeof(struct store), restore);
		if (!vcpus[i].done)
			state_part(s, vcpus[i].sp, stacks[i] + STACK_SIZE - vcpus[i].sp, restore);
	}
	check(s->size <= sizeof(s->block), "a state is too large");
}

static u64 hash(const struct state *s)
{
	const u64 *p = (const u64 *)s->block;
	u64 h = s->size;

	for (size_t i = 0; i < s->size / 8; i++) {
		h = (h ^ p[i]) * 0x9ddfea08eb382d69;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

/* Open addressing; false if @h was there. */
static bool seen_add(u64 *seen, u64 mask, u64 h)
{
	u64 i = h & mask;

	for (; seen[i]; i = (i + 1) & mask)
		if (seen[i] == h)
			return false;
	seen[i] = h;
	return true;
}

u64 vcpu_all(u64 max, bool *all, void (*at_end)(void))
{
	enum { DEPTH = 4096 };
	static struct state *stack;
	u64 mask = 1, n = 1, *seen;
	int depth = 0;

	while (mask < max * 2)
		mask *= 2;
	seen = calloc(mask--, sizeof(*seen));
	if (!stack)
		stack = malloc(DEPTH * sizeof(*stack));
	check(seen && stack, "no memory");
	doing = ", all schedules";

	*all = true;
	stack->next = 0;
	stack->n = choices(stack->choice);
	state_do(stack, false);
	while (depth >= 0) {
		struct state *s = &stack[depth], *next = s + 1;

		if (s->next == s->n) {
			depth--;
			continue;
		}
		state_do(s, true);
		take(s->choice[s->next++]);
		if (n >= max) {
			*all = false;
			continue;
		}
		next->n = choices(next->choice);
		next->next = 0;
		state_do(next, false);
		if (!seen_add(seen, mask, hash(next)))
			continue;
		n++;
		if (!next->n)
			at_end();
		check(++depth < DEPTH - 1, "a schedule without an end");
	}
	free(seen);
	return n;
}

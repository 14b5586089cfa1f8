// SPDX-License-Identifier: GPL-2.0
/* The prototype of ShflLock's sleeping locks: see sleeping.h. */
#include "sleeping.h"
#include "../locking/qspinlock_order.h"

/* As the kernel's try_cmpxchg(), a full barrier, but leaves @old alone. */
#define try_change(word, old, new) ({ u32 was = (old); usim_cmpxchg(word, &was, new, true); })

/*
 * Wait until @awaited bits of @word, set in @val, have changed: by looking at it a while, then asleep, with SHFL_SLEEPS
 * set. Who changes the bits clears that and wakes *@sleeper. Returns at any time after @spins looks.
 */
static void spin_then_sleep(u32 *word, u32 val, int *sleeper, int task, int *spins)
{
	if (++*spins <= shfl_spins) {
		cpu_relax();
		return;
	}
	*spins = 0;
	WRITE_ONCE(*sleeper, task);
	/* A release: whoever sees the bit sees the task. Fails if the word has changed, which may be what we wait for. */
	if (!try_change(word, val, val | SHFL_SLEEPS))
		return;
	while (READ_ONCE(*word) & SHFL_SLEEPS)
		usim_sleep();
}

/*
 * Change @word from @val to @new and wake who sleeps if @new does not have that bit. False if it was not @val, which the
 * caller has read by an acquire: that pairs with the release in spin_then_sleep().
 */
static bool change_and_wake(u32 *word, u32 val, u32 new, int *sleeper)
{
	/* The bit stays until we clear it, and the sleeper with it. */
	int task = READ_ONCE(*sleeper);

	if (!try_change(word, val, new))
		return false;
	if (val & ~new & SHFL_SLEEPS)
		usim_wake(task);
	return true;
}

/* --- the mutex --- */

/* Let @w, which is in the queue, go on with @state; wakes it if it sleeps. */
static void set_state(struct shfl_waiter *w, u32 state)
{
	/* As the head it may be gone after the exchange. */
	int task = w->task;

	/* A full barrier: the waiter sees the queue as we leave it. */
	if (usim_xchg(&w->state, state) == SHFL_ASLEEP)
		usim_wake(task);
}

/* Walk down the queue and move waiters of our node up; see qspinlock_shfl.h, which differs in that nobody sleeps. */
static void shuffle(struct shfl_mutex *m, struct shfl_waiter *me)
{
	struct shfl_waiter *last = me, *prev = me->seen, *cur, *after;

	while ((cur = READ_ONCE(prev->next)) && (after = READ_ONCE(cur->next))) {
		/* There is something better to do. */
		if (READ_ONCE(me->state) == SHFL_HEAD && !(READ_ONCE(m->val) & SHFL_LOCKED))
			break;
		if (cur->nid != me->nid) {
			prev = cur;
			continue;
		}
		if (prev != last && order_unfair(me->since)) {
			me->shuffler = false;
			return;
		}
		if (prev == last) {
			prev = cur;
		} else {
			prev->next = after;
			cur->next = last->next;
			last->next = cur;
		}
		cur->since = me->since;
		cur->grouped = true;
		/* It is near its turn now: wake it before that comes, and let it not sleep again. */
		set_state(cur, SHFL_AWAKE);
		last = cur;
	}

	me->seen = prev;
	if (last == me)
		return;
	me->shuffler = false;
	last->seen = prev;
	/* Pairs with the acquire in wait_for_turn(): the queue and seen are as we left them. */
	smp_store_release(&last->shuffler, true);
}

static void wait_for_turn(struct shfl_mutex *m, struct shfl_waiter *me)
{
	u32 state;
	int spins = 0;

	/* The acquire pairs with the exchange in set_state(). */
	while ((state = smp_load_acquire(&me->state)) != SHFL_HEAD) {
		if (smp_load_acquire(&me->shuffler)) {
			shuffle(m, me);
		} else if (state == SHFL_MAY_SLEEP && ++spins > shfl_spins) {
			/* From here on those ahead wake us when they change the state. */
			if (!try_change(&me->state, SHFL_MAY_SLEEP, SHFL_ASLEEP))
				continue;
			while (READ_ONCE(me->state) == SHFL_ASLEEP)
				usim_sleep();
		}
		cpu_relax();
	}
}

/* The next in the queue shall be awake when its turn comes: the head, which has time, wakes it. */
static void wake_next(struct shfl_waiter *me)
{
	struct shfl_waiter *next = READ_ONCE(me->next);

	if (next && READ_ONCE(next->state) == SHFL_ASLEEP)
		set_state(next, SHFL_AWAKE);
}

static void wait_for_lock(struct shfl_mutex *m, struct shfl_waiter *me)
{
	int spins = 0;
	u32 val;

	if (!me->grouped) {
		me->shuffler = true;
		me->seen = me;
		me->since = order_clock();
	}
	for (;;) {
		val = READ_ONCE(m->val);
		if (!(val & SHFL_LOCKED)) {
			if (try_change(&m->val, val, SHFL_LOCKED | SHFL_QUEUED))
				return;
		} else if (!(val & SHFL_QUEUED)) {
			try_change(&m->val, val, val | SHFL_QUEUED);
		} else {
			wake_next(me);
			if (me->shuffler)
				shuffle(m, me);
			spin_then_sleep(&m->val, val, &m->sleeper, me->task, &spins);
		}
	}
}

/* @me has the lock and was the head of the queue: make the next one the head. */
static void leave_queue(struct shfl_mutex *m, struct shfl_waiter *me)
{
	struct shfl_waiter *next = READ_ONCE(me->next), *old = me;
	u32 val;

	if (!next) {
		/* Before the queue is empty, as a new head may set the bit at once after it. */
		do
			val = READ_ONCE(m->val);
		while (!try_change(&m->val, val, val & ~SHFL_QUEUED));
		if (usim_cmpxchg_pointer((void **)&m->tail, (void **)&old, NULL))
			return;
		next = smp_cond_load_relaxed(&me->next, (VAL));
	}
	set_state(next, SHFL_HEAD);
}

bool shfl_mutex_trylock(struct shfl_mutex *m)
{
	return try_change(&m->val, 0, SHFL_LOCKED);
}

void shfl_mutex_lock(struct shfl_mutex *m, struct shfl_waiter *me)
{
	struct shfl_waiter *prev;

	if (shfl_mutex_trylock(m))
		return;

	me->next = NULL;
	me->state = SHFL_MAY_SLEEP;
	me->task = usim_cpu();
	me->nid = numa_node_id();
	me->grouped = me->shuffler = false;
	/* A full barrier: who finds us at the tail finds us initialized. */
	prev = usim_xchg_pointer((void **)&m->tail, me);
	if (prev) {
		WRITE_ONCE(prev->next, me);
		wait_for_turn(m, me);
	} else {
		me->state = SHFL_HEAD;
	}
	wait_for_lock(m, me);
	leave_queue(m, me);
}

void shfl_mutex_unlock(struct shfl_mutex *m)
{
	u32 val;

	do
		val = smp_load_acquire(&m->val);
	while (!change_and_wake(&m->val, val, val & ~(SHFL_LOCKED | SHFL_SLEEPS), &m->sleeper));
}

/* --- the semaphore --- */

/*
 * Hold shfl_rwsem::wait, so there is one at a time here: take the semaphore by adding @add as soon as no bit of @free_of
 * is set, and leave SHFL_WAITING to others until then if @add is a writer's.
 */
static void wait_for_sem(struct shfl_rwsem *s, int task, u32 free_of, u32 add)
{
	int spins = 0;
	u32 val;

	for (;;) {
		val = READ_ONCE(s->val);
		if (!(val & free_of)) {
			if (try_change(&s->val, val, (val & ~SHFL_WAITING) + add))
				return;
		} else if (add == SHFL_WRITER && !(val & SHFL_WAITING)) {
			try_change(&s->val, val, val | SHFL_WAITING);
		} else {
			spin_then_sleep(&s->val, val, &s->sleeper, task, &spins);
		}
	}
}

void shfl_down_read(struct shfl_rwsem *s, struct shfl_waiter *me)
{
	u32 val = READ_ONCE(s->val);

	while (!(val & (SHFL_WRITER | SHFL_WAITING)))
		if (usim_cmpxchg(&s->val, &val, val + SHFL_READER, false))
			return;
	shfl_mutex_lock(&s->wait, me);
	wait_for_sem(s, usim_cpu(), SHFL_WRITER, SHFL_READER);
	shfl_mutex_unlock(&s->wait);
}

void shfl_up_read(struct shfl_rwsem *s)
{
	u32 val, new;

	do {
		val = smp_load_acquire(&s->val);
		new = val - SHFL_READER;
		if (new < SHFL_READER)
			new &= ~SHFL_SLEEPS;
	} while (!change_and_wake(&s->val, val, new, &s->sleeper));
}

void shfl_down_write(struct shfl_rwsem *s, struct shfl_waiter *me)
{
	if (try_change(&s->val, 0, SHFL_WRITER))
		return;
	shfl_mutex_lock(&s->wait, me);
	wait_for_sem(s, usim_cpu(), ~SHFL_WAITING, SHFL_WRITER);
	shfl_mutex_unlock(&s->wait);
}

void shfl_up_write(struct shfl_rwsem *s)
{
	u32 val;

	do
		val = smp_load_acquire(&s->val);
	while (!change_and_wake(&s->val, val, val & ~(SHFL_WRITER | SHFL_SLEEPS), &s->sleeper));
}

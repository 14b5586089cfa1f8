// SPDX-License-Identifier: GPL-2.0
/* The kernel's own fast paths, on top of the slow path that a check is about. */
#include "../locking/qspinlock_order.h"
#include "../locking/lock_events.h"
#include <asm-generic/qspinlock.h>
#include "check.h"

unsigned long lockevents[lockevent_num];
const char *const event_names[] = {
#undef LOCK_EVENT
#define LOCK_EVENT(name) #name,
#include "../locking/lock_events_list.h"
	NULL
};
u32 order_fair;
DEFINE_PER_CPU_READ_MOSTLY(int, ron_pos);
static int route[CONFIG_NR_CPUS];
int *ron_route = route, ron_route_len;

const struct order orders[] = {
	{ "native", fifo_queued_spin_lock_slowpath },
	{ "cna", cna_queued_spin_lock_slowpath },
	{ "shfl", shfl_queued_spin_lock_slowpath },
	{ "ron", ron_queued_spin_lock_slowpath },
	{ "ron-array", ron_array_queued_spin_lock_slowpath },
	{ NULL, NULL }
};
const struct order *order;

void queued_spin_lock_slowpath(struct qspinlock *lock, u32 val)
{
	order->slowpath(lock, val);
}

void lock_init(struct qspinlock *lock, u32 val) { lock->val.counter = val; }
void lock_lock(struct qspinlock *lock) { queued_spin_lock(lock); }
bool lock_try(struct qspinlock *lock) { return queued_spin_trylock(lock); }
void lock_unlock(struct qspinlock *lock) { queued_spin_unlock(lock); }
/* The owner and a CPU with the pending bit both had the lock and are done. */
void lock_unlock_pending(struct qspinlock *lock) { usim_release(); WRITE_ONCE(lock->locked_pending, 0); }

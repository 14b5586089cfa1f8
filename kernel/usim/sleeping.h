/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prototype of a mutex and a read-write semaphore whose waiters sleep and sort themselves by NUMA node: ShflLock-B and
 * its read-write lock (Kashyap and others, SOSP 2019) for the kernel. ../sleeping.md tells how and why.
 *
 * A struct shfl_waiter belongs to one call; in the kernel it would be on the stack.
 */
#ifndef USIM_SLEEPING_H
#define USIM_SLEEPING_H

#include "shim.h"

/* shfl_mutex::val */
#define SHFL_LOCKED	1u
#define SHFL_QUEUED	2u	/* only the head of the queue may take the lock */
#define SHFL_SLEEPS	4u	/* the head sleeps until unlock wakes it */

/* shfl_rwsem::val */
#define SHFL_WRITER	1u
#define SHFL_WAITING	2u	/* a writer waits: no more readers on the fast path */
/*			4u	   SHFL_SLEEPS, whoever holds shfl_rwsem::wait */
#define SHFL_READER	8u	/* times the number of readers */

/* shfl_waiter::state. Only the first goes to sleep. */
enum { SHFL_MAY_SLEEP, SHFL_ASLEEP, SHFL_AWAKE, SHFL_HEAD };

/* How often a waiter looks at its state, or the head at the lock, before it sleeps. */
extern int shfl_spins;

struct shfl_waiter {
	struct shfl_waiter *next;
	struct shfl_waiter *seen;	/* the shuffler: how far it has got */
	u32 state;
	u32 since;			/* the age of the group */
	int task;
	u16 nid;
	u8 grouped;			/* not the first of its group */
	u8 shuffler;
};

struct shfl_mutex {
	u32 val;
	int sleeper;			/* with SHFL_SLEEPS: the task to be woken */
	struct shfl_waiter *tail;
};

struct shfl_rwsem {
	u32 val;
	int sleeper;
	struct shfl_mutex wait;		/* who waits for this semaphore holds it, or waits for it */
};

bool shfl_mutex_trylock(struct shfl_mutex *m);
void shfl_mutex_lock(struct shfl_mutex *m, struct shfl_waiter *me);
void shfl_mutex_unlock(struct shfl_mutex *m);
void shfl_down_read(struct shfl_rwsem *s, struct shfl_waiter *me);
void shfl_up_read(struct shfl_rwsem *s);
void shfl_down_write(struct shfl_rwsem *s, struct shfl_waiter *me);
void shfl_up_write(struct shfl_rwsem *s);

#endif

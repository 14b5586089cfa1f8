/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kernel/locking/qspinlock.c takes from the rest of the kernel, for a program in user space. Included before it;
 * the headers that it names are empty files then, except for those that are the kernel's own: asm-generic/qspinlock.h,
 * qspinlock_types.h and the headers in kernel/locking.
 *
 * Plain loads and stores, READ_ONCE() and WRITE_ONCE() among them, are what they are: the compiler reports each to
 * vcpu.c (-fsanitize=thread). Atomic operations and barriers call it.
 */
#ifndef USIM_SHIM_H
#define USIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;

/* vcpu.c */
int usim_cpu(void);
int usim_nid(void);
u64 usim_clock(void);
void usim_relax(void);
void usim_wmb(void);
void usim_release(void);	/* the store that follows is a release */
bool usim_cmpxchg(u32 *p, u32 *old, u32 new, bool release);
u16 usim_xchg16(u16 *p, u16 new);
u32 usim_fetch_or(u32 *p, u32 bits);
/* For sleeping.c: full barriers all. */
u32 usim_xchg(u32 *p, u32 new);
void *usim_xchg_pointer(void **p, void *new);
bool usim_cmpxchg_pointer(void **p, void **old, void *new);
void usim_sleep(void);		/* until usim_wake() for this CPU; returns at once if that was before */
void usim_wake(int cpu);
void *usim_percpu(const volatile void *p, int cpu);

#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define __pure			__attribute__((pure))
#define __lockfunc
#define __user
#define __LITTLE_ENDIAN		1234
#define U16_MAX			0xffff
#define MAX_NUMNODES		1024
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define BUILD_BUG_ON(x)		_Static_assert(!(x), #x)
#define EXPORT_SYMBOL(x)	_Static_assert(true, #x)
#define prefetchw(x)		((void)(x))
#define trace_contention_begin(lock, flags)	((void)(lock))
#define trace_contention_end(lock, ret)		((void)(lock))

#define barrier()		__asm__ volatile("" ::: "memory")
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v)	((void)(*(volatile __typeof__(x) *)&(x) = (v)))
#define cpu_relax()		usim_relax()
#define smp_wmb()		usim_wmb()
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, v)	do { usim_release(); WRITE_ONCE(*(p), v); } while (0)
#define smp_cond_load_relaxed(p, cond) ({			\
	__typeof__(*(p)) VAL;					\
	while (VAL = READ_ONCE(*(p)), !(cond))			\
		cpu_relax();					\
	VAL;							\
})
#define smp_cond_load_acquire(p, cond) smp_cond_load_relaxed(p, cond)

typedef struct { int counter; } atomic_t;
#define ATOMIC_INIT(i)		{ (i) }
#define ATOMIC_WORD(v)		((u32 *)&(v)->counter)
#define atomic_read(v)		READ_ONCE((v)->counter)
#define atomic_cond_read_acquire(v, c)	smp_cond_load_acquire(&(v)->counter, c)
#define atomic_cond_read_relaxed(v, c)	smp_cond_load_relaxed(&(v)->counter, c)
#define atomic_try_cmpxchg_acquire(v, old, new)	usim_cmpxchg(ATOMIC_WORD(v), (u32 *)(old), new, false)
#define atomic_try_cmpxchg_relaxed(v, old, new)	usim_cmpxchg(ATOMIC_WORD(v), (u32 *)(old), new, false)
#define atomic_try_cmpxchg_release(v, old, new)	usim_cmpxchg(ATOMIC_WORD(v), (u32 *)(old), new, true)
#define atomic_fetch_or_acquire(bits, v)	usim_fetch_or(ATOMIC_WORD(v), bits)
#define xchg_relaxed(p, new)	usim_xchg16(p, new)

#define DEFINE_PER_CPU_ALIGNED(type, name) \
	__attribute__((section("usim_section"), aligned(64))) type name
#define DEFINE_PER_CPU_READ_MOSTLY(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define DECLARE_PER_CPU(type, name)		extern type name
#define DECLARE_PER_CPU_READ_MOSTLY(type, name)	extern type name
#define __cacheline_aligned	__attribute__((section("usim_shared"), aligned(64)))
#define DECLARE_STATIC_KEY_FALSE(name)	extern bool name
#define DEFINE_STATIC_KEY_FALSE(name)	bool name
#define static_branch_unlikely(key)	(*(key))
#define NR_CPUS			CONFIG_NR_CPUS
#define virt_spin_lock(lock)	false
#define per_cpu_ptr(p, cpu)	((__typeof__(p))usim_percpu(p, cpu))
#define this_cpu_ptr(p)		per_cpu_ptr(p, usim_cpu())
#define raw_cpu_read(x)		(*this_cpu_ptr(&(x)))
#define __this_cpu_dec(x)	((void)(*this_cpu_ptr(&(x)))--)
#define raw_cpu_inc(x)		((void)(x)++)	/* lockevents: one array for all */
#define raw_cpu_add(x, n)	((void)((x) += (n)))
#define smp_processor_id()	usim_cpu()
#define numa_node_id()		usim_nid()
#define nr_cpu_ids		CONFIG_NR_CPUS
#define local_clock()		usim_clock()

/* For mcs_spin_lock() and mcs_spin_unlock(), which are not used. */
#define xchg(p, new)		__atomic_exchange_n(p, new, __ATOMIC_SEQ_CST)
#define cmpxchg_release(p, old, new)	__sync_val_compare_and_swap(p, old, new)

struct file;
struct qspinlock;
#endif

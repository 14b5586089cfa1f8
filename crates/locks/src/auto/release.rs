//! How the lock is released: by a plain store, by an exchange where that is not to be had, or, where somebody must be
//! looked after, with care.

use super::bounds::Bounds;
use super::lock::{sleepers_left, AutoLock, ASLEEP, CAREFUL, CLAIMED, FREE, HELD, LOOK};
use super::queue::Node;
use super::sleepers::{Sleepers, Wake};
use crate::parameters::Setting;
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    /// Lets releases be plain stores again, if there have been enough that nobody needed to be careful. The caller
    /// holds the lock and has the seat, so that nobody is in `sleep`.
    pub(super) fn calm_down(&self) {
        if self.is_calm() {
            // Relaxed, both: `calm` is the holder's own, CAREFUL that of who has the seat.
            self.calm.store(0, Ordering::Relaxed);
            self.alert.fetch_and(!CAREFUL, Ordering::Relaxed);
        }
    }

    pub(super) fn is_careful(&self) -> bool {
        self.alert.load(Ordering::Relaxed) & CAREFUL != 0 // Relaxed: the seat, or the caller's own look, decides.
    }

    /// Whether there have been enough careful releases that found nobody asleep. Relaxed, as in `calm_down`.
    fn is_calm(&self) -> bool {
        self.is_careful() && self.calm.load(Ordering::Relaxed) >= B::CALM
    }

    /// Releases the lock by a plain store, if that is to be had, and there is nobody to look after.
    #[inline(always)]
    pub(super) fn store_alone(&self) -> bool {
        // ORDER(hand-off): the store is a Release; it pairs with the Acquire of the next acquisition.
        // LAST: the lock may be destroyed after this store.
        B::STORES && P::store_unless(&self.alert, &self.held, FREE)
    }

    /// The same by an exchange, where plain stores are not to be had.
    #[cold]
    #[inline(never)]
    pub(super) fn exchange_alone(&self) -> bool {
        // Relaxed: CAREFUL alone is another thread's, and the exchange fails if that is about to sleep.
        // ORDER(hand-off): Release as in `release_carefully`. LAST: the lock may be destroyed after this exchange.
        self.alert.load(Ordering::Relaxed) == 0 && self.held.compare_exchange(HELD, FREE, Ordering::Release).is_ok()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unlock_contended(&self) {
        // LAST: if the lock has been handed on, it may be destroyed.
        if self.is_routed() && self.hand_on() {
            return;
        }
        if self.is_calm() {
            self.calm_down_alone();
        }
        // Relaxed: LOOK is the holder's own, and `store_alone` looks again for CAREFUL.
        let called = if self.alert.load(Ordering::Relaxed) & LOOK == 0 { Wake::NOBODY } else { self.look() };
        // LAST: the lock may be destroyed after this store, or after `release_carefully`.
        if self.is_routed() || !self.store_alone() {
            self.release_carefully();
        }
        called.wake();
    }

    /// Calls a sleeper, unless there is a candidate again.
    fn look(&self) -> Wake<P> {
        self.alert.fetch_and(!LOOK, Ordering::Relaxed);
        // Relaxed: the exchange decides.
        let queue = self.queue.load(Ordering::Relaxed);
        let Some(first) = sleepers_left(queue) else { return Wake::NOBODY };
        let near = Setting::Near.number::<P>(B::NEAR);
        // ORDER(seat): Acquire pairs with the Release of who left the queue empty, which may be an earlier holder.
        if self.queue.compare_exchange(queue, null_mut(), Ordering::Acquire).is_err() {
            return Wake::NOBODY;
        }
        // SAFETY: taken out of the queue word.
        unsafe { Sleepers::beginning_with(first) }.call_next(near, P::instant())
    }

    /// Releases the lock so that a candidate which sleeps, or claims it, is seen.
    fn release_carefully(&self) {
        let held = P::spin_map(|| {
            // ORDER(asleep): Acquire pairs with the Release in `sleep`.
            let held = self.held.load(Ordering::Acquire);
            if self.is_careful() {
                let calm = if held == HELD { self.calm.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
                self.calm.store(calm, Ordering::Relaxed);
            }
            // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange, unless the candidate sleeps: it waits for the call.
            self.held.compare_exchange(held, held & CLAIMED, Ordering::Release).ok()
        });
        if held & ASLEEP != 0 {
            let address = self.seat.address();
            // LAST: the wake-up uses the address only.
            self.seat.call();
            P::unpark(address, 1);
        }
    }

    /// As [`Self::calm_down`] for a holder, which takes the seat for a moment if nobody has it.
    fn calm_down_alone(&self) {
        let me = Node::<P>::new(0, false);
        // ORDER(enqueue), ORDER(seat): as in `lock_contended`.
        if self.queue.try_change(null_mut(), me.address(), Ordering::AcqRel) {
            let hints = self.seat.stand_up();
            self.calm_down();
            self.leave_seat(&me, Sleepers::NONE, hints);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::auto::lock::Auto;
    use crate::{IsHeld, RawLock};
    use lockswap_platform::Native;

    /// Nobody has allowed plain stores here. Waits are rare, whatever number of releases comes between them.
    #[test]
    fn releases_by_exchange_leave_alone_what_is_known_of_waits() {
        let lock = Auto::<Native>::new();
        for releases in 1..2_000_u32 {
            // SAFETY: acquired, then released, by this thread.
            unsafe {
                lock.lock(&());
                if releases % 20 == 0 {
                    lock.unlock_to_wait(&());
                } else {
                    lock.unlock(&());
                }
            }
            assert!(!lock.is_held() && !lock.has_frequent_waits(), "after {releases}");
        }
    }
}

//! Operations on read-write locks and spinlocks.

use super::calls;
use super::objects::{MUTEXES, RWLOCKS};
use super::watch::Call;
use super::worker::Worker;
use crate::pthread::RwLock;
use libc::{c_int, CLOCK_REALTIME, EBUSY, EDEADLK};

impl Worker<'_> {
    /// One acquisition of a read-write lock.
    pub fn rwlock(&mut self, index: usize) {
        let object = &self.round.objects.rwlocks[index];
        let (lock, number) = (&*object.lock, MUTEXES + index);
        let writes = self.one_in(3);
        let code = match self.random.below(8) {
            0 if writes => self.try_call(Call::TryWrite, number, || calls::try_write(lock)),
            0 => self.try_call(Call::TryRead, number, || calls::try_read(lock)),
            1 => {
                let time = self.deadline(CLOCK_REALTIME);
                match writes {
                    true => self.call_until(Call::TimedWrite, number, time, || calls::timed_write(lock, time)),
                    false => self.call_until(Call::TimedRead, number, time, || calls::timed_read(lock, time)),
                }
            }
            2 => {
                let clock = self.clock();
                let time = self.deadline(clock);
                match writes {
                    true => self.call_until(Call::ClockWrite, number, time, || calls::clock_write(lock, time)),
                    false => self.call_until(Call::ClockRead, number, time, || calls::clock_read(lock, time)),
                }
            }
            _ => {
                let call = if writes { Call::Write } else { Call::Read };
                let code = self.call(call, number, || if writes { calls::write(lock) } else { calls::read(lock) });
                self.expect(call, number, code, &[0]);
                code
            }
        };
        if code != 0 {
            return;
        }
        if writes {
            self.enter(number);
            self.hold();
            if self.one_in(16) {
                let function = |function: fn(&RwLock) -> c_int| function;
                for (call, function, refusal) in [
                    (Call::TryRead, function(calls::try_read), EBUSY),
                    (Call::TryWrite, function(calls::try_write), EBUSY),
                    (Call::Read, function(calls::read), EDEADLK),
                    (Call::Write, function(calls::write), EDEADLK),
                ] {
                    let code = self.call(call, number, || function(lock));
                    self.expect(call, number, code, &[refusal]);
                }
            }
            self.leave(number);
        } else {
            let before = object.data.read();
            self.hold();
            if self.one_in(16) {
                self.expect(Call::TryWrite, number, calls::try_write(lock), &[EBUSY]);
                if object.readers_first {
                    let code = self.call(Call::Read, number, || calls::read(lock));
                    self.expect(Call::Read, number, code, &[0]);
                    let code = self.call(Call::RwUnlock, number, || calls::rw_unlock(lock));
                    self.expect(Call::RwUnlock, number, code, &[0]);
                }
            }
            let after = object.data.read();
            let same = before.and_then(|before| match after? {
                after if after == before => Ok(()),
                _ => Err("a writer was inside beside a reader".into()),
            });
            self.require(number, same);
        }
        if self.one_in(16) {
            self.next_object(number);
        }
        let code = self.call(Call::RwUnlock, number, || calls::rw_unlock(lock));
        self.expect(Call::RwUnlock, number, code, &[0]);
    }

    /// One acquisition of a spinlock.
    pub fn spin(&mut self, index: usize) {
        let (lock, number) = (&*self.round.objects.spins[index].lock, MUTEXES + RWLOCKS + index);
        if self.one_in(8) {
            if self.try_call(Call::SpinTryLock, number, || calls::spin_try_lock(lock)) != 0 {
                return;
            }
        } else {
            let code = self.call(Call::SpinLock, number, || calls::spin_lock(lock));
            self.expect(Call::SpinLock, number, code, &[0]);
        }
        self.enter(number);
        match self.random.below(32) {
            0 => std::thread::yield_now(),
            1 => self.expect(Call::SpinTryLock, number, calls::spin_try_lock(lock), &[EBUSY]),
            n if n < 8 => self.spin_for(200),
            _ => {}
        }
        self.leave(number);
        let code = self.call(Call::SpinUnlock, number, || calls::spin_unlock(lock));
        self.expect(Call::SpinUnlock, number, code, &[0]);
    }
}

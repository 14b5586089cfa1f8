//! Epochs with targets on the simulated machine: the windows that the shipped library computes, one per virtual
//! thread.

use crate::engine;
use crate::platform::{self, Sim};
use lockswap_locks::asymmetric::epoch::{Share, Target, Window};
use lockswap_platform::{Clock, CoreKind, Ns, Platform};
use lockswap_workloads::epochs::Annotate;
use std::sync::Mutex;

/// The epochs of one run.
pub struct Epochs {
    windows: Mutex<Vec<Window>>,
    longest: Ns,
}

impl Epochs {
    /// Epochs whose windows are `longest` at the most.
    pub fn new(longest: Ns) -> Self {
        Epochs { windows: Mutex::default(), longest }
    }

    fn window(&self, change: impl FnOnce(&mut Window)) -> Ns {
        let thread = engine::current() as usize;
        let mut windows = self.windows.lock().expect("no thread panicked");
        if windows.len() <= thread {
            windows.resize(thread + 1, Window::NEW);
        }
        change(&mut windows[thread]);
        windows[thread].get()
    }
}

impl Annotate for Epochs {
    fn epoch<R>(&self, _: i32, slo: Ns, body: impl FnOnce() -> R) -> R {
        let window = self.window(|_| {});
        platform::set_window(Some(window));
        let start = Sim::now(Clock::Monotonic);
        let result = body();
        let latency = Sim::now(Clock::Monotonic) - start;
        if Sim::kind() == CoreKind::Little {
            let target = Target { slo, misses: Share::DEFAULT, longest: self.longest };
            self.window(|window| {
                window.update(latency, target);
            });
        }
        platform::set_window(None);
        result
    }
}

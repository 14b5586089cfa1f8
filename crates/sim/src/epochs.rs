//! Epochs with targets on the simulated machine: the windows that the shipped library computes, one per virtual thread.

use crate::engine;
use crate::platform::{self, Sim};
use lockswap_locks::asymmetric::epoch::{Share, Target, Window};
use lockswap_platform::window::LONGEST;
use lockswap_platform::{Clock, CoreKind, Ns, Platform};
use lockswap_workloads::epochs::Annotate;
use std::sync::Mutex;

/// The epochs of one run.
#[derive(Default)]
pub struct Epochs {
    windows: Mutex<Vec<Window>>,
    /// A window that does not change, ns: the paper's LibASL-OPT.
    fixed: Option<Ns>,
}

impl Epochs {
    /// Epochs whose windows are all `fixed`, if there is one.
    pub fn new(fixed: Option<Ns>) -> Self {
        Epochs { windows: Mutex::default(), fixed }
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
        platform::set_window(Some(self.fixed.unwrap_or(window)));
        let start = Sim::now(Clock::Monotonic);
        let result = body();
        let latency = Sim::now(Clock::Monotonic) - start;
        if Sim::kind() == CoreKind::Little {
            let target = Target { slo, misses: Share::DEFAULT, longest: LONGEST };
            self.window(|window| {
                window.update(latency, target);
            });
        }
        platform::set_window(None);
        result
    }
}

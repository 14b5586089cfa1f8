//! Running an execution: its virtual threads are resumed in the order that the search decides.

use super::{engine, Engine, State, Stop, Thread, ENGINE, MOST_THREADS, ROOT};
use crate::coroutines::Coroutines;
use crate::explore::Search;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Runs the bodies as virtual threads, in an order that the search decides; returns when all have ended. Does not
/// return when the execution goes wrong.
pub fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
    let engine = engine().expect("virtual threads run inside `explore`");
    assert!(!engine.running && bodies.len() <= MOST_THREADS);
    engine.threads.clear();
    engine.threads.extend(bodies.iter().map(|_| Thread::NEW));
    engine.enabled = (1u32 << bodies.len()).wrapping_sub(1) as u16;
    if let Search::Reduced(search) = &mut engine.search {
        search.start(engine.threads.len());
    }
    engine.running = true;
    let mut coroutines = Coroutines::new(bodies.into_iter().map(|body| body as Box<dyn FnOnce() + 'a>));
    let outcome = catch_unwind(AssertUnwindSafe(|| resume_all(&mut coroutines)));
    drop(coroutines);
    let engine = self::engine().expect("still inside `explore`");
    engine.running = false;
    if let Search::Reduced(search) = &mut engine.search {
        search.close();
    }
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    if engine.stop.is_some() {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}

/// The payload of a panic that only leaves the scenario.
struct Stopped;

fn resume_all(coroutines: &mut Coroutines<'_>) {
    let Some(engine) = engine() else { return };
    let count = engine.threads.len();
    engine.starting = true;
    for index in 0..count {
        let Some(engine) = self::engine() else { return };
        engine.current = index;
        if coroutines.resume(index) {
            engine.set_state(index, State::Done);
        }
    }
    let Some(engine) = self::engine() else { return };
    engine.starting = false;
    engine.current = ROOT;
    loop {
        let Some(engine) = self::engine() else { return };
        if engine.current == ROOT {
            let all_ended = engine.threads.iter().all(|thread| thread.state == State::Done);
            if all_ended || !engine.next() {
                return;
            }
        }
        if engine.stop.is_some() {
            return;
        }
        let index = engine.current;
        if coroutines.resume(index) {
            let Some(engine) = self::engine() else { return };
            engine.set_state(index, State::Done);
            engine.current = ROOT;
        }
    }
}

/// One execution; what went wrong.
pub fn execute(engine: &mut Engine, scenario: &dyn Fn()) -> Option<Stop> {
    engine.restart();
    ENGINE.set(engine);
    let result = catch_unwind(AssertUnwindSafe(scenario));
    ENGINE.set(std::ptr::null_mut());
    match (engine.stop.take(), result) {
        (Some(stop), _) => Some(stop),
        (None, Ok(())) => None,
        (None, Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Stop::Failed(text.unwrap_or_else(|| "panic".into())))
        }
    }
}

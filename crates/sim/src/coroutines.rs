//! Virtual threads: coroutines that take turns on one thread of the host. Whose turn it is, the caller says.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

/// Virtual threads get this much stack, bytes.
const STACK_BYTES: usize = 64 * 1024;

thread_local! {
    /// The way out of the virtual thread that runs.
    static WAY_OUT: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

struct Virtual {
    coroutine: Coroutine<(), (), (), DefaultStack>,
    way_out: *const Yielder<(), ()>,
}

/// Virtual threads that live as long as this. Those that have not ended then do not run any more, and leak what they
/// own.
pub struct Coroutines<'a> {
    threads: Vec<Virtual>,
    bodies: PhantomData<&'a ()>,
}

impl<'a> Coroutines<'a> {
    /// A virtual thread for each body. Each has the same stack whenever this host's thread makes as many.
    pub fn new(bodies: impl IntoIterator<Item = Box<dyn FnOnce() + 'a>>) -> Self {
        let make = |body: Box<dyn FnOnce() + 'a>| {
            // SAFETY: the coroutine ends, or is reset without running any more, when `self` is dropped, which is
            // within 'a.
            let body: Box<dyn FnOnce() + 'static> = unsafe { std::mem::transmute(body) };
            let coroutine = Coroutine::with_stack(take_stack(), move |way_out: &Yielder<(), ()>, ()| {
                WAY_OUT.set(way_out);
                body();
            });
            Virtual { coroutine, way_out: std::ptr::null() }
        };
        Coroutines { threads: bodies.into_iter().map(make).collect(), bodies: PhantomData }
    }

    /// Lets a thread run until it calls [`leave`]; whether it has ended. A panic of the thread goes on here.
    #[inline]
    pub fn resume(&mut self, thread: usize) -> bool {
        let thread = &mut self.threads[thread];
        WAY_OUT.set(thread.way_out);
        let result = thread.coroutine.resume(());
        thread.way_out = WAY_OUT.get();
        matches!(result, CoroutineResult::Return(()))
    }
}

impl Drop for Coroutines<'_> {
    fn drop(&mut self) {
        for mut thread in self.threads.drain(..).rev() {
            if !thread.coroutine.done() {
                // SAFETY: what such a thread owns leaks; that is bounded by one run.
                unsafe { thread.coroutine.force_reset() };
            }
            STACKS.with_borrow_mut(|stacks| stacks.push(thread.coroutine.into_stack()));
        }
    }
}

fn take_stack() -> DefaultStack {
    STACKS
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a coroutine's stack"))
}

/// Leaves the running virtual thread until it is resumed.
#[inline]
pub fn leave() {
    // SAFETY: the yielder of the running coroutine lives on its stack.
    unsafe { (*WAY_OUT.get()).suspend(()) };
}

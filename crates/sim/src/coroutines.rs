//! Virtual threads: coroutines that take turns on one thread of the host. Whose turn it is, the caller says.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

/// Virtual threads get this much stack, bytes.
const STACK_BYTES: usize = 64 * 1024;
/// The tops of stacks are spread over so many bytes.
const SPREAD: usize = 4096;
/// The distance of two tops that follow each other: what is on a stack keeps its place in a simulated line, however long
/// those are.
const APART: usize = 128;

thread_local! {
    /// The way out of the virtual thread that runs.
    static WAY_OUT: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<Spread>> = const { RefCell::new(Vec::new()) };
    /// How many stacks this thread of the host has made.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// A stack whose top lies elsewhere in its page than those of the stacks made before and after it. Where the host's first
/// cache keeps memory depends on its place in a page; tops that are alike in that would drive each other out.
struct Spread {
    memory: DefaultStack,
    top: StackPointer,
}

impl Spread {
    fn new() -> Self {
        let number = MADE.replace(MADE.get() + 1);
        let memory = DefaultStack::new(STACK_BYTES + SPREAD).expect("memory for a coroutine's stack");
        let top = memory.base().get() - number * APART % SPREAD;
        Spread { top: StackPointer::new(top).expect("an address"), memory }
    }
}

// SAFETY: it is a part of `memory`, which ends at the guard page of that; more than [`STACK_BYTES`] lie below the top,
// which is aligned because the end of a page and `APART` are.
unsafe impl Stack for Spread {
    fn base(&self) -> StackPointer {
        self.top
    }
    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}

struct Virtual {
    coroutine: Coroutine<(), (), (), Spread>,
    way_out: *const Yielder<(), ()>,
}

/// Virtual threads that live as long as this. Those that have not ended then do not run any more, and leak what they own.
pub struct Coroutines<'a> {
    threads: Vec<Virtual>,
    bodies: PhantomData<&'a ()>,
}

impl<'a> Coroutines<'a> {
    /// A virtual thread for each body. Each has the same stack whenever this host's thread makes as many.
    pub fn new(bodies: impl IntoIterator<Item = Box<dyn FnOnce() + 'a>>) -> Self {
        let make = |body: Box<dyn FnOnce() + 'a>| {
            // SAFETY: the coroutine ends, or is reset without running any more, when `self` is dropped, which is within 'a.
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

fn take_stack() -> Spread {
    STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(Spread::new)
}

/// Leaves the running virtual thread until it is resumed.
#[inline]
pub fn leave() {
    // SAFETY: the yielder of the running coroutine lives on its stack.
    unsafe { (*WAY_OUT.get()).suspend(()) };
}

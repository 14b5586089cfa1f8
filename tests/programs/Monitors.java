import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/** Monitors and parked threads, with totals that do not depend on timing, while the garbage collector works. */
public class Monitors {
    static final int THREADS = 6;

    interface Body {
        void run(int thread) throws Exception;
    }

    /** Runs the body in all threads at once; an exception in one of them ends the program with status 1. */
    static void inParallel(Body body) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < THREADS; n++) {
            int number = n;
            Thread thread = new Thread(() -> {
                try {
                    body.run(number);
                } catch (Throwable error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Contended monitors, each entered twice. Hash codes make headers grow into full monitors. */
    static long synchronizedCounters() throws Exception {
        long[] totals = new long[4];
        Object[] monitors = new Object[totals.length];
        for (int n = 0; n < monitors.length; n++) {
            monitors[n] = new Object();
        }
        inParallel(thread -> {
            for (int n = 0; n < 40_000; n++) {
                int which = (n + thread) % monitors.length;
                synchronized (monitors[which]) {
                    totals[which] += monitors[which].hashCode() == System.identityHashCode(monitors[which]) ? 1 : 1000;
                    synchronized (monitors[which]) {
                        totals[which]++;
                    }
                }
            }
        });
        long sum = 0;
        for (long total : totals) {
            sum += total;
        }
        return sum;
    }

    /** A bounded queue with wait and notifyAll, half of the threads at either end. */
    static long waitAndNotify() throws Exception {
        ArrayDeque<Integer> queue = new ArrayDeque<>();
        AtomicLong sum = new AtomicLong();
        inParallel(thread -> {
            for (int n = 0; n < 2_000; n++) {
                synchronized (queue) {
                    if (thread % 2 == 0) {
                        while (queue.size() == 3) {
                            queue.wait();
                        }
                        queue.add(n);
                    } else {
                        while (queue.isEmpty()) {
                            queue.wait();
                        }
                        sum.addAndGet(queue.remove());
                    }
                    queue.notifyAll();
                }
            }
        });
        return sum.get();
    }

    /** The same with java.util.concurrent's lock, whose waiters park; some waits have a time limit. */
    static long lockAndConditions() throws Exception {
        ReentrantLock lock = new ReentrantLock();
        Condition filled = lock.newCondition();
        Condition emptied = lock.newCondition();
        int[] filling = {0};
        AtomicLong moved = new AtomicLong();
        inParallel(thread -> {
            for (int n = 0; n < 2_000; n++) {
                while (!lock.tryLock(5, TimeUnit.SECONDS)) {
                    System.err.println("a lock was held for 5 s");
                }
                try {
                    if (thread % 2 == 0) {
                        while (filling[0] == 3) {
                            emptied.await(50, TimeUnit.MILLISECONDS);
                        }
                        filling[0]++;
                        filled.signal();
                    } else {
                        while (filling[0] == 0) {
                            filled.await();
                        }
                        filling[0]--;
                        moved.incrementAndGet();
                        emptied.signal();
                    }
                } finally {
                    lock.unlock();
                }
            }
        });
        return moved.get() + filling[0];
    }

    /** A token goes round: each thread parks until it has come, and unparks the next one. */
    static long parkedRing() throws Exception {
        Thread[] ring = new Thread[THREADS];
        AtomicInteger turn = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(THREADS);
        inParallel(thread -> {
            ring[thread] = Thread.currentThread();
            all.countDown();
            all.await();
            for (int round = 0; round < 1_000; round++) {
                while (turn.get() != round * THREADS + thread) {
                    LockSupport.park();
                }
                turn.incrementAndGet();
                LockSupport.unpark(ring[(thread + 1) % THREADS]);
            }
        });
        return turn.get();
    }

    /** Everything that waits for a time ends by itself, and an interrupt ends every wait. */
    static long timedAndInterrupted() throws Exception {
        AtomicLong ended = new AtomicLong();
        Object nobody = new Object();
        inParallel(thread -> {
            for (int n = 0; n < 50; n++) {
                LockSupport.parkNanos(100_000);
                synchronized (nobody) {
                    nobody.wait(0, 200_000);
                }
                ended.incrementAndGet();
            }
            Thread waiting = new Thread(() -> {
                try {
                    synchronized (nobody) {
                        while (true) {
                            nobody.wait();
                        }
                    }
                } catch (InterruptedException expected) {
                    ended.incrementAndGet();
                }
            });
            waiting.start();
            Thread.sleep(5);
            waiting.interrupt();
            waiting.join();
        });
        return ended.get();
    }

    /** Hand-overs and barriers, while all threads leave garbage behind and one of them asks for it to be collected. */
    static long barriersAndGarbage() throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        SynchronousQueue<int[]> handedOver = new SynchronousQueue<>();
        AtomicLong sum = new AtomicLong();
        inParallel(thread -> {
            List<int[]> kept = new ArrayList<>();
            for (int round = 0; round < 60; round++) {
                for (int n = 0; n < 200; n++) {
                    int[] garbage = new int[ThreadLocalRandom.current().nextInt(1, 2000)];
                    if (n % 50 == 0) {
                        kept.add(garbage);
                    }
                }
                if (thread % 2 == 0) {
                    handedOver.put(new int[] {thread, round});
                } else {
                    int[] got = handedOver.take();
                    sum.addAndGet(got[0] + got[1]);
                }
                if (thread == 0 && round % 20 == 0) {
                    System.gc();
                }
                barrier.await();
            }
            sum.addAndGet(kept.size());
        });
        return sum.get();
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("synchronized " + synchronizedCounters());
        System.out.println("wait and notify " + waitAndNotify());
        System.out.println("lock and conditions " + lockAndConditions());
        System.out.println("parked ring " + parkedRing());
        System.out.println("timed and interrupted " + timedAndInterrupted());
        System.out.println("barriers and garbage " + barriersAndGarbage());
    }
}

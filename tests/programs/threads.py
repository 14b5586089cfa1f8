"""Threads, processes and a database, with a result that does not depend on timing."""
import concurrent.futures
import hashlib
import multiprocessing
import os
import queue
import sqlite3
import sys
import threading

directory = sys.argv[1]


def counted():
    lock, rlock, condition = threading.Lock(), threading.RLock(), threading.Condition()
    total = {"lock": 0, "rlock": 0, "waits": 0}

    def body():
        for _ in range(2000):
            with lock:
                total["lock"] += 1
            with rlock, rlock:
                total["rlock"] += 1
        with condition:
            total["waits"] += 1
            condition.notify_all()

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    with condition:
        assert condition.wait_for(lambda: total["waits"] == 4, timeout=20)
        assert not condition.wait(timeout=0.01)
    for thread in threads:
        thread.join()
    return sorted(total.items())


def hashed():
    # hashlib gives up the interpreter's lock for large inputs: real parallelism.
    data = [bytes([n]) * 200_000 for n in range(24)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return hashlib.sha256(b"".join(pool.map(lambda d: hashlib.sha256(d).digest(), data))).hexdigest()


def piped():
    work, done = queue.Queue(3), queue.Queue()

    def worker():
        while (item := work.get()) is not None:
            done.put(item * item)

    workers = [threading.Thread(target=worker) for _ in range(3)]
    for thread in workers:
        thread.start()
    for n in range(500):
        work.put(n)
    for _ in workers:
        work.put(None)
    for thread in workers:
        thread.join()
    return sum(done.get() for _ in range(500))


def square(n):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # threads in the forked child
        return sum(pool.map(lambda m: m * m, range(n)))


def processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return sum(pool.map(square, range(60)))


def database():
    path = os.path.join(directory, "test.db")
    with sqlite3.connect(path) as setup:
        setup.execute("pragma journal_mode=wal")
        setup.execute("create table sums (id integer primary key, value integer)")
        setup.executemany("insert into sums values (?, 0)", [(n,) for n in range(10)])

    def body(seed):
        connection = sqlite3.connect(path, timeout=20, isolation_level=None)
        connection.execute("pragma synchronous=off")
        for n in range(60):
            connection.execute("begin immediate")
            connection.execute("update sums set value = value + ? where id = ?", (seed, n % 10))
            connection.execute("commit")
        connection.close()

    threads = [threading.Thread(target=body, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check = sqlite3.connect(path)
    return check.execute("select * from sums").fetchall(), check.execute("pragma integrity_check").fetchall()


for part in (counted, hashed, piped, processes, database):
    print(part.__name__, part(), flush=True)

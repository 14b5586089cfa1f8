"""Builds and runs tests, several at a time, each in a session of its own that ends with it."""

import os
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

# What a test of glibc's exits with when it cannot be run on this machine.
UNSUPPORTED = 77


def say(message):
    print(f"suites: {message}", flush=True)


@dataclass(frozen=True)
class Test:
    name: str
    command: list
    folder: Path
    limit_s: float
    environment: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    verdict: str
    seconds: float
    output: str


def in_parallel(jobs, work, items):
    """A list of work(item), `jobs` at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(work, items))


def compile_all(jobs, commands):
    """Runs {name: command}; returns {name: the compiler's message} of those that failed."""
    def work(item):
        name, command = item
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else (name, done.stderr)
    return dict(filter(None, in_parallel(jobs, work, commands.items())))


def kill_session(leader):
    """Kills what belongs to the session: tests put their children into process groups of their own."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                session = int(stat.read().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(entry), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


class Runner:
    def __init__(self, lockswap, jobs):
        self.lockswap = lockswap
        self.jobs = jobs

    def check_loaded(self, lock):
        """Without the preload library every test would pass on glibc's own locks."""
        command = [self.lockswap, "run", "--lock", lock, "--", "cat", "/proc/self/maps"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "liblockswap" not in done.stdout:
            raise SystemExit(f"suites: error: {' '.join(map(str, command))} does not show the library: {done.stderr}")

    def run(self, test, lock):
        """Runs a test on a lock; with the lock None, without lockswap."""
        command = list(map(str, test.command))
        if lock is not None:
            command = [str(self.lockswap), "run", "--lock", lock, "--", *command]
        # To a file: a process that a failed test leaves behind would keep a pipe open.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            environment = {**os.environ, "TMPDIR": temporary, "LC_ALL": "C", **test.environment}
            start = time.monotonic()
            process = subprocess.Popen(
                command, cwd=test.folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )
            try:
                status = process.wait(test.limit_s)
                end = "" if status == 0 else f"exit status {status}" if status > 0 else f"signal {-status}"
            except subprocess.TimeoutExpired:
                status, end = None, f"killed after {test.limit_s:.0f} s"
            seconds = time.monotonic() - start
            kill_session(process.pid)
            process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        verdict = {0: "passed", UNSUPPORTED: "skipped"}.get(status, "failed")
        return Result(verdict, seconds, f"{text}\n{end}".strip())

    def run_all(self, tests, locks):
        """{lock: {name: result}}; the tests are begun in the order given, each on all locks after another."""
        runs = [(test, lock) for test in tests for lock in locks]
        results = in_parallel(self.jobs, lambda run: self.run(*run), runs)
        of_locks = {lock: {} for lock in locks}
        for (test, lock), result in zip(runs, results):
            of_locks[lock][test.name] = result
        return of_locks

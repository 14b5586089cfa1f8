"""What counts as a regression, and how it is reported."""

import time
from dataclasses import dataclass
from pathlib import Path

from runner import say

RULE = (
    "a test that passes without lockswap and fails on a lock is repeated, alone, until two of at most three runs "
    "agree, and likewise without lockswap; failed twice on the lock and not so without it: a regression"
)
KNOWN = Path(__file__).parent / "known-differences"
# A majority of three runs.
ENOUGH = 2
TAIL_LINES = 15


@dataclass
class Total:
    passed: int = 0
    failed: int = 0

    def __add__(self, other):
        return Total(self.passed + other.passed, self.failed + other.failed)


@dataclass
class Count:
    """Runs of one test, the same way."""
    runs: int = 0
    failed: int = 0
    output: str = ""

    def add(self, result):
        self.runs += 1
        if result.verdict != "passed":
            self.failed += 1
            self.output = result.output
        return self

    def is_decided(self):
        return self.failed >= ENOUGH or self.runs - self.failed >= ENOUGH

    def fails(self):
        return self.failed >= ENOUGH

    def __str__(self):
        return f"{self.failed} of {self.runs}"


def repeat(count, test, lock, runner):
    while not count.is_decided():
        count.add(runner.run(test, lock))
    return count


def known_differences(suite):
    """{(test, lock or 'all'): reason} from the lines `suite test locks reason`; the locks are separated by commas."""
    known = {}
    for number, line in enumerate(KNOWN.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(None, 3)
        if len(fields) < 4:
            raise SystemExit(f"{KNOWN}:{number}: expected: suite test locks reason")
        if fields[0] == suite:
            known.update({(fields[1], lock): fields[3] for lock in fields[2].split(",")})
    return known


def print_tail(output):
    for line in output.splitlines()[-TAIL_LINES:]:
        print(f"    {line[:300]}", flush=True)


def run_plain(suite, tests, runner):
    """The tests that pass without lockswap, the longest first, and their results."""
    start = time.monotonic()
    results = runner.run_all(tests, None)
    failed = []
    for test in tests:
        if results[test.name].verdict != "failed":
            continue
        # Alone: what fails for the load of the machine still is to be tried on the locks.
        again = runner.run(test, None)
        if again.verdict == "failed":
            failed.append(test.name)
        results[test.name] = again
    passed = [test for test in tests if results[test.name].verdict == "passed"]
    skipped = [test.name for test in tests if results[test.name].verdict == "skipped"]
    say(f"{suite} plain: {len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped, "
        f"{time.monotonic() - start:.0f} s")
    for verdict, names in (("fails", failed), ("skips", skipped)):
        if names:
            say(f"{suite}: {verdict} without lockswap, so left out: {' '.join(names)}")
    return sorted(passed, key=lambda test: -results[test.name].seconds), results


def judge_lock(suite, tests, lock, plain, known, runner):
    """Runs the tests on a lock and says what differs."""
    start = time.monotonic()
    results = runner.run_all(tests, lock)
    total, expected = Total(), 0
    for test in tests:
        result = results[test.name]
        reason = known.get((test.name, lock)) or known.get((test.name, "all"))
        if reason:
            if result.verdict != "passed":
                expected += 1
            else:
                total.failed += 1
                say(f"FAIL {suite} {test.name} on {lock} passes; remove it from {KNOWN.name}")
            continue
        if result.verdict == "passed":
            total.passed += 1
            continue
        on_lock = repeat(Count().add(result), test, lock, runner)
        without = repeat(Count().add(plain[test.name]), test, None, runner)
        regression = on_lock.fails() and not without.fails()
        total += Total(failed=1) if regression else Total(passed=1)
        word = "FAIL" if regression else "flaky"
        say(f"{word} {suite} {test.name}: failed {on_lock} on {lock}, plain failed {without}; its last lines:")
        print_tail(on_lock.output)
    differences = f", {expected} known to differ" if expected else ""
    say(f"{suite} {lock}: {total.passed} passed, {total.failed} failed{differences}, {time.monotonic() - start:.0f} s")
    return total


def judge(suite, tests, locks, runner, everything):
    """Runs a suite plainly and on each lock. `everything`: the tests are all that the suite has."""
    known = known_differences(suite)
    passing, plain = run_plain(suite, tests, runner)
    total = Total()
    if not passing:
        say(f"FAIL {suite}: no test passes without lockswap")
        total.failed += 1
    if everything:
        for name in sorted({name for name, _ in known} - {test.name for test in passing}):
            say(f"FAIL {suite} {name} stands in {KNOWN.name}, but does not pass without lockswap; remove it there")
            total.failed += 1
    for lock in locks:
        runner.check_loaded(lock)
        total += judge_lock(suite, passing, lock, plain, known, runner)
    return total

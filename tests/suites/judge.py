"""What counts as a regression, and how it is reported."""

import time
from dataclasses import dataclass
from pathlib import Path

from runner import say

RULE = (
    "a test that passes without lockswap and fails on a lock is repeated, alone, in turns on the lock and without "
    "lockswap; three failures more on the lock, within six turns: a regression"
)
KNOWN = Path(__file__).parent / "known-differences"
# Tests that depend on time fail now and then by themselves: one that does in an eighth of its runs, on the lock as
# without lockswap, is taken for a regression once in fifty times, and one that always fails on the lock every time.
MOST_TURNS = 6
ENOUGH = 3
TAIL_LINES = 15


@dataclass
class Total:
    passed: int = 0
    failed: int = 0

    def __add__(self, other):
        return Total(self.passed + other.passed, self.failed + other.failed)


@dataclass
class Turns:
    """Runs of one test alone, in turns on a lock and without lockswap, so that both meet the same machine."""
    made: int = 0
    on_lock: int = 0
    without: int = 0
    output: str = ""

    def make(self, test, lock, runner):
        self.made += 1
        result = runner.run(test, lock)
        if result.verdict != "passed":
            self.on_lock += 1
            self.output = result.output
        self.without += runner.run(test, None).verdict != "passed"

    def is_regression(self):
        return self.on_lock - self.without >= ENOUGH

    def is_decided(self):
        """Also when the turns that are left cannot make it a regression."""
        return self.is_regression() or self.on_lock - self.without + MOST_TURNS - self.made < ENOUGH


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
    """The tests that pass without lockswap, the longest first."""
    start = time.monotonic()
    results = runner.run_all(tests, [None])[None]
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
    return sorted(passed, key=lambda test: -results[test.name].seconds)


def judge_lock(suite, tests, lock, results, known, runner):
    """Says what differs on a lock."""
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
        turns = Turns(output=result.output)
        while not turns.is_decided():
            turns.make(test, lock, runner)
        total += Total(failed=1) if turns.is_regression() else Total(passed=1)
        word = "FAIL" if turns.is_regression() else "flaky"
        say(f"{word} {suite} {test.name}: failed among the others on {lock}, and alone {turns.on_lock} of {turns.made} "
            f"times, without lockswap {turns.without} times; its last lines:")
        print_tail(turns.output)
    differences = f", {expected} known to differ" if expected else ""
    seconds = sum(result.seconds for result in results.values())
    say(f"{suite} {lock}: {total.passed} passed, {total.failed} failed{differences}, {seconds:.0f} s one by one")
    return total


def judge(suite, tests, locks, runner, everything):
    """Runs a suite plainly and on each lock. `everything`: the tests are all that the suite has."""
    known = known_differences(suite)
    passing = run_plain(suite, tests, runner)
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
    start = time.monotonic()
    results = runner.run_all(passing, locks)
    say(f"{suite} on {' '.join(locks)}: {time.monotonic() - start:.0f} s")
    for lock in locks:
        total += judge_lock(suite, passing, lock, results[lock], known, runner)
    return total

"""CPython's own tests of threads, queues and pools, on a CPython unpacked beside them so that the versions agree.

A test here is a class of test cases, run in a process of its own by CPython's test runner. Without its option -u, the
runner leaves out what needs a network, a display, much memory or much time.
"""

import subprocess

from packages import Missing, need_installed, unpacked
from runner import Test, in_parallel

VERSION = "3.11"
MODULES = ["test_threading", "test_thread", "test_queue", "test_concurrent_futures"]
# CPython's runner prints the stacks of all threads and gives up; the time-out of our own comes after that.
STACKS_AFTER_S = 150
LIMIT_S = 180


def program(files):
    return files / f"usr/bin/python{VERSION}"


def list_classes(files):
    def cases(module):
        command = [program(files), "-m", "test", "--list-cases", module]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            raise Missing(f"{program(files)} cannot list {module}: {listed.stderr.strip().splitlines()[-1:]}")
        return [line.split(".")[1:3] for line in listed.stdout.split()]

    found = {f"{module}.{name}" for listed in in_parallel(len(MODULES), cases, MODULES) for module, name in listed}
    (files / "classes").write_text("\n".join(sorted(found)))


def prepare(folder, _jobs):
    # Its libraries are those that the unpacked one needs.
    need_installed(f"python{VERSION}")
    packages = [f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib",
                f"libpython{VERSION}-testsuite"]
    files = unpacked(folder, packages, list_classes)
    tests = []
    for name in (files / "classes").read_text().split():
        module = name.partition(".")[0]
        command = [program(files), "-m", "test", "--verbose3", f"--timeout={STACKS_AFTER_S}",
                   "--match", f"test.{name}.*", module]
        tests.append(Test(name, command, folder, LIMIT_S))
    return tests

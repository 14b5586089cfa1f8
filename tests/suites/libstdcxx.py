"""libstdc++'s tests of threads and locks, 30_threads, compiled against the installed libstdc++.

The comments that steer a test ({ dg-do run { target c++11 } } and the like) are DejaGnu's. Of those the tests in this
folder use few: left out are tests that are only compiled, and those whose target is not met.
"""

import fnmatch
import platform
import re
import subprocess

from packages import built, need_installed, only, unpacked
from runner import Test, compile_all, say

VERSION = "12"
LIMIT_S = 120
# What g++ takes without -std, and the years of the standards that DejaGnu's targets name.
DEFAULT_STANDARD = "17"
STANDARDS = {"98": 98, "0x": 111, "11": 111, "1y": 114, "14": 114, "1z": 117, "17": 117, "2a": 120, "20": 120}

DIRECTIVE = re.compile(r"\{ dg-([a-z-]+)\s+(.*?)\s*\}\s*(?:\*/)?\s*$", re.MULTILINE)


def standard_of(options):
    found = re.search(r"-std=(?:gnu|c)\+\+(\w+)", options)
    return STANDARDS[found.group(1) if found else DEFAULT_STANDARD]


def is_met(target, standard):
    """Whether standard and machine are of the target, such as `c++14`, `c++11_only || c++14_only` or `*-*-linux*`."""
    words = target.replace("{", " ").replace("}", " ").replace("||", " ").split()
    for word in words:
        plain = re.fullmatch(r"c\+\+(\w+?)(_only)?", word)
        if plain and plain.group(1) in STANDARDS:
            asked = STANDARDS[plain.group(1)]
            if standard == asked or (standard > asked and not plain.group(2)):
                return True
        elif word in ("pthread", "gthreads") or fnmatch.fnmatch(f"{platform.machine()}-pc-linux-gnu", word):
            return True
    return False


def options_of(source):
    """The compiler's options for a test that is to be run, or None for any other."""
    directives = DIRECTIVE.findall(source)
    options = []
    for name, text in directives:
        if name in ("options", "additional-options"):
            found = re.match(r'"([^"]*)"\s*(.*)', text)
            if not found.group(2) or is_met(found.group(2).replace("target", ""), standard_of("")):
                options += found.group(1).split()
    standard = standard_of(" ".join(options))
    if "-static" in options:
        return None
    is_run = False
    for name, text in directives:
        if name == "do":
            action, _, target = text.partition(" ")
            is_run = action == "run" and (not target or is_met(target.replace("target", ""), standard))
        elif name == "require-effective-target" and not is_met(text, standard):
            return None
    return options if is_run else None


def program(build, name):
    return build / name.replace("/", ":")


def build_tests(testsuite, build, jobs):
    common = [f"g++-{VERSION}", "-O1", "-w", f"-I{testsuite / 'util'}"]
    hooks = build / "testsuite_hooks.o"
    subprocess.run([*common, "-c", testsuite / "util/testsuite_hooks.cc", "-o", hooks], check=True)
    commands = {}
    for file in sorted((testsuite / "30_threads").rglob("*.cc")):
        options = options_of(file.read_text(encoding="utf-8", errors="replace"))
        if options is not None:
            name = str(file.relative_to(testsuite / "30_threads").with_suffix(""))
            commands[name] = [*common, *options, file, hooks, "-pthread", "-o", program(build, name)]
    failed = compile_all(jobs, commands)
    (build / "not-built").write_text("".join(f"{name}:\n{text}\n" for name, text in sorted(failed.items())))
    (build / "tests").write_text("\n".join(sorted(set(commands) - set(failed))))
    say(f"libstdc++: built {len(commands) - len(failed)} of {len(commands)} tests; why not, says {build}/not-built: "
        f"{' '.join(sorted(failed))}")


def prepare(folder, jobs):
    need_installed(f"g++-{VERSION}", "xz-utils")

    def unpack(files):
        archive = only(f"usr/src/gcc-{VERSION}/gcc-*.tar.xz", files)
        subprocess.run(["tar", "-xf", archive, "-C", files, "--wildcards", "*/libstdc++-v3/testsuite/util/*",
                        "*/libstdc++-v3/testsuite/30_threads/*"], check=True)
        archive.unlink()

    files = unpacked(folder, [f"gcc-{VERSION}-source"], unpack)
    build, testsuite = files / "build", only("gcc-*/", files) / "libstdc++-v3/testsuite"
    built(build, __file__, lambda: build_tests(testsuite, build, jobs))
    return [Test(name, [program(build, name)], build, LIMIT_S) for name in (build / "tests").read_text().split()]

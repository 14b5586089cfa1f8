"""glibc's tests of its thread functions, as programs of their own against the installed glibc.

Upstream they are part of glibc's build. Here the source tree gives the test driver and its library (support/) and the
few internal headers that tests include; installed headers come first. Tests that need more of glibc's inside, or are
linked statically, do not build this way and are left out; target/suites/nptl/files/build/not-built says why.
"""

import platform
import subprocess

from packages import Missing, built, need_installed, only, unpacked
from runner import Test, compile_all, say

# The driver kills a test after 20 s, or what the test asks for, times TIMEOUTFACTOR. At most 100 s are asked for.
TIMEOUT_FACTOR = 2
LIMIT_S = 250

# What libc-symbols.h and the configured build would provide.
PRELUDE = """
#include <limits.h>
#include <stdbool.h>
#include <sys/cdefs.h>
#define libc_hidden_proto(...)
#define attribute_hidden
#define attribute_tls_model_ie
#ifndef __always_inline
# define __always_inline inline __attribute__ ((always_inline))
#endif
"""
# The robust tests include glibc's own pthreadP.h, but take nothing from it.
GENERATED = {"prelude.h": PRELUDE, "config.h": "", "abi-versions.h": "", "pthreadP.h": "#include <pthread.h>\n"}

SYSDEPS = {
    "x86_64": ["unix/sysv/linux/x86_64", "unix/sysv/linux/x86", "x86_64/nptl", "x86/nptl", "x86_64", "x86"],
    "aarch64": ["unix/sysv/linux/aarch64", "aarch64/nptl", "aarch64"],
}
COMMON_SYSDEPS = ["unix/sysv/linux", "nptl", "pthread", "unix", "posix", "wordsize-64", "generic"]

# Not part of the support library, which has a file for each function.
NOT_SUPPORT = ("tst-", "README", "links-dso-program", "test-container", "test-driver", "test-run-command",
               "shell-container", "echo-container", "true-container", "support_quote_blob_main",
               "support_test_compare_string_main")

# Places of an installation, which support_paths.c reports to tests.
PATHS = {
    "SRCDIR_PATH": "/nonexistent", "OBJDIR_PATH": "/nonexistent", "OBJDIR_ELF_LDSO_PATH": "/nonexistent",
    "INSTDIR_PATH": "/usr", "LIBDIR_PATH": "/usr/lib", "BINDIR_PATH": "/usr/bin", "SBINDIR_PATH": "/usr/sbin",
    "SLIBDIR_PATH": "/lib", "ROOTSBINDIR_PATH": "/sbin", "COMPLOCALEDIR_PATH": "/usr/lib/locale",
}

# As in the makefiles: options for the compiler by the beginning of the name, and the objects that are linked in.
OPTIONS = {
    "tst-cancelx": ["-fexceptions", "-fasynchronous-unwind-tables"],
    "tst-cleanupx": ["-fexceptions", "-fasynchronous-unwind-tables", "-fno-builtin"],
    "tst-cleanup2": ["-fno-builtin"],
    "tst-oncex": ["-fexceptions"],
    "tst-oncey": ["-fno-exceptions", "-fno-asynchronous-unwind-tables"],
    "tst-unwind-thread": ["-funwind-tables"],
}
# Files that are not tests, but linked into the ones named: with the source, or as a shared library.
LINKED = {
    "tst-cleanup4": ["tst-cleanup4aux.c"],
    "tst-cleanupx4": ["tst-cleanupx4aux.c"],
    "tst-_res1": ["tst-_res1mod1.so", "tst-_res1mod2.so"],
    "tst-fini1": ["tst-fini1mod.so"],
    "tst-compat-forwarder": ["tst-compat-forwarder-mod.so"],
}

# Upstream this one starts 300,000 threads one after the other: minutes.
SHORTENED = {"tst-pthread-timedlock-lockloop": ("#define RETEST_TIMES 100", "#define RETEST_TIMES 10")}


def is_module(name):
    return "mod" in name


def arguments(name, build):
    """As in the makefiles: arguments of tests, most of which run themselves or another test."""
    program = build / name
    return {
        "tst-cancel7": ["--command", f"exec {program}"],
        "tst-cancelx7": ["--command", f"exec {program}"],
        "tst-exec4": [program],
        "tst-oddstacklimit": ["--command", build / "tst-basic1"],
        "tst-umask1": [build / "tst-umask1.temp"],
        # Upstream a million, which takes 20 s of CPU time.
        "tst-mutex10": ["--iterations", "100000"],
    }.get(name, [])


def compiler(source, build):
    generated = build / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    for name, text in GENERATED.items():
        (generated / name).write_text(text)
    sysdeps = SYSDEPS.get(platform.machine(), []) + COMMON_SYSDEPS
    last = [".", "include", "nptl", *(f"sysdeps/{folder}" for folder in sysdeps)]
    return [
        "gcc", "-std=gnu11", "-O2", "-w", "-DMODULE_NAME=testsuite", "-DMODULE_testsuite=1", "-DMODULE_libc=2",
        f"-DTIMEOUTFACTOR={TIMEOUT_FACTOR}", *(f'-D{name}="{path}"' for name, path in PATHS.items()),
        "-include", source / "include/libc-symbols.h", "-include", "prelude.h",
        f"-I{generated}", f"-I{source / 'support'}", f"-I{source / 'sysdeps/pthread'}",
        *(option for folder in last for option in ("-idirafter", source / folder)),
    ]


def build_support(source, build, jobs):
    """The archive that each test is linked with; what does not build in it, no test that builds needs."""
    objects = build / "support"
    objects.mkdir()
    files = [file for file in (source / "support").glob("*.c") if not file.name.startswith(NOT_SUPPORT)]
    compile_all(jobs, {
        file.stem: [*compiler(source, build), "-c", file, "-o", objects / f"{file.stem}.o"] for file in files
    })
    archive = build / "libsupport.a"
    subprocess.run(["ar", "rcs", archive, *sorted(objects.glob("*.o"))], check=True)
    return archive


def shortened(file, build):
    """The file, or a copy of it that takes less time."""
    if file.stem not in SHORTENED:
        return file
    text, (before, after) = file.read_text(), SHORTENED[file.stem]
    if text.count(before) != 1:
        raise Missing(f"{file} does not have the line {before}")
    copy = build / file.name
    copy.write_text(text.replace(before, after))
    return copy


def build_tests(source, build, jobs):
    archive = build_support(source, build, jobs)
    files = [*(source / "nptl").glob("tst-*.c"), *(source / "sysdeps/pthread").glob("tst-*.c")]
    # On 64-bit machines the time64 tests are the others again.
    files = [file for file in files if not file.stem.endswith(("-static", "-time64", "aux", "-common"))]
    modules, tests = {}, {}
    for file in files:
        options = [option for start, more in OPTIONS.items() if file.stem.startswith(start) for option in more]
        command = [*compiler(source, build), *options, shortened(file, build)]
        if is_module(file.stem):
            library = build / f"{file.stem}.so"
            modules[file.stem] = [*command, "-fPIC", "-shared", f"-Wl,-soname,{library.name}", "-o", library]
        else:
            parts = [file.parent / part if part.endswith(".c") else build / part
                     for part in LINKED.get(file.stem, [])]
            tests[file.stem] = [*command, *parts, "-rdynamic", "-Wl,-z,lazy",
                                "-o", build / file.stem, archive, "-lresolv"]
    failed = compile_all(jobs, modules) | compile_all(jobs, tests)
    messages = "".join(f"{name}:\n{message}\n" for name, message in sorted(failed.items()))
    (build / "not-built").write_text(messages)
    (build / "tests").write_text("\n".join(sorted(set(tests) - set(failed))))
    say(f"nptl: built {len(set(tests) - set(failed))} of {len(tests)} tests; why not, says {build}/not-built: "
        f"{' '.join(sorted(set(tests) & set(failed)))}")


def prepare(folder, jobs):
    need_installed("gcc", "libc6-dev", "xz-utils")

    def unpack(files):
        archive = only("usr/src/glibc/glibc-*.tar.xz", files)
        subprocess.run(["tar", "-xf", archive, "-C", files], check=True)

    files = unpacked(folder, ["glibc-source"], unpack)
    build, source = files / "build", only("glibc-*/", files)
    built(build, __file__, lambda: build_tests(source, build, jobs))
    environment = {"LD_LIBRARY_PATH": str(build)}
    return [
        Test(name, [build / name, *arguments(name, build)], source / "nptl", LIMIT_S, environment)
        for name in (build / "tests").read_text().split()
    ]

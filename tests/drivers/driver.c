/* The C driver: calls every pthread lock function that lockswap replaces and checks that it behaves like glibc's.
 *
 *   driver all            every sub-test, each in a process of its own
 *   driver NAME...        these, each in a process of its own
 *   driver --here NAME    one, in this process (for a debugger)
 *   driver --list         the names
 *
 * Prints "ok NAME" or "FAIL NAME: ..." lines; the exit status is 1 when one failed. */
#include "driver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

int pshared_stranger(const char *fd);

static const struct subtest *const tables[] = {
    mutex_tests, mutex_time_tests, mutex_memory_tests, cond_tests,    cond_time_tests, rwlock_tests,   spin_tests,
    c11_tests,   fork_tests,       cancel_tests,       lifecycle_tests, pshared_tests,   special_tests, realtime_tests,
    stress_tests, first_use_tests,  epoch_tests,       signal_tests,  limit_tests,
};

static const char *current = "driver";
static unsigned limit_s = 20;

static void put_line(const char *word, const char *format, va_list values) {
    char line[1024];
    int used = snprintf(line, sizeof line, "%s %s: ", word, current);
    vsnprintf(line + used, sizeof line - used - 1, format, values);
    strcat(line, "\n");
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        _exit(2);
}

void fail_at(const char *file, int line, const char *format, ...) {
    char text[800];
    va_list values;
    va_start(values, format);
    int used = snprintf(text, sizeof text, "%s:%d: ", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line);
    vsnprintf(text + used, sizeof text - used, format, values);
    va_end(values);
    printf("FAIL %s: %s\n", current, text);
    fflush(stdout);
    _exit(1);
}

void note(const char *format, ...) {
    va_list values;
    va_start(values, format);
    put_line("note", format, values);
    va_end(values);
}

void skip(const char *why) {
    printf("skip %s: %s\n", current, why);
    fflush(stdout);
    _exit(0);
}

void check_rc(const char *file, int line, const char *call, int got, int want) {
    if (got == want)
        return;
    const char *got_name = strerrorname_np(got), *want_name = strerrorname_np(want);
    fail_at(file, line, "%s gave %d (%s), expected %d (%s)", call, got, got_name ? got_name : "?", want,
            want_name ? want_name : "?");
}

static void on_alarm(int number) {
    (void)number;
    static const char text[] = ": TIMEOUT, the sub-test hangs\n";
    if (write(STDOUT_FILENO, "FAIL ", 5) < 0 || write(STDOUT_FILENO, current, strlen(current)) < 0 ||
        write(STDOUT_FILENO, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

static void watchdog(unsigned seconds) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

pid_t fork_child(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        watchdog(limit_s);
    return pid;
}

void wait_child(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    if (WIFSIGNALED(status))
        fail_at(__FILE__, __LINE__, "child process died of signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        fail_at(__FILE__, __LINE__, "child process ended with status %d", WEXITSTATUS(status));
}

static const struct subtest *find(const char *name) {
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct subtest *s = tables[t]; s->name; s++)
            if (strcmp(s->name, name) == 0)
                return s;
    return NULL;
}

static int run_here(const char *name) {
    const struct subtest *test = find(name);
    if (!test) {
        fprintf(stderr, "driver: no sub-test '%s'; --list names them\n", name);
        return 2;
    }
    current = test->name;
    watchdog(limit_s);
    test->run();
    printf("ok %s\n", name);
    return 0;
}

/* Waits for the child, at most a little longer than its own watchdog allows. */
static int wait_bounded(pid_t pid) {
    long long give_up = now_on(CLOCK_MONOTONIC) + (limit_s + 5) * SECOND;
    int status;
    for (long pause_us = 200;; pause_us = pause_us < 5000 ? pause_us * 2 : 5000) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        if (now_on(CLOCK_MONOTONIC) > give_up)
            break;
        usleep(pause_us);
    }
    printf("FAIL %s: TIMEOUT, not even its alarm came through\n", current);
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

static bool run_apart(const char *name) {
    long long start = now_on(CLOCK_MONOTONIC);
    current = name;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        execl("/proc/self/exe", "driver", "--here", name, (char *)NULL);
        _exit(127);
    }
    setpgid(pid, pid);
    int status = wait_bounded(pid);
    kill(-pid, SIGKILL); /* whatever a failed sub-test left behind */
    if (WIFSIGNALED(status))
        printf("FAIL %s: died of signal %d (%s)\n", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) > 1)
        printf("FAIL %s: ended with status %d\n", name, WEXITSTATUS(status));
    if (getenv("DRIVER_TIMES"))
        printf("time %s: %lld ms\n", name, (now_on(CLOCK_MONOTONIC) - start) / MS);
    return status == 0;
}

static int run_all(void) {
    int failures = 0;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct subtest *s = tables[t]; s->name; s++)
            failures += !run_apart(s->name);
    return failures;
}

static void list(void) {
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct subtest *s = tables[t]; s->name; s++)
            puts(s->name);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("DRIVER_TIMEOUT"))
        limit_s = atoi(getenv("DRIVER_TIMEOUT"));
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list(), 0;
    if (argc == 3 && strcmp(argv[1], "--here") == 0)
        return run_here(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--stranger") == 0)
        return pshared_stranger(argv[2]);
    if (argc < 2) {
        fprintf(stderr, "usage: driver all | NAME... | --here NAME | --list\n");
        return 2;
    }
    int failures = 0;
    for (int i = 1; i < argc; i++)
        failures += strcmp(argv[i], "all") == 0 ? run_all() : !run_apart(argv[i]);
    printf("%d failed\n", failures);
    return failures != 0;
}

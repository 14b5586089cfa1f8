/* Contends for locks of every kind under a system call filter that allows what glibc's own locks, and the end of
   a thread, need. Any other call ends the process with a line that names it. How the filter is installed: by
   "prctl" in each thread, by one "syscall" for all, or "not" at all. The second argument is the number of rounds,
   a multiple of four. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, MUTEXES = 2, HELD_NS = 50000 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter program[] = {
    LOAD(nr),
    ALLOW(futex),
    ALLOW(clock_gettime),
    ALLOW(read),
    ALLOW(write),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(rt_sigreturn),
    ALLOW(rt_sigprocmask),
    ALLOW(munmap),
    ALLOW(madvise),
    ALLOW(mprotect),
    ALLOW(rseq),
    ALLOW(set_robust_list),
    /* The other threads install their filters, too. */
    ALLOW(prctl),
    /* Memory, but no files. */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
    LOAD(args[3]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
};
static struct sock_fprog filter = {sizeof program / sizeof *program, program};

static pthread_mutex_t mutexes[MUTEXES], tried = PTHREAD_MUTEX_INITIALIZER, timed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t ready;
static long counts[MUTEXES], tries, timeds, writes, spins;
static int turn, rounds;
static const char *how;

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(2);
}

static void refused(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    char text[64];
    snprintf(text, sizeof text, "system call %d is not allowed\n", info->si_syscall);
    say(text);
    _exit(1);
}

static struct timespec now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

static void hold(void) {
    struct timespec begin = now(), time;
    do
        time = now();
    while ((time.tv_sec - begin.tv_sec) * 1000000000L + time.tv_nsec - begin.tv_nsec < HELD_NS);
}

static void check(int error) {
    if (error) {
        say(strerrorname_np(error));
        _exit(3);
    }
}

static void install(void) {
    int failed = 0;
    if (!strcmp(how, "prctl"))
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    else if (!strcmp(how, "syscall"))
        failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0;
    check(failed ? errno : 0);
}

static void one_round(int own, int round) {
    int which = (own + round) % MUTEXES;
    check(pthread_mutex_lock(&mutexes[which]));
    counts[which]++;
    hold();
    check(pthread_mutex_unlock(&mutexes[which]));

    while (pthread_mutex_trylock(&tried))
        ;
    tries++;
    check(pthread_mutex_unlock(&tried));

    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 30;
    check(pthread_mutex_timedlock(&timed, &soon));
    timeds++;
    if (round % 4 == 0)
        hold();
    check(pthread_mutex_unlock(&timed));

    check(round % 4 ? pthread_rwlock_rdlock(&rwlock) : pthread_rwlock_wrlock(&rwlock));
    writes += round % 4 == 0;
    if (round % 4 < 2)
        hold();
    check(pthread_rwlock_unlock(&rwlock));

    check(pthread_spin_lock(&spin));
    spins++;
    check(pthread_spin_unlock(&spin));

    /* In turns, so that everybody waits. */
    check(pthread_mutex_lock(&mutexes[0]));
    while (turn % THREADS != own) {
        soon.tv_nsec = 0;
        check(round % 2 ? pthread_cond_wait(&cond, &mutexes[0]) : pthread_cond_timedwait(&cond, &mutexes[0], &soon));
    }
    turn++;
    check(pthread_cond_broadcast(&cond));
    check(pthread_mutex_unlock(&mutexes[0]));
}

static void *run(void *argument) {
    pthread_barrier_wait(&ready);
    if (!strcmp(how, "prctl"))
        install();
    for (int round = 0; round < rounds; round++)
        one_round((int)(long)argument, round);
    return NULL;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    pthread_t threads[THREADS];
    if (argc != 3)
        return 2;
    how = argv[1];
    rounds = atoi(argv[2]);
    sigaction(SIGSYS, &action, NULL);
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_init(&mutexes[i], NULL);
    for (long i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, run, (void *)i));
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0);
    install();
    pthread_barrier_wait(&ready);
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(threads[i], NULL));
    if (counts[0] + counts[1] != THREADS * rounds || tries != THREADS * rounds || timeds != THREADS * rounds ||
        spins != THREADS * rounds || writes != THREADS * rounds / 4 || turn != THREADS * rounds) {
        say("wrong counts\n");
        _exit(4);
    }
    if (write(STDOUT_FILENO, "ok\n", 3) != 3)
        _exit(2);
    _exit(0);
}

/* Which instructions a lock, a trylock and an unlock of a free mutex execute: prints for each function whether all of
   them belong to the function that its symbol names, or whether that one passes the call on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 10000 };
static unsigned long long executed[MOST];
static volatile int count;

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    if (count < MOST)
        executed[count++] = (unsigned long long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* The trap flag makes the processor stop after each instruction. */
static void trap(int on) {
    if (on)
        __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "cc", "memory");
    else
        __asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "cc", "memory");
}

static void *idle(void *unused) {
    pause();
    return unused;
}

static void say(const char *name, int (*function)(pthread_mutex_t *), pthread_mutex_t *mutex) {
    Dl_info own, found, program;
    ElfW(Sym) *symbol;
    if (!dladdr1((void *)function, &own, (void **)&symbol, RTLD_DL_SYMENT) || !dladdr((void *)on_trap, &program))
        exit(2);
    count = 0;
    trap(1);
    int result = function(mutex);
    trap(0);
    if (result != 0 || count == 0 || count == MOST)
        exit(3);
    int elsewhere = 0, here = 0;
    unsigned long long start = (unsigned long long)own.dli_saddr;
    for (int i = 0; i < count; i++) {
        if (executed[i] >= start && executed[i] < start + symbol->st_size)
            here++;
        else if (!dladdr((void *)executed[i], &found) || found.dli_fbase != program.dli_fbase)
            elsewhere++;
    }
    printf("%s: %s\n", name, here && !elsewhere ? "direct" : "passed on");
}

static void say_all(const char *when) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    printf("%s\n", when);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    say("lock", pthread_mutex_lock, &mutex);
    say("unlock", pthread_mutex_unlock, &mutex);
    say("trylock", pthread_mutex_trylock, &mutex);
    say("unlock", pthread_mutex_unlock, &mutex);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    say_all("one thread");
    pthread_t thread;
    if (pthread_create(&thread, NULL, idle, NULL) != 0)
        return 4;
    say_all("two threads");
    return 0;
}

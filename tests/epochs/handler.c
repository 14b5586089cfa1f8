/* The first epoch of a program is one in a signal handler, which may have interrupted malloc. */
#include "../../include/lockswap.h"

#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t in_handler, allocations;

/* glibc's own functions, behind those of the program. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size) {
    allocations += in_handler;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations += in_handler;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    allocations += in_handler;
    return __libc_realloc(block, size);
}

static void handler(int number) {
    (void)number;
    in_handler = 1;
    lockswap_epoch_percentile(5, 95);
    lockswap_epoch_start(5);
    lockswap_epoch_end(5, 1000000000);
    in_handler = 0;
}

int main(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("allocations=%d\n", (int)allocations);
    return 0;
}

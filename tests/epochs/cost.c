/* What the marks cost: ns per epoch, marked and not; the least of several rounds. */
#include "../../include/lockswap.h"

#include <stdio.h>
#include <time.h>

#define RUNS 2000000

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void) {
    double marked = 1e9, plain = 1e9;
    int round, i;
    for (round = 0; round < 15; round++) {
        double begin = now_ns(), took;
        for (i = 0; i < RUNS; i++) {
            lockswap_epoch_start(5);
            __asm__ volatile("" ::: "memory");
            lockswap_epoch_end(5, 50000);
        }
        took = (now_ns() - begin) / RUNS;
        marked = took < marked ? took : marked;
        begin = now_ns();
        for (i = 0; i < RUNS; i++) {
            __asm__ volatile("" ::: "memory");
        }
        took = (now_ns() - begin) / RUNS;
        plain = took < plain ? took : plain;
    }
    printf("ns_per_epoch=%.2f loop=%.2f\n", marked - plain, plain);
    return 0;
}

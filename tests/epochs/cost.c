/* What the marks cost: ns per epoch, and per read of the system's clock; the least of several rounds. */
#include "../../include/lockswap.h"

#include <stdio.h>
#include <time.h>

/* Short rounds, so that some of them are not interrupted on a busy machine. */
#define RUNS 10000
#define ROUNDS 1000

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void) {
    double marked = 1e9, plain = 1e9, clock = 1e9;
    int round, i;
    for (round = 0; round < ROUNDS; round++) {
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
        begin = now_ns();
        for (i = 0; i < RUNS / 10; i++) {
            now_ns();
        }
        took = (now_ns() - begin) / (RUNS / 10);
        clock = took < clock ? took : clock;
    }
    printf("ns_per_epoch=%.2f ns_per_clock_gettime=%.2f\n", marked - plain, clock);
    return 0;
}

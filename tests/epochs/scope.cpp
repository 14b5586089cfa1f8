// Scopes: 1000 runs of epoch 5 and as many inside it of epoch 6, some of them left by an exception.
#include "../../include/lockswap.hpp"

#include <cstdio>
#include <stdexcept>

static int inner(int run) {
    lockswap::epoch scope(6, std::chrono::milliseconds(3));
    if (run % 3 == 0) throw std::runtime_error("left");
    return run;
}

int main() {
    lockswap::set_percentile(6, 90);
    int left = 0;
    for (int run = 0; run < 1000; run++) {
        lockswap::epoch scope(5, std::chrono::nanoseconds(-1));
        try {
            inner(run);
        } catch (const std::exception &) {
            left++;
        }
    }
    std::printf("preloaded=%d left=%d\n", lockswap::is_preloaded() ? 1 : 0, left);
    return 0;
}

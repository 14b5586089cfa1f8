// lockswap.hpp - epochs as scopes, for C++11 and later; see lockswap.h.
//
//     void handle_request() {
//         lockswap::epoch scope(5, std::chrono::microseconds(50));
//         ... locks are taken and released here; the epoch ends with the scope, also by an exception ...
//     }
#ifndef LOCKSWAP_HPP
#define LOCKSWAP_HPP

#include <chrono>

#include "lockswap.h"

namespace lockswap {

// An epoch of the calling thread, from construction to destruction.
class epoch {
public:
    // `id` is a number of your choice for this sort of epoch, `slo` what it should take at most at the 99th percentile.
    template <class Rep, class Period>
    epoch(int id, std::chrono::duration<Rep, Period> slo)
        : id_(id), slo_ns_(to_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(slo).count())) {
        lockswap_epoch_start(id_);
    }
    ~epoch() { lockswap_epoch_end(id_, slo_ns_); }

    epoch(const epoch &) = delete;
    epoch &operator=(const epoch &) = delete;

private:
    static std::uint64_t to_ns(std::chrono::nanoseconds::rep ns) {
        return ns < 0 ? 0 : static_cast<std::uint64_t>(ns);
    }

    int id_;
    std::uint64_t slo_ns_;
};

// Sets the percentile that the targets of the epochs `id` are meant for, in all threads: 50 to 99.9999, 99 by default.
inline void set_percentile(int id, double percentile) { lockswap_epoch_percentile(id, percentile); }

// Whether the preload library is there, so that epochs mean something.
inline bool is_preloaded() { return lockswap_is_preloaded() != 0; }

}  // namespace lockswap

#endif

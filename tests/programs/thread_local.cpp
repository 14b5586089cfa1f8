// Objects of threads, some of them detached, whose destructors lock when the function of the thread has ended.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutexes[5];
static std::mutex done_mutex;
static std::condition_variable done;
static int destroyed, ended;

struct Last {
    bool detached = false;
    ~Last() {
        {
            std::scoped_lock all(mutexes[0], mutexes[1], mutexes[2], mutexes[3], mutexes[4]);
            destroyed++;
        }
        std::lock_guard guard(done_mutex);
        ended++;
        done.notify_all();
    }
};

static thread_local Last last;

static void run(bool detached) {
    last.detached = detached;
    std::lock_guard guard(mutexes[0]);
}

int main() {
    for (int round = 0; round < 500; round++) {
        std::vector<std::thread> joined;
        for (int i = 0; i < 3; i++)
            joined.emplace_back(run, false);
        std::thread(run, true).detach();
        for (auto &thread : joined)
            thread.join();
        std::unique_lock lock(done_mutex);
        done.wait(lock, [&] { return ended == 4 * (round + 1); });
    }
    std::printf("%d\n", destroyed);
}

// Mutexes of C++: a std::mutex has no initialiser, and is told apart by where it lies or where it is first locked.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace app {
std::mutex registry;
static std::recursive_mutex nested;

class Cache {
  public:
    __attribute__((noinline)) void open() { std::lock_guard<std::mutex> held(mutex); entries++; }
    __attribute__((noinline)) int get() { std::lock_guard<std::mutex> held(mutex); return entries++; }
    std::mutex mutex;

  private:
    int entries = 0;
};
} // namespace app

static int number(void *mutex) { return static_cast<unsigned char *>(mutex)[20]; }

int main() {
    std::vector<app::Cache> caches(3);
    caches[0].open();
    caches[1].get();
    long sum = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            for (int j = 0; j < 2000; j++) {
                std::lock_guard<std::mutex> held(app::registry);
                std::lock_guard<std::recursive_mutex> outer(app::nested), inner(app::nested);
                sum++;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    std::printf("registry %d\nnested %d\nopened %d\ngot %d\nsum %ld\n", number(&app::registry), number(&app::nested),
                number(&caches[0].mutex), number(&caches[1].mutex), sum);
}

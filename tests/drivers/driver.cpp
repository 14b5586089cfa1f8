// The C++ driver: the standard library's locks, condition variables and unwinding on whatever pthread gives it.
//
//   driver-cpp all | NAME... | --here NAME | --list        like the C driver
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <pthread.h>
#include <queue>
#include <shared_mutex>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

const char *current = "driver-cpp";
unsigned limit_s = 20;

[[noreturn]] void fail_at(int line, const char *what) {
    std::printf("FAIL %s: driver.cpp:%d: %s\n", current, line, what);
    std::fflush(stdout);
    _exit(1);
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_at(__LINE__, #condition);                                                                             \
    } while (0)

void run_threads(int count, const std::function<void(int)> &body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(body, i);
    for (auto &thread : threads)
        thread.join();
}

template <class Result> Result elsewhere(const std::function<Result()> &body) {
    Result result{};
    std::thread([&] { result = body(); }).join();
    return result;
}

template <class Lock> bool free_elsewhere(Lock &lock) {
    return elsewhere<bool>([&] {
        bool got = lock.try_lock();
        if (got)
            lock.unlock();
        return got;
    });
}

template <class Lock> void exclusion() {
    Lock lock;
    long counter = 0;
    run_threads(4, [&](int) {
        for (int i = 0; i < 10000; i++) {
            std::lock_guard<Lock> guard(lock);
            long seen = counter;
            std::atomic_signal_fence(std::memory_order_seq_cst);
            counter = seen + 1;
        }
    });
    CHECK(counter == 40000);
    lock.lock();
    CHECK(!free_elsewhere(lock));
    lock.unlock();
    CHECK(free_elsewhere(lock));
}

template <class Lock> void times_out() {
    Lock lock;
    lock.lock();
    bool timely = elsewhere<bool>([&] {
        auto start = clock_type::now();
        bool got = lock.try_lock_for(20ms);
        bool late_enough = clock_type::now() - start >= 20ms;
        auto until = std::chrono::system_clock::now() + 20ms;
        got |= lock.try_lock_until(until);
        late_enough &= std::chrono::system_clock::now() >= until;
        got |= lock.try_lock_for(-5s);
        return !got && late_enough;
    });
    CHECK(timely);
    std::thread taker([&] {
        CHECK(lock.try_lock_for(9s));
        lock.unlock();
    });
    std::this_thread::sleep_for(5ms);
    lock.unlock();
    taker.join();
}

void mutexes() {
    exclusion<std::mutex>();
    exclusion<std::timed_mutex>();
    exclusion<std::recursive_mutex>();
    exclusion<std::recursive_timed_mutex>();
    exclusion<std::shared_mutex>();
    exclusion<std::shared_timed_mutex>();
}

void timed_mutexes() {
    times_out<std::timed_mutex>();
    times_out<std::recursive_timed_mutex>();
    times_out<std::shared_timed_mutex>();
}

template <class Lock> void recursion() {
    Lock lock;
    for (int i = 0; i < 1000; i++) {
        if (i % 2)
            lock.lock();
        else
            CHECK(lock.try_lock());
    }
    for (int i = 0; i < 1000; i++) {
        CHECK(i % 100 || !free_elsewhere(lock));
        lock.unlock();
    }
    CHECK(free_elsewhere(lock));
}

void recursive_mutexes() {
    recursion<std::recursive_mutex>();
    recursion<std::recursive_timed_mutex>();
}

template <class Lock> void sharing() {
    Lock lock;
    std::atomic<int> inside{0};
    run_threads(3, [&](int) {
        std::shared_lock<Lock> guard(lock);
        inside++;
        while (inside < 3) // only when all three are inside at once
            std::this_thread::yield();
    });
    long a = 0, b = 0;
    run_threads(4, [&](int id) {
        for (int i = 0; i < 5000; i++) {
            if (i % 8 == id) {
                std::unique_lock<Lock> guard(lock);
                a++;
                b++;
            } else {
                std::shared_lock<Lock> guard(lock);
                CHECK(a == b);
            }
        }
    });
    CHECK(a == 4 * 625);
    lock.lock_shared();
    CHECK(!free_elsewhere(lock));
    CHECK(elsewhere<bool>([&] {
        bool got = lock.try_lock_shared();
        if (got)
            lock.unlock_shared();
        return got;
    }));
    lock.unlock_shared();
}

void shared_mutexes() {
    sharing<std::shared_mutex>();
    sharing<std::shared_timed_mutex>();
    std::shared_timed_mutex lock;
    lock.lock();
    CHECK(elsewhere<bool>([&] { return !lock.try_lock_shared_for(10ms) && !lock.try_lock_for(10ms); }));
    // libstdc++ turns EDEADLK of a timed relock into false and of rdlock into an exception or an abort.
    lock.unlock();
}

template <class Condition, class Lock> void queue_between() {
    Lock lock;
    Condition filled, emptied;
    std::queue<int> items;
    long sum = 0;
    auto produce = [&] {
        for (int i = 1; i <= 4000; i++) {
            std::unique_lock<Lock> guard(lock);
            emptied.wait(guard, [&] { return items.size() < 4; });
            items.push(i);
            filled.notify_one();
        }
    };
    auto consume = [&] {
        for (int i = 1; i <= 4000; i++) {
            std::unique_lock<Lock> guard(lock);
            if (i % 2)
                filled.wait(guard, [&] { return !items.empty(); });
            else
                CHECK(filled.wait_for(guard, 9s, [&] { return !items.empty(); }));
            sum += items.front();
            items.pop();
            emptied.notify_one();
        }
    };
    run_threads(4, [&](int id) { id % 2 ? produce() : consume(); });
    CHECK(sum == 2L * 4000 * 4001 / 2);
}

void condition_variables() {
    queue_between<std::condition_variable, std::mutex>();
    queue_between<std::condition_variable_any, std::mutex>();
    queue_between<std::condition_variable_any, std::recursive_mutex>();
    queue_between<std::condition_variable_any, std::shared_mutex>();
    queue_between<std::condition_variable_any, std::timed_mutex>();
}

void condition_times() {
    std::mutex mutex;
    std::condition_variable condition;
    std::condition_variable_any any;
    std::unique_lock<std::mutex> guard(mutex);
    auto start = clock_type::now();
    CHECK(condition.wait_for(guard, 20ms) == std::cv_status::timeout);
    CHECK(clock_type::now() - start >= 20ms);
    auto until = std::chrono::system_clock::now() + 20ms;
    CHECK(condition.wait_until(guard, until) == std::cv_status::timeout);
    CHECK(std::chrono::system_clock::now() >= until);
    CHECK(any.wait_for(guard, 5ms) == std::cv_status::timeout);
    CHECK(condition.wait_until(guard, std::chrono::system_clock::time_point(-5s)) == std::cv_status::timeout);
    CHECK(guard.owns_lock() && !free_elsewhere(mutex));
}

// notify_all_at_thread_exit runs from glibc's thread exit, after the thread_local destructors.
void at_thread_exit() {
    for (int round = 0; round < 200; round++) {
        std::mutex mutex;
        std::condition_variable condition;
        bool ready = false;
        std::thread worker([&] {
            std::unique_lock<std::mutex> guard(mutex);
            ready = true;
            std::notify_all_at_thread_exit(condition, std::move(guard));
        });
        std::unique_lock<std::mutex> guard(mutex);
        condition.wait(guard, [&] { return ready; });
        guard.unlock();
        worker.join();
    }
}

void call_once() {
    for (int round = 0; round < 100; round++) {
        std::once_flag once;
        std::mutex mutex;
        int calls = 0, attempts = 0;
        run_threads(4, [&](int) {
            try {
                std::call_once(once, [&] {
                    std::lock_guard<std::mutex> guard(mutex);
                    calls++;
                });
            } catch (...) {
                attempts++;
            }
        });
        CHECK(calls == 1 && attempts == 0);
    }
}

void scoped_locks() {
    std::mutex a;
    std::recursive_mutex b;
    std::timed_mutex c;
    long counter = 0;
    run_threads(4, [&](int id) {
        for (int i = 0; i < 3000; i++) {
            if ((i + id) % 2) {
                std::scoped_lock guard(a, b, c);
                counter++;
            } else {
                std::scoped_lock guard(c, a, b); // another order: std::lock backs off through try_lock
                counter++;
            }
        }
    });
    CHECK(counter == 12000);
}

struct cancel_stage {
    std::mutex mutex, outer;
    std::condition_variable condition;
    std::atomic<int> waiting{0}, destroyed{0}, caught{0};
    int form = 0;
};

struct counts_destruction {
    cancel_stage &stage;
    ~counts_destruction() {
        CHECK(!free_elsewhere(stage.outer)); // destroyed before the guards that were made before it
        stage.destroyed++;
    }
};

// The timed forms are noexcept in libstdc++, where forced unwinding would end the program: those through the handle.
void wait_somehow(cancel_stage &stage, std::unique_lock<std::mutex> &guard) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_cond_t *condition = stage.condition.native_handle();
    pthread_mutex_t *mutex = stage.mutex.native_handle();
    switch (stage.form % 4) {
    case 0:
        stage.condition.wait(guard);
        break;
    case 1:
        pthread_cond_wait(condition, mutex);
        break;
    case 2:
        pthread_cond_timedwait(condition, mutex, &until);
        break;
    case 3:
        pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &until);
        break;
    }
}

void *unwind_me(void *argument) {
    auto &stage = *static_cast<cancel_stage *>(argument);
    std::lock_guard<std::mutex> outer(stage.outer);
    std::unique_lock<std::mutex> inner(stage.mutex);
    counts_destruction counted{stage};
    try {
        stage.waiting = 1;
        for (;;)
            wait_somehow(stage, inner);
    } catch (abi::__forced_unwind &) {
        stage.caught++;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        CHECK(!free_elsewhere(stage.mutex));
        throw;
    } catch (...) {
        CHECK(false);
    }
    return nullptr;
}

void forced_unwinding() {
    for (int round = 0; round < 30; round++) {
        cancel_stage stage;
        stage.form = round;
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, unwind_me, &stage) == 0);
        while (stage.waiting == 0)
            std::this_thread::sleep_for(200us);
        std::this_thread::sleep_for(2ms);
        CHECK(pthread_cancel(thread) == 0);
        void *result;
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(stage.destroyed == 1 && stage.caught == 1);
        CHECK(free_elsewhere(stage.mutex) && free_elsewhere(stage.outer));
        stage.condition.notify_all();
    }
}

// catch (...) that rethrows is how most code meets a cancellation without knowing it.
void *rethrow_me(void *argument) {
    auto &stage = *static_cast<cancel_stage *>(argument);
    std::unique_lock<std::mutex> guard(stage.mutex);
    try {
        stage.waiting = 1;
        for (;;)
            wait_somehow(stage, guard);
    } catch (...) {
        stage.caught++;
        throw;
    }
}

void rethrown_unwinding() {
    for (int round = 0; round < 30; round++) {
        cancel_stage stage;
        stage.form = round;
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, rethrow_me, &stage) == 0);
        while (stage.waiting == 0)
            std::this_thread::sleep_for(200us);
        if (round % 2)
            std::this_thread::sleep_for(2ms);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, nullptr) == 0);
        CHECK(stage.caught == 1 && free_elsewhere(stage.mutex));
    }
}

// pthread_exit unwinds too, with guards on its way.
void *leave_with_guards(void *argument) {
    std::lock_guard<std::mutex> guard(*static_cast<std::mutex *>(argument));
    pthread_exit(nullptr);
}

void exit_unwinds() {
    std::mutex mutex;
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, leave_with_guards, &mutex) == 0);
        CHECK(pthread_join(thread, nullptr) == 0);
        CHECK(mutex.try_lock());
        mutex.unlock();
    }
}

void exceptions_unlock() {
    std::mutex mutex;
    run_threads(3, [&](int) {
        for (int i = 0; i < 500; i++) {
            try {
                std::lock_guard<std::mutex> guard(mutex);
                throw std::runtime_error("on purpose");
            } catch (const std::runtime_error &) {
            }
        }
    });
    CHECK(mutex.try_lock());
    mutex.unlock();
}

void futures() {
    for (int round = 0; round < 20; round++) {
        std::vector<std::future<long>> parts;
        for (int i = 0; i < 8; i++)
            parts.push_back(std::async(std::launch::async, [i] {
                std::vector<long> values(1000);
                std::iota(values.begin(), values.end(), i * 1000);
                return std::accumulate(values.begin(), values.end(), 0L);
            }));
        long sum = 0;
        for (auto &part : parts)
            sum += part.get();
        CHECK(sum == 7999L * 8000 / 2);
        std::promise<int> promise;
        auto later = promise.get_future();
        CHECK(later.wait_for(1ms) == std::future_status::timeout);
        std::thread([&] { promise.set_value(5); }).join();
        CHECK(later.get() == 5);
    }
}

std::mutex local_mutex;
std::recursive_mutex local_recursive;
int local_destroyed;

struct locks_at_end {
    std::unique_ptr<std::mutex> own = std::make_unique<std::mutex>();
    ~locks_at_end() {
        std::scoped_lock guard(local_mutex, local_recursive, *own);
        std::lock_guard<std::recursive_mutex> again(local_recursive);
        local_destroyed++;
    }
};

thread_local locks_at_end local_value;

void thread_local_destructors() {
    for (int round = 0; round < 200; round++)
        run_threads(3, [](int) { std::lock_guard<std::mutex> guard(*local_value.own); });
    CHECK(local_destroyed == 600);
}

// A static with a destructor that locks, while other threads still hold and wait: what exit() meets in real programs.
struct locks_at_exit {
    std::mutex mutex;
    bool used = false;
    ~locks_at_exit() {
        if (used) {
            std::lock_guard<std::mutex> guard(mutex);
            used = false;
        }
    }
};
locks_at_exit exit_value;

void static_destructors() {
    for (int round = 0; round < 10; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(limit_s);
            exit_value.used = true;
            auto *busy = new std::mutex;
            std::atomic<bool> held{false};
            std::thread([&] {
                busy->lock();
                held = true;
                pause();
            }).detach();
            while (!held)
                std::this_thread::yield();
            std::thread([busy] { busy->lock(); }).detach();
            std::this_thread::sleep_for(2ms);
            std::exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

struct guarded_map {
    mutable std::shared_mutex mutex;
    std::map<int, std::shared_ptr<std::string>> values;
};

// Reference counts and locks together: objects with mutexes die in whichever thread drops them last.
void shared_objects() {
    guarded_map map;
    run_threads(4, [&](int id) {
        for (int i = 0; i < 3000; i++) {
            int key = (i * 7 + id) % 50;
            if (i % 5 == 0) {
                std::unique_lock guard(map.mutex);
                map.values[key] = std::make_shared<std::string>(std::to_string(key));
            } else {
                std::shared_lock guard(map.mutex);
                auto found = map.values.find(key);
                CHECK(found == map.values.end() || *found->second == std::to_string(key));
            }
        }
    });
    struct node {
        std::mutex mutex;
        int uses = 0;
    };
    for (int round = 0; round < 300; round++) {
        auto shared = std::make_shared<node>();
        std::thread other([copy = shared]() mutable {
            {
                std::lock_guard<std::mutex> guard(copy->mutex);
                copy->uses++;
            }
            copy.reset();
        });
        {
            std::lock_guard<std::mutex> guard(shared->mutex);
            shared->uses++;
        }
        shared.reset();
        other.join();
    }
}

struct subtest {
    const char *name;
    void (*run)();
};

const subtest tests[] = {
    {"cpp_mutexes", mutexes},
    {"cpp_timed_mutexes", timed_mutexes},
    {"cpp_recursive_mutexes", recursive_mutexes},
    {"cpp_shared_mutexes", shared_mutexes},
    {"cpp_condition_variables", condition_variables},
    {"cpp_condition_times", condition_times},
    {"cpp_at_thread_exit", at_thread_exit},
    {"cpp_call_once", call_once},
    {"cpp_scoped_locks", scoped_locks},
    {"cpp_forced_unwinding", forced_unwinding},
    {"cpp_rethrown_unwinding", rethrown_unwinding},
    {"cpp_exit_unwinds", exit_unwinds},
    {"cpp_exceptions_unlock", exceptions_unlock},
    {"cpp_futures", futures},
    {"cpp_thread_local_destructors", thread_local_destructors},
    {"cpp_static_destructors", static_destructors},
    {"cpp_shared_objects", shared_objects},
};

void on_alarm(int) {
    const char text[] = ": TIMEOUT, the sub-test hangs\n";
    if (write(1, "FAIL ", 5) < 0 || write(1, current, strlen(current)) < 0 || write(1, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

int run_here(const std::string &name) {
    for (const auto &test : tests) {
        if (name != test.name)
            continue;
        current = test.name;
        signal(SIGALRM, on_alarm);
        alarm(limit_s);
        test.run();
        std::printf("ok %s\n", test.name);
        return 0;
    }
    std::fprintf(stderr, "driver-cpp: no sub-test '%s'; --list names them\n", name.c_str());
    return 2;
}

int wait_bounded(pid_t pid) {
    auto give_up = clock_type::now() + std::chrono::seconds(limit_s + 5);
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (clock_type::now() > give_up)
            kill(-pid, SIGKILL);
        std::this_thread::sleep_for(1ms);
    }
    return status;
}

bool run_apart(const char *name) {
    std::fflush(stdout);
    auto start = clock_type::now();
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        execl("/proc/self/exe", "driver-cpp", "--here", name, nullptr);
        _exit(127);
    }
    setpgid(pid, pid);
    int status = wait_bounded(pid);
    kill(-pid, SIGKILL);
    if (WIFSIGNALED(status))
        std::printf("FAIL %s: died of signal %d (%s)\n", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) > 1)
        std::printf("FAIL %s: ended with status %d\n", name, WEXITSTATUS(status));
    if (std::getenv("DRIVER_TIMES"))
        std::printf("time %s: %ld ms\n", name, long((clock_type::now() - start) / 1ms));
    return status == 0;
}

} // namespace

int main(int argc, char **argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const char *limit = std::getenv("DRIVER_TIMEOUT"))
        limit_s = std::atoi(limit);
    if (argc == 3 && std::string(argv[1]) == "--here")
        return run_here(argv[2]);
    if (argc < 2) {
        std::fprintf(stderr, "usage: driver-cpp all | NAME... | --here NAME | --list\n");
        return 2;
    }
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        bool all = std::string(argv[i]) == "all", list = std::string(argv[i]) == "--list";
        for (const auto &test : tests) {
            if (list)
                std::puts(test.name);
            else if (all || std::string(argv[i]) == test.name)
                failures += !run_apart(test.name);
        }
    }
    std::printf("%d failed\n", failures);
    return failures != 0;
}

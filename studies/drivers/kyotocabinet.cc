// Kyoto Cabinet's cache database, which is in memory, with the mix of LibASL's paper (PPoPP 2022, section 4.2): each
// operation writes or reads one item, half of either.
#include "frame.h"

#include <kccachedb.h>
#include <string>

const char *const mixes[] = {"half", nullptr};

static kyotocabinet::CacheDB database;

static void check(bool is_well) {
    if (!is_well) fail("kyotocabinet", database.error().message());
}

static void put(uint64_t number) {
    char key[KEY_BYTES + 1], value[VALUE_BYTES + 1];
    write_key(key, number);
    write_value(value, number);
    check(database.set(key, KEY_BYTES, value, VALUE_BYTES));
}

void open_database() {
    if (!settings.path) settings.path = "*";
    check(database.open(settings.path, kyotocabinet::CacheDB::OWRITER | kyotocabinet::CacheDB::OCREATE));
    for (uint64_t key = 0; key < settings.keys; key++) put(key);
}

void *open_thread() {
    return nullptr;
}

void operate(void *, uint64_t *random) {
    uint64_t number = draw(random, settings.keys);
    if (draw(random, 2) == 0) {
        put(number);
        return;
    }
    char key[KEY_BYTES + 1], value[VALUE_BYTES];
    write_key(key, number);
    int32_t length = database.get(key, KEY_BYTES, value, VALUE_BYTES);
    check(length >= 0);
    check_value(value, static_cast<uint64_t>(length), number);
}

void close_thread(void *) {}

void close_database() {
    check(database.close());
}

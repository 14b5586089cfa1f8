/* LevelDB with the operations of its own db_bench. A full database has all keys, an empty one none. */
#include "frame.h"

#include <leveldb/c.h>
#include <stdlib.h>
#include <string.h>

const char *const mixes[] = {"readrandom", "readempty", "fillseq", "fillrandom", "fillsync", "overwrite", NULL};

static leveldb_t *database;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;
static uint64_t next_key; /* of fillseq */
static int reads, is_sequential, is_full;

static void check(char *error) {
    if (error)
        fail("leveldb", error);
}

static void put(uint64_t number) {
    char key[KEY_BYTES + 1], value[VALUE_BYTES + 1], *error = NULL;
    write_key(key, number);
    write_value(value, number);
    leveldb_put(database, writing, key, KEY_BYTES, value, VALUE_BYTES, &error);
    check(error);
}

void open_database(void) {
    char *error = NULL;
    if (!settings.path)
        settings.path = "/dev/shm/lockswap-study.leveldb";
    reads = is_mix("readrandom") || is_mix("readempty");
    is_full = is_mix("readrandom") || is_mix("overwrite");
    is_sequential = is_mix("fillseq");
    options = leveldb_options_create();
    leveldb_destroy_db(options, settings.path, &error);
    check(error);
    leveldb_options_set_create_if_missing(options, 1);
    database = leveldb_open(options, settings.path, &error);
    check(error);
    reading = leveldb_readoptions_create();
    writing = leveldb_writeoptions_create();
    for (uint64_t key = 0; is_full && key < settings.keys; key++)
        put(key);
    leveldb_writeoptions_set_sync(writing, is_mix("fillsync"));
}

void *open_thread(void) {
    return NULL;
}

void operate(void *own, uint64_t *random) {
    (void)own;
    if (!reads) {
        put(is_sequential ? __atomic_fetch_add(&next_key, 1, __ATOMIC_RELAXED) : draw(random, settings.keys));
        return;
    }
    char key[KEY_BYTES + 1], *error = NULL;
    size_t length = 0;
    uint64_t number = draw(random, settings.keys);
    write_key(key, number);
    char *value = leveldb_get(database, reading, key, KEY_BYTES, &length, &error);
    check(error);
    if (value ? !is_full : is_full)
        fail("leveldb", "a key is there that should not be, or is not");
    if (value)
        check_value(value, length, number);
    leveldb_free(value);
}

void close_thread(void *own) {
    (void)own;
}

void close_database(void) {
    char *error = NULL;
    leveldb_close(database);
    leveldb_destroy_db(options, settings.path, &error);
    check(error);
    leveldb_readoptions_destroy(reading);
    leveldb_writeoptions_destroy(writing);
    leveldb_options_destroy(options);
}

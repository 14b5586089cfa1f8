/* upscaledb with the mix of LibASL's paper (PPoPP 2022, section 4.2): each operation writes or reads one item, half of
 * either. The database is in memory. */
#include "frame.h"

#include <string.h>
#include <ups/upscaledb.h>

const char *const mixes[] = {"half", NULL};

static ups_env_t *environment;
static ups_db_t *database;

static void check(ups_status_t status) {
    if (status != UPS_SUCCESS)
        fail("upscaledb", ups_strerror(status));
}

static void put(uint64_t number) {
    char text[KEY_BYTES + 1], value[VALUE_BYTES + 1];
    write_key(text, number);
    write_value(value, number);
    ups_key_t key = {0};
    ups_record_t record = {0};
    key.size = KEY_BYTES, key.data = text;
    record.size = VALUE_BYTES, record.data = value;
    check(ups_db_insert(database, NULL, &key, &record, UPS_OVERWRITE));
}

void open_database(void) {
    if (!settings.path)
        settings.path = "memory";
    check(ups_env_create(&environment, NULL, UPS_IN_MEMORY, 0, NULL));
    check(ups_env_create_db(environment, &database, 1, 0, NULL));
    for (uint64_t key = 0; key < settings.keys; key++)
        put(key);
}

void *open_thread(void) {
    return NULL;
}

void operate(void *own, uint64_t *random) {
    (void)own;
    uint64_t number = draw(random, settings.keys);
    if (draw(random, 2) == 0) {
        put(number);
        return;
    }
    char text[KEY_BYTES + 1], value[VALUE_BYTES + 1];
    write_key(text, number);
    ups_key_t key = {0};
    ups_record_t record = {0};
    key.size = KEY_BYTES, key.data = text;
    /* Into memory of ours: what the database hands out is valid until its next call in any thread. */
    record.size = VALUE_BYTES, record.data = value, record.flags = UPS_RECORD_USER_ALLOC;
    check(ups_db_find(database, NULL, &key, &record, 0));
    check_value(record.data, record.size, number);
}

void close_thread(void *own) {
    (void)own;
}

void close_database(void) {
    check(ups_env_close(environment, UPS_AUTO_CLEANUP));
}

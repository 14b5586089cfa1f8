/* What the drivers of databases share. A driver says how its database is opened and what one operation does; the
 * frame lets threads make operations for a while, each of them an epoch (docs/epochs.md), and reports how many there
 * were in a second and how long they took. */
#ifndef FRAME_H
#define FRAME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the command line says. */
struct settings {
    const char *mix;  /* one of the driver's mixes */
    const char *path; /* where the database lies */
    uint64_t keys;    /* how many keys there are */
    int threads;
};
extern struct settings settings;

/* The driver. */
extern const char *const mixes[]; /* names, ended by a null pointer; the first one is the default */
void open_database(void);         /* makes and fills it, before the threads begin */
void *open_thread(void);          /* what a thread needs of its own; called in the thread */
void operate(void *own, uint64_t *random);
void close_thread(void *own);
void close_database(void);

/* The next random number below `bound`. */
uint64_t draw(uint64_t *random, uint64_t bound);
/* Whether this is the mix that was asked for. */
int is_mix(const char *name);
/* Writes a key of KEY_BYTES, or a value of VALUE_BYTES that begins with it, and a null character behind. */
enum { KEY_BYTES = 16, VALUE_BYTES = 100 };
void write_key(char *text, uint64_t key);
void write_value(char *text, uint64_t key);
/* Ends the program unless this is the value of that key. */
void check_value(const char *value, uint64_t length, uint64_t key);
/* Counts a transaction that had to be made again. */
void count_retry(void);
/* Ends the program with status 1 and these words. */
void fail(const char *what, const char *why) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif

/* A CPU that plays a little one: what a thread does on it takes FACTOR times as long, inside the critical sections of
 * the database as well as outside. Before each call of a pthread function that waits or lets others go on, the thread
 * stays busy for FACTOR - 1 times as long as it has run since the last one: the database is linked statically, and its
 * calls of these functions come to little.c first. Waiting is not stretched.
 *
 * It is the clock that counts, so there should be a CPU for each thread: one that loses its CPU pays for that time,
 * too. */
#ifndef LITTLE_H
#define LITTLE_H

/* Reads CPU:FACTOR; ends the program where that is nonsense. */
void read_little(const char *text);
/* Whether any CPU plays a little one. */
int has_little(void);
/* Pins the calling thread, the one with this number, where a CPU plays a little one. Whether its CPU does. */
int take_seat(int number);
/* From here on the calling thread runs. */
void resume_pace(void);
/* Stays busy for what is missing since then. */
void keep_pace(void);

#endif

/* A library that does nothing, for LD_PRELOAD. */
int lockswap_other_library;

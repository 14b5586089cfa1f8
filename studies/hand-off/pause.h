// Tells the CPU that this thread spins.
static inline void pause_cpu(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("isb" ::: "memory");
#endif
}

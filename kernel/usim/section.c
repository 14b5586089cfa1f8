// SPDX-License-Identifier: GPL-2.0
/* What is done in critical sections, compiled as the code under test is. */
#include "check.h"

void section_enter(unsigned long *work) { ++*work; }
void clock_tick(u64 *clock, u64 by) { *clock += by; }

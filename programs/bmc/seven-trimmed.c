// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The published design with keys that are short enough for the verifier. */
#define MOST_KEY 220
#include "seven.c"

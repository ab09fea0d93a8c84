/* Coverage of the kernel for libFuzzer, linked into a module that gcc compiled with -fsanitize-coverage=trace-pc,trace-cmp.

gcc has neither counters in line nor guards, which libFuzzer reads: the calls at each branch count here instead, in a
table that libFuzzer is given. Comparisons are passed on; a jump keeps the return address, by which it tells them apart.
*/
#include <stdint.h>

#define COUNTERS (1 << 14)
#define INTERNAL __attribute__((visibility("hidden")))
#define EXPORTED __attribute__((visibility("default")))

static uint8_t counters[COUNTERS];
static uintptr_t places[COUNTERS][2];

struct libfuzzer {
    void (*add_counters)(uint8_t *, uint8_t *);
    void (*add_places)(const uintptr_t *, const uintptr_t *);
    void (*cmp[4])(uint64_t, uint64_t);
    void (*const_cmp[4])(uint64_t, uint64_t);
    void (*switched)(uint64_t, uint64_t *);
};

static struct libfuzzer fuzzer;

INTERNAL void __sanitizer_cov_trace_pc(void) {
    uint64_t place = (uintptr_t)__builtin_return_address(0);
    counters[place * 0x9E3779B97F4A7C15u >> 50]++;
}

#define PASS_ON(name, to, type)                       \
    INTERNAL void name(type one, type other) {        \
        if (to) ((void (*)(type, type))to)(one, other); \
    }

PASS_ON(__sanitizer_cov_trace_cmp1, fuzzer.cmp[0], uint8_t)
PASS_ON(__sanitizer_cov_trace_cmp2, fuzzer.cmp[1], uint16_t)
PASS_ON(__sanitizer_cov_trace_cmp4, fuzzer.cmp[2], uint32_t)
PASS_ON(__sanitizer_cov_trace_cmp8, fuzzer.cmp[3], uint64_t)
PASS_ON(__sanitizer_cov_trace_const_cmp1, fuzzer.const_cmp[0], uint8_t)
PASS_ON(__sanitizer_cov_trace_const_cmp2, fuzzer.const_cmp[1], uint16_t)
PASS_ON(__sanitizer_cov_trace_const_cmp4, fuzzer.const_cmp[2], uint32_t)
PASS_ON(__sanitizer_cov_trace_const_cmp8, fuzzer.const_cmp[3], uint64_t)

INTERNAL void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
    if (fuzzer.switched) fuzzer.switched(value, cases);
}

INTERNAL void __sanitizer_cov_trace_cmpf(float one, float other) { (void)one, (void)other; }
INTERNAL void __sanitizer_cov_trace_cmpd(double one, double other) { (void)one, (void)other; }

/* Give libFuzzer the table; its functions are those of `struct libfuzzer`, in order. */
EXPORTED void kernel_coverage(const struct libfuzzer *found) {
    int i;
    fuzzer = *found;
    fuzzer.add_counters(counters, counters + COUNTERS);
    for (i = 0; i < COUNTERS; i++) places[i][0] = (uintptr_t)&counters[i];
    fuzzer.add_places(places[0], places[COUNTERS]);
}

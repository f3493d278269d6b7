/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions driven by events: what is 0 costs nothing, so a layer costs what its spikes cause.
 *
 * To an output each input that is not 0 adds its row of the weights, in the order of the inputs' rows, columns and
 * channels. Products are rounded before they are added (-ffp-contract=off), so every machine gets the same
 * bits, whatever its vectors' width. See brain_regions/convolutions.py, which alone calls it.
 */
#include <stddef.h>
#include <stdint.h>

/* Eight floats, of any alignment; the compiler makes of them what the machine has. */
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
enum { LANES = 8, HELD = 6 };

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST __attribute__((target_clones("avx2", "default")))
#else
#define WIDEST
#endif

/* As the fields of brain_regions.convolutions._Shape. */
typedef struct {
    int64_t pictures, rows, columns, channels, kernel_rows, kernel_columns, outputs, out_rows, out_columns;
    int64_t down, right, up, aside, far, wide;   /* stride, padding, dilation */
} Shape;

typedef struct {
    uint16_t channel;
    float value;
} Event;

/* Adds up what an output hears: `n` times eight of its channels, from `first` on. */
static inline __attribute__((always_inline)) void
hear(const int n, const Shape *s, const Event *events, const int32_t *counts, const float *weight, const float *bias,
     float *out, ptrdiff_t first, ptrdiff_t row, ptrdiff_t column)
{
    lanes sum[HELD];
    for (int k = 0; k < n; k++)
        sum[k] = ((const lanes *)(bias + first))[k];
    for (ptrdiff_t i = 0; i < s->kernel_rows; i++) {
        const ptrdiff_t r = row * s->down - s->up + i * s->far;
        if (r < 0 || r >= s->rows)
            continue;
        for (ptrdiff_t j = 0; j < s->kernel_columns; j++) {
            const ptrdiff_t c = column * s->right - s->aside + j * s->wide;
            if (c < 0 || c >= s->columns)
                continue;
            const ptrdiff_t place = r * s->columns + c;
            const float *rows = weight + (i * s->kernel_columns + j) * s->channels * s->outputs + first;
            const Event *event = events + place * s->channels, *end = event + counts[place];
            for (; event < end; event++) {
                const lanes *its = (const lanes *)(rows + event->channel * s->outputs);
                for (int k = 0; k < n; k++)
                    sum[k] += its[k] * event->value;
            }
        }
    }
    for (int k = 0; k < n; k++)
        ((lanes *)(out + first))[k] = sum[k];
}

/* All arrays are as they lie: pictures, rows, columns, channels; weight: kernel rows and columns, channels, outputs.
 * `outputs` is a multiple of 8, `channels` at most 65535. `events` has room for one picture's inputs and one more, since
 * the one after the last is written before it is known to be none; `counts` for its places. */
WIDEST void
convolve(const Shape *s, const float *x, const float *weight, const float *bias, float *out, Event *events,
         int32_t *counts)
{
    for (ptrdiff_t picture = 0; picture < s->pictures; picture++) {
        for (ptrdiff_t place = 0; place < s->rows * s->columns; place++, x += s->channels) {
            Event *event = events + place * s->channels;
            for (ptrdiff_t c = 0; c < s->channels; c++) {      /* without a branch: spikes cannot be foreseen */
                event->channel = (uint16_t)c;
                event->value = x[c];
                event += x[c] != 0.0f;
            }
            counts[place] = (int32_t)(event - (events + place * s->channels));
        }
        for (ptrdiff_t row = 0; row < s->out_rows; row++)
            for (ptrdiff_t column = 0; column < s->out_columns; column++, out += s->outputs)
                for (ptrdiff_t first = 0; first < s->outputs; first += HELD * LANES)
                    switch ((s->outputs - first) / LANES) {
                    case 1: hear(1, s, events, counts, weight, bias, out, first, row, column); break;
                    case 2: hear(2, s, events, counts, weight, bias, out, first, row, column); break;
                    case 3: hear(3, s, events, counts, weight, bias, out, first, row, column); break;
                    case 4: hear(4, s, events, counts, weight, bias, out, first, row, column); break;
                    case 5: hear(5, s, events, counts, weight, bias, out, first, row, column); break;
                    default: hear(HELD, s, events, counts, weight, bias, out, first, row, column);
                    }
    }
}

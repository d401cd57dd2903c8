// y = x W^T with x float32 and W bfloat16 or float32: the matrix product of a decoding step, 1 to a few hundred rows.
//
// Why it exists. A step of a small batch is bound by reading W once. Library products either want native bfloat16 units
// (without them they run hundreds of times below the floor) or read float32 weights, twice the bytes. Here W is read
// once as bfloat16, widened in registers (a shift and a mask), and every product is accumulated in float32.
//
// Layout of W. Panels of 2*LANES output columns. bfloat16: in a panel, for each k, one 32-bit word per lane holds column `lane` in
// its lower half and column `lane + LANES` in its upper half: one load feeds two accumulators, with no shuffles.
// float32: for each k the 2*LANES columns side by side.
//
// Tile. Up to 6 rows x 2 vectors: 12 accumulators, 2 weights and 1 broadcast fill 15 of AVX2's 16 registers.
#pragma once
#include <algorithm>

#include "vector.h"

namespace linear {

constexpr int PANEL = 2 * LANES;
constexpr int TILE_ROWS = 6;
constexpr int64_t K_BLOCK = 768;  // a K block of 6 rows (18 KB) and its panel slice stay in the first two cache levels

struct Columns {
    vfloat low, high;
};

constexpr int64_t words(const uint32_t*) { return LANES; }  // stored words of a panel for each k
constexpr int64_t words(const float*) { return PANEL; }

inline Columns widen(const uint32_t* w) {
    const vuint pair = *reinterpret_cast<const vuint*>(w);
    const vuint low = pair << 16, high = pair & 0xffff0000u;
    return {reinterpret_cast<const vfloat&>(low), reinterpret_cast<const vfloat&>(high)};
}

inline Columns widen(const float* w) { return {load(w), load(w + LANES)}; }

// rows [ROWS] of y[:, panel] (+)= x[:, k0:k0+depth] * panel[k0:k0+depth]
template <int ROWS, typename W>
void tile(const float* x, int64_t ldx, const W* w, float* y, int64_t ldy, int64_t depth, bool first) {
    vfloat low[ROWS], high[ROWS];
#pragma GCC unroll 8
    for (int m = 0; m < ROWS; m++) low[m] = high[m] = vfloat{};
    for (int64_t k = 0; k < depth; k++) {
        const Columns column = widen(w + k * words(w));
        __builtin_prefetch(w + (k + 32) * words(w));
#pragma GCC unroll 8
        for (int m = 0; m < ROWS; m++) {
            const float scalar = x[m * ldx + k];
            low[m] += scalar * column.low;
            high[m] += scalar * column.high;
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < ROWS; m++) {
        float* out = y + m * ldy;
        store(out, first ? low[m] : load(out) + low[m]);
        store(out + LANES, first ? high[m] : load(out + LANES) + high[m]);
    }
}

template <typename W>
constexpr void (*TILES[TILE_ROWS + 1])(const float*, int64_t, const W*, float*, int64_t, int64_t, bool) = {
    nullptr, tile<1, W>, tile<2, W>, tile<3, W>, tile<4, W>, tile<5, W>, tile<6, W>};

// All rows of one panel; `columns` < PANEL only for the last panel of a width that is no multiple of PANEL.
template <typename W>
void panel(const float* x, int64_t rows, int64_t depth, const W* w, float* y, int64_t ldy, int64_t columns) {
    const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t k0 = 0; k0 < depth; k0 += K_BLOCK) {
        const int64_t block = std::min(K_BLOCK, depth - k0);
        for (int64_t t = 0; t < tiles; t++) {  // rows spread evenly: 8 rows are 4 + 4, not 6 + 2
            const int64_t begin = rows * t / tiles, count = rows * (t + 1) / tiles - begin;
            const float* x_tile = x + begin * depth + k0;
            if (columns == PANEL) {
                TILES<W>[count](x_tile, depth, w + k0 * words(w), y + begin * ldy, ldy, block, k0 == 0);
                continue;
            }
            float edge[TILE_ROWS * PANEL] = {};
            TILES<W>[count](x_tile, depth, w + k0 * words(w), edge, PANEL, block, true);
            for (int64_t m = 0; m < count; m++)
                for (int64_t c = 0; c < columns; c++) {
                    float& out = y[(begin + m) * ldy + c];
                    out = k0 == 0 ? edge[m * PANEL + c] : out + edge[m * PANEL + c];
                }
        }
    }
}

// y [rows, width] = x [rows, depth] W^T; w holds ceil(width / PANEL) panels of depth * words(w).
template <typename W>
void run(const float* x, int64_t rows, int64_t depth, const W* w, float* y, int64_t width) {
    const int64_t panels = (width + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < panels; p++)
        panel(x, rows, depth, w + p * depth * words(w), y + p * PANEL, width, std::min<int64_t>(PANEL, width - p * PANEL));
}

}  // namespace linear

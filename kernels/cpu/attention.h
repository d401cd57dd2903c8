// Attention of the rows of many requests over a slotted KV cache, for decoding, verification and prefill on a CPU.
//
// Row i belongs to slot s_i and stands at position t_i. Its key and value are first written into the cache at (s_i, t_i);
// then it attends to positions max(0, t_i - window + 1) .. t_i of its slot:
//     out_i = sum_j softmax_j(scale * q_i . K[s_i, j]) V[s_i, j]
// Rows of one slot stand together, so a task is (one slot's rows, one KV head): its keys are read once into cache and serve
// all rows and all query heads of the group. The cache may be float32 or bfloat16; arithmetic is float32.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "vector.h"

namespace attention {

struct Shape {
    int64_t heads, kv_heads, group, dim, max_len, window;
    float scale;
};

// Positions of one head lie a whole row of heads apart, which the hardware prefetcher follows badly.
constexpr int64_t AHEAD = 8;
template <int VECTORS, typename T>
void prefetch(const T* row) {
    for (size_t byte = 0; byte < VECTORS * LANES * sizeof(T); byte += 64) __builtin_prefetch(reinterpret_cast<const char*>(row) + byte);
}

// Turns scores [count] into softmax weights in place, unnormalised; returns 1 / their sum. The buffer has room for LANES more.
inline float softmax(float* scores, int64_t count) {
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < count; j++) top = std::max(top, scores[j]);
    for (int64_t j = count; j < count + LANES; j++) scores[j] = -std::numeric_limits<float>::infinity();
    vfloat mass = {};
    for (int64_t j = 0; j < count; j += LANES) {
        const vfloat weight = exp_nonpositive(load(scores + j) - top);  // at the padding 1e-38: nothing in float32
        store(scores + j, weight);
        mass += weight;
    }
    return 1.0f / sum(mass);
}

// HEADS query rows [HEADS, dim] that share one KV head attend to `count` positions; VECTORS = dim / LANES, so that the
// accumulators are registers. `pitch` is the distance between the heads' score buffers.
template <int VECTORS, int HEADS, typename T>
void attend(const float* q, const T* k, const T* v, int64_t stride, int64_t count, float scale, float* scores, int64_t pitch,
            float* out) {
    constexpr int64_t dim = VECTORS * LANES;
    for (int64_t j = 0; j < count; j++) {
        prefetch<VECTORS>(k + (j + AHEAD) * stride);
        vfloat dot[HEADS] = {};
#pragma GCC unroll 8
        for (int d = 0; d < VECTORS; d++) {
            const vfloat key = load(k + j * stride + d * LANES);
#pragma GCC unroll 4
            for (int g = 0; g < HEADS; g++) dot[g] += load(q + g * dim + d * LANES) * key;
        }
#pragma GCC unroll 4
        for (int g = 0; g < HEADS; g++) scores[g * pitch + j] = scale * sum(dot[g]);
    }
    for (int g = 0; g < HEADS; g++) {
        const float inverse = softmax(scores + g * pitch, count);
        vfloat acc[VECTORS] = {};
        for (int64_t j = 0; j < count; j++) {
            if (g == 0) prefetch<VECTORS>(v + (j + AHEAD) * stride);
            const float weight = scores[g * pitch + j];
#pragma GCC unroll 16
            for (int d = 0; d < VECTORS; d++) acc[d] += weight * load(v + j * stride + d * LANES);
        }
#pragma GCC unroll 16
        for (int d = 0; d < VECTORS; d++) store(out + g * dim + d * LANES, acc[d] * inverse);
    }
}

// All query heads of one KV head, four, three or one at a time.
template <int VECTORS, typename T>
void attend_group(const float* q, const T* k, const T* v, int64_t stride, int64_t count, const Shape& s, float* scores, float* out) {
    const int64_t dim = VECTORS * LANES, pitch = s.max_len + LANES;
    int64_t g = 0;
    for (; g + 4 <= s.group; g += 4) attend<VECTORS, 4>(q + g * dim, k, v, stride, count, s.scale, scores, pitch, out + g * dim);
    for (; g + 3 <= s.group; g += 3) attend<VECTORS, 3>(q + g * dim, k, v, stride, count, s.scale, scores, pitch, out + g * dim);
    for (; g < s.group; g++) attend<VECTORS, 1>(q + g * dim, k, v, stride, count, s.scale, scores, pitch, out + g * dim);
}

template <int VECTORS, typename T>
void run(const float* q, const float* k, const float* v, T* k_cache, T* v_cache, const int64_t* slots, const int64_t* positions,
         int64_t rows, const Shape& s, float* out) {
    std::vector<int64_t> starts;  // first row of each slot's rows, and the end
    for (int64_t i = 0; i < rows; i++)
        if (i == 0 || slots[i] != slots[i - 1]) starts.push_back(i);
    starts.push_back(rows);
    const int64_t groups = int64_t(starts.size()) - 1, stride = s.kv_heads * s.dim;
#pragma omp parallel
    {
        std::vector<float> scores(4 * (s.max_len + LANES));
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < groups * s.kv_heads; task++) {
            const int64_t first = starts[task / s.kv_heads], last = starts[task / s.kv_heads + 1], head = task % s.kv_heads;
            const int64_t base = (slots[first] * s.max_len) * stride + head * s.dim;
            for (int64_t i = first; i < last; i++)
                for (int64_t d = 0; d < s.dim; d++) {
                    const int64_t from = (i * s.kv_heads + head) * s.dim + d, to = base + positions[i] * stride + d;
                    narrow(k[from], k_cache + to);
                    narrow(v[from], v_cache + to);
                }
            for (int64_t i = first; i < last; i++) {
                const int64_t oldest = s.window > 0 ? std::max<int64_t>(0, positions[i] - s.window + 1) : 0;
                const int64_t at = (i * s.heads + head * s.group) * s.dim, offset = base + oldest * stride;
                attend_group<VECTORS>(q + at, k_cache + offset, v_cache + offset, stride, positions[i] - oldest + 1, s, scores.data(),
                                      out + at);
            }
        }
    }
}

}  // namespace attention

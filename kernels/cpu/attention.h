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

constexpr int64_t MAX_HEAD = 256;

struct Shape {
    int64_t heads, kv_heads, group, dim, max_len, window;
    float scale;
};

// out [dim] = softmax(scale * q . K) V over `count` cached positions; stride = distance between positions of one head
template <typename T>
void attend_one(const float* q, const T* k, const T* v, int64_t stride, int64_t count, const Shape& s, float* scores, float* out) {
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < count; j++) {
        vfloat dot = {};
        for (int64_t d = 0; d < s.dim; d += LANES) dot += load(q + d) * load(k + j * stride + d);
        scores[j] = s.scale * sum(dot);
        top = std::max(top, scores[j]);
    }
    vfloat mass = {};
    for (int64_t j = 0; j < count; j += LANES) {  // the buffer is padded, so the last vector may run past count
        for (int64_t pad = count; pad < j + LANES; pad++) scores[pad] = -std::numeric_limits<float>::infinity();
        const vfloat weight = exp_nonpositive(load(scores + j) - top);
        store(scores + j, weight);
        mass += weight;
    }
    // exp_nonpositive clamps at exp(-87) ~ 1e-38: the padding weighs nothing in float32
    const float inverse = 1.0f / sum(mass);
    vfloat acc[MAX_HEAD / LANES] = {};
    const int64_t vectors = s.dim / LANES;
    for (int64_t j = 0; j < count; j++)
        for (int64_t d = 0; d < vectors; d++) acc[d] += scores[j] * load(v + j * stride + d * LANES);
    for (int64_t d = 0; d < vectors; d++) store(out + d * LANES, acc[d] * inverse);
}

template <typename T>
void run(const float* q, const float* k, const float* v, T* k_cache, T* v_cache, const int64_t* slots, const int64_t* positions,
         int64_t rows, const Shape& s, float* out) {
    std::vector<int64_t> starts;  // first row of each slot's rows, and the end
    for (int64_t i = 0; i < rows; i++)
        if (i == 0 || slots[i] != slots[i - 1]) starts.push_back(i);
    starts.push_back(rows);
    const int64_t groups = int64_t(starts.size()) - 1, stride = s.kv_heads * s.dim;
#pragma omp parallel
    {
        std::vector<float> scores(s.max_len + LANES);
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
                for (int64_t g = 0; g < s.group; g++) {
                    const int64_t at = (i * s.heads + head * s.group + g) * s.dim;
                    attend_one(q + at, k_cache + base + oldest * stride, v_cache + base + oldest * stride, stride,
                               positions[i] - oldest + 1, s, scores.data(), out + at);
                }
            }
        }
    }
}

}  // namespace attention

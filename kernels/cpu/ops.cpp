// The two CPU kernels as torch operators: checks of shape, type and range, then a call of linear.h or attention.h.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "attention.h"
#include "linear.h"

namespace {

using at::Tensor;

// x [..., K] float32; packed [panels, K, LANES] int32 (bfloat16 pairs) or [panels, K, 2 LANES] float32; width = columns of y
// -> y [..., width] float32
Tensor packed_linear(const Tensor& x, const Tensor& packed, int64_t width) {
    TORCH_CHECK(x.dim() >= 1 && x.scalar_type() == at::kFloat && x.is_contiguous(),
                "packed_linear: x must be contiguous float32 [..., K], given ", x.sizes(), " ", x.scalar_type());
    const bool pairs = packed.scalar_type() == at::kInt;
    const int64_t depth = x.size(-1), rows = x.numel() / std::max<int64_t>(depth, 1), panels = (width + linear::PANEL - 1) / linear::PANEL;
    const int64_t words = pairs ? LANES : linear::PANEL;
    TORCH_CHECK((pairs || packed.scalar_type() == at::kFloat) && packed.is_contiguous() &&
                    packed.sizes() == at::IntArrayRef({panels, depth, words}),
                "packed_linear: weights packed for another shape: expected [", panels, ", ", depth, ", ", words, "], given ",
                packed.sizes(), " ", packed.scalar_type());
    std::vector<int64_t> shape(x.sizes().begin(), x.sizes().end());
    shape.back() = width;
    Tensor y = at::empty(shape, x.options());
    const float* input = x.const_data_ptr<float>();
    float* output = y.mutable_data_ptr<float>();
    if (pairs)
        linear::run(input, rows, depth, reinterpret_cast<const uint32_t*>(packed.const_data_ptr<int32_t>()), output, width);
    else
        linear::run(input, rows, depth, packed.const_data_ptr<float>(), output, width);
    return y;
}

void check_rows(const Tensor& slots, const Tensor& positions, const Tensor& cache, int64_t rows) {
    TORCH_CHECK(slots.numel() == rows && positions.numel() == rows && slots.scalar_type() == at::kLong &&
                    positions.scalar_type() == at::kLong && slots.is_contiguous() && positions.is_contiguous(),
                "ragged_attention: slots and positions must be contiguous int64 [", rows, "], given ", slots.sizes(), ", ", positions.sizes());
    const int64_t *slot = slots.const_data_ptr<int64_t>(), *position = positions.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < rows; i++)
        TORCH_CHECK(slot[i] >= 0 && slot[i] < cache.size(0) && position[i] >= 0 && position[i] < cache.size(1), "ragged_attention: row ",
                    i, " has slot ", slot[i], " and position ", position[i], ", outside the cache ", cache.sizes());
}

// Calls f with dim / LANES as a constant.
template <typename F>
void by_head_size(int64_t dim, const F& f) {
    switch (dim) {
        case 16: return f(std::integral_constant<int, 16 / LANES>{});
        case 32: return f(std::integral_constant<int, 32 / LANES>{});
        case 64: return f(std::integral_constant<int, 64 / LANES>{});
        case 96: return f(std::integral_constant<int, 96 / LANES>{});
        case 128: return f(std::integral_constant<int, 128 / LANES>{});
        default: TORCH_CHECK(false, "ragged_attention: head size ", dim, " is not built; expected 16, 32, 64, 96 or 128");
    }
}

// q [rows, heads, dim], k and v [rows, kv_heads, dim] float32; caches [slots, max_len, kv_heads, dim] float32 or bfloat16;
// slots, positions [rows] int64, rows of a slot together -> [rows, heads, dim]. Writes k and v into the caches first.
Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor k_cache, Tensor v_cache, const Tensor& slots,
                        const Tensor& positions, double scale, int64_t window) {
    TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && k_cache.dim() == 4 && k.sizes() == v.sizes() && k_cache.sizes() == v_cache.sizes() &&
                    k.size(0) == q.size(0) && k_cache.size(2) == k.size(1) && k_cache.size(3) == k.size(2) && q.size(2) == k.size(2) &&
                    q.size(1) % k.size(1) == 0,
                "ragged_attention: expected q [rows, heads, dim], k = v [rows, kv_heads, dim], caches [slots, max_len, kv_heads, dim]; given ",
                q.sizes(), ", ", k.sizes(), ", ", k_cache.sizes());
    for (const Tensor* t : {&q, &k, &v})
        TORCH_CHECK(t->is_contiguous() && t->scalar_type() == at::kFloat, "ragged_attention: q, k and v must be contiguous float32");
    TORCH_CHECK(k_cache.is_contiguous() && v_cache.is_contiguous() && k_cache.scalar_type() == v_cache.scalar_type(),
                "ragged_attention: the two caches must be contiguous and of one type");
    const attention::Shape shape{q.size(1), k.size(1), q.size(1) / k.size(1), q.size(2), k_cache.size(1), window, float(scale)};
    check_rows(slots, positions, k_cache, q.size(0));
    Tensor out = at::empty(q.sizes(), q.options());
    const auto call = [&](auto* keys, auto* values) {
        by_head_size(shape.dim, [&](auto vectors) {
            attention::run<vectors()>(q.const_data_ptr<float>(), k.const_data_ptr<float>(), v.const_data_ptr<float>(), keys, values,
                                      slots.const_data_ptr<int64_t>(), positions.const_data_ptr<int64_t>(), q.size(0), shape,
                                      out.mutable_data_ptr<float>());
        });
    };
    if (k_cache.scalar_type() == at::kFloat)
        call(k_cache.mutable_data_ptr<float>(), v_cache.mutable_data_ptr<float>());
    else if (k_cache.scalar_type() == at::kBFloat16)
        call(static_cast<uint16_t*>(k_cache.mutable_data_ptr()), static_cast<uint16_t*>(v_cache.mutable_data_ptr()));
    else
        TORCH_CHECK(false, "ragged_attention: the caches must be float32 or bfloat16, given ", k_cache.scalar_type());
    return out;
}

int64_t lanes() { return LANES; }

}  // namespace

TORCH_LIBRARY(angelspec_cpu, m) {
    m.def("lanes() -> int", &lanes);
    m.def("packed_linear(Tensor x, Tensor packed, int width) -> Tensor");
    m.def("ragged_attention(Tensor q, Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slots, Tensor positions, "
          "float scale, int window) -> Tensor");
}
TORCH_LIBRARY_IMPL(angelspec_cpu, CPU, m) {
    m.impl("packed_linear", &packed_linear);
    m.impl("ragged_attention", &ragged_attention);
}

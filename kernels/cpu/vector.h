// One vector type for AVX2 and AVX-512 builds, and the two conversions that the kernels need.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;  // AVX2; on NEON or SSE the compiler splits it into two halves
#endif

using vfloat = float __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using vuint = uint32_t __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using vint = int32_t __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using vhalf = uint16_t __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

inline vfloat load(const float* p) { return *reinterpret_cast<const vfloat*>(p); }

// bfloat16 is the upper half of a float32: widening is a shift.
inline vfloat load(const uint16_t* p) {
    const vuint bits = __builtin_convertvector(*reinterpret_cast<const vhalf*>(p), vuint) << 16;
    return reinterpret_cast<const vfloat&>(bits);
}

inline void store(float* p, vfloat x) { *reinterpret_cast<vfloat*>(p) = x; }

inline float to_float(float x) { return x; }

inline void narrow(float x, float* out) { *out = x; }

// Round to nearest even; NaN stays NaN because the quiet bit is kept.
inline void narrow(float x, uint16_t* out) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    *out = x != x ? uint16_t((bits >> 16) | 0x40) : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Sum over the lanes: halves are folded together until one lane is left.
inline float sum(vfloat x) {
#if defined(__AVX512F__)
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
    x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    return x[0];
}

// exp(x) for x <= 0, relative error below 2e-7 (checked against double in the tests). Written out because -ffast-math,
// which would let the compiler use libmvec, also flushes denormals in the whole process.
// x = n ln 2 + r with |r| <= ln2/2; exp(r) by its Taylor polynomial of degree 7; 2^n through the exponent bits.
inline vfloat exp_nonpositive(vfloat x) {
    const vfloat floor_at = vfloat{} - 87.0f;
    x = x < floor_at ? floor_at : x;
    const vfloat magic = vfloat{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to the nearest integer
    const vfloat n = (x * 1.44269504f + magic) - magic;
    const vfloat r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
    vfloat p = vfloat{} + 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const vint bits = (__builtin_convertvector(n, vint) + 127) << 23;
    return p * reinterpret_cast<const vfloat&>(bits);
}

// Sixteen floats at a time, in the compiler's own vectors: AVX-512 has one register for them, AVX2 two,
// NEON four. Every operation works lane by lane, so a lane's bits never depend on its neighbours.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace foretoken {

constexpr int LANES = 16;

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

inline Floats load(const float* from) {
    Floats value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

inline Floats all(float value) { return value - Floats{}; }

inline Ints all(int32_t value) { return value - Ints{}; }

// bf16 is the upper half of a float.
inline Floats widen(const uint16_t* from) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    Ints wide = __builtin_convertvector(halves, Ints) << 16;
    return std::bit_cast<Floats>(wide);
}

inline float widen(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

inline Ints widen(const uint8_t* from) {
#ifdef __AVX512F__
    // GCC 12 converts bytes one by one if left to itself.
    return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    typedef uint8_t Bytes16 __attribute__((vector_size(LANES)));
    Bytes16 bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, Ints);
#endif
}

// The entries of a table of sixteen that the lower four bits of each lane name.
inline Floats lookup(Floats table, Ints index) {
#ifdef __AVX512F__
    return (Floats)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
#else
    Floats found;
    for (int lane = 0; lane < LANES; ++lane) found[lane] = table[index[lane] & 15];
    return found;
#endif
}

inline uint16_t narrow(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline Halves narrow(Floats value) {
    typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
    const Bits bits = std::bit_cast<Bits>(value);
    return __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, Halves);
}

// a * b + c, rounded once wherever the processor can: always the same way on one machine.
inline Floats fused(Floats a, Floats b, Floats c) {
#ifdef __AVX512F__
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FP_FAST_FMAF)
    for (int lane = 0; lane < LANES; ++lane) c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
#else
    return a * b + c;
#endif
}

inline Floats choose(Ints mask, Floats yes, Floats no) {
    Ints bits = (mask & std::bit_cast<Ints>(yes)) | (~mask & std::bit_cast<Ints>(no));
    return std::bit_cast<Floats>(bits);
}

inline Floats maximum(Floats a, Floats b) { return choose(a > b, a, b); }

// Lanes added in one fixed order.
inline float total(Floats value) {
    float lanes[LANES];
    store(lanes, value);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

inline float largest(Floats value) {
    float lanes[LANES], found;
    store(lanes, value);
    found = lanes[0];
    for (float lane : lanes) found = lane > found ? lane : found;
    return found;
}

// e^x within 2 units in the last place; 0 below -87, and for -infinity. The argument is reduced as in
// Cephes' expf: x = n ln 2 + r, a polynomial for e^r, and n put into the exponent.
inline Floats exponential(Floats x) {
    const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    Ints low = x < all(-87.0f);
    x = choose(x > all(88.0f), all(88.0f), choose(low, all(-87.0f), x));
    Floats shifted = fused(x, all(1.44269504f), magic);
    Floats n = shifted - magic;
    Floats r = fused(n, all(-0.693359375f), x);
    r = fused(n, all(2.12194440e-4f), r);
    Floats p = all(1.9875691500e-4f);
    p = fused(p, r, all(1.3981999507e-3f));
    p = fused(p, r, all(8.3334519073e-3f));
    p = fused(p, r, all(4.1665795894e-2f));
    p = fused(p, r, all(1.6666665459e-1f));
    p = fused(p, r, all(5.0000001201e-1f));
    p = fused(p, r * r, r + all(1.0f));
    Ints bits = std::bit_cast<Ints>(p) + (std::bit_cast<Ints>(shifted) << 23);
    return choose(low, Floats{}, std::bit_cast<Floats>(bits));
}

// 1 - 2 / (e^2x + 1)
inline Floats hyperbolic_tangent(Floats x) {
    return all(1.0f) - all(2.0f) / (exponential(x + x) + all(1.0f));
}

}  // namespace foretoken

/* VPDPBUSD for processors with AVX2 and without VNNI: made of other instructions, so that code with it runs on them, too.
   EMULATED_BITS is 256 for AVX-VNNI, 512 for AVX512-VNNI. The compiler reads this file before the code. */
#include <immintrin.h>

/* Each int32 of s plus four products of the unsigned bytes of x and the signed bytes of w, modulo 2^32. */
static inline __m256i emulated_dpbusd(__m256i s, __m256i x, __m256i w)
{
    const __m256i even = _mm256_madd_epi16(_mm256_srli_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));

    return _mm256_add_epi32(s, _mm256_add_epi32(even, odd));
}

#if EMULATED_BITS == 256
#define __AVXVNNI__ 1
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd
#else
typedef struct {
    __m256i low, high;
} emulated_512;

static inline emulated_512 emulated_load(const void *from)
{
    const __m256i *both = (const __m256i *)from;
    const emulated_512 x = {_mm256_loadu_si256(both), _mm256_loadu_si256(both + 1)};

    return x;
}

static inline emulated_512 emulated_set(int four)
{
    const emulated_512 x = {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};

    return x;
}

static inline emulated_512 emulated_dpbusd_512(emulated_512 s, emulated_512 x, emulated_512 w)
{
    const emulated_512 y = {emulated_dpbusd(s.low, x.low, w.low), emulated_dpbusd(s.high, x.high, w.high)};

    return y;
}

static inline void emulated_store(void *to, emulated_512 x)
{
    __m256i *both = (__m256i *)to;

    _mm256_storeu_si256(both, x.low);
    _mm256_storeu_si256(both + 1, x.high);
}

#define __AVX512F__ 1
#define __AVX512VNNI__ 1
#define __m512i emulated_512
#define _mm512_loadu_si512 emulated_load
#define _mm512_set1_epi32 emulated_set
#define _mm512_storeu_si512 emulated_store
#define _mm512_dpbusd_epi32 emulated_dpbusd_512
#endif

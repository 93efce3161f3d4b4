// SPDX-License-Identifier: Apache-2.0
// The 16-bit storage types against a slow reference: every value, every tie, and all that is no number.
#include "partita/base/scalar.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "partita/base/config.hpp"

namespace partita {
namespace {

/// The value of a binary format with `e` exponent and `f` fraction bits, by its definition.
double value_of(unsigned bits, int e, int f) {
  const unsigned fraction = bits & ((1U << f) - 1);
  const unsigned exponent = (bits >> f) & ((1U << e) - 1);
  const int bias = (1 << (e - 1)) - 1;
  const double sign = (bits >> (e + f)) != 0 ? -1.0 : 1.0;
  if (exponent == (1U << e) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - f);
  return sign * std::ldexp(1.0 + std::ldexp(static_cast<double>(fraction), -f), static_cast<int>(exponent) - bias);
}

/// The nearest value of the format, ties to even, found by bisection among all of its finite values.
unsigned nearest(float x, int e, int f) {
  const unsigned sign = std::signbit(x) ? 1U << (e + f) : 0;
  const double magnitude = std::abs(static_cast<double>(x));
  const unsigned infinity = ((1U << e) - 1) << f;
  unsigned low = 0, high = infinity;  // value(low) <= magnitude < value(high)
  if (magnitude == 0) return sign;
  // Where infinity would stand if the exponent went on.
  const double top = std::ldexp(1.0, 1 << (e - 1));
  const auto value = [&](unsigned bits) { return bits == infinity ? top : value_of(bits, e, f); };
  if (magnitude >= top) return sign | infinity;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(low);
  const double above = value(high) - magnitude;
  if (below == above) return sign | ((low & 1) == 0 ? low : high);
  return sign | (below < above ? low : high);
}

template <class S>
void check_format(int e, int f) {
  const unsigned infinity = ((1U << e) - 1) << f;
  index_t wrong = 0;
  // Every value of the format has the value of its definition, and converts to itself.
  for (unsigned bits = 0; bits < 65536; ++bits) {
    S x;
    x.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(x);
    const double wanted = value_of(bits, e, f);
    if (std::isnan(wanted)) {
      wrong += !std::isnan(wide) || !std::isnan(static_cast<float>(S(wide)));
      wrong += (S(wide).bits >> 15) != (bits >> 15);
      continue;
    }
    wrong += static_cast<double>(wide) != wanted || std::signbit(wide) != std::signbit(wanted);
    wrong += S(wide).bits != bits;
    wrong += !(S(wide) == x);
  }
  CHECK(wrong == 0);
  // Between neighbours: the tie, and what stands next to it on both sides. The last pair is the overflow.
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double low = value_of(bits, e, f);
    const double high = bits + 1 == infinity ? std::ldexp(1.0, 1 << (e - 1)) : value_of(bits + 1, e, f);
    const auto tie = static_cast<float>((low + high) / 2);
    for (const float x : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, std::numeric_limits<float>::infinity()),
                          std::nextafter(static_cast<float>(low), std::numeric_limits<float>::infinity())}) {
      wrong += S(x).bits != nearest(x, e, f);
      wrong += S(-x).bits != nearest(-x, e, f);
    }
  }
  CHECK(wrong == 0);
  // Floats all over their range, each exponent many times.
  for (std::uint32_t u = 0; u < 0x7f800000U; u += 8191) {
    const auto x = std::bit_cast<float>(u);
    wrong += S(x).bits != nearest(x, e, f);
  }
  CHECK(wrong == 0);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(S(inf).bits == infinity);
  CHECK(S(-inf).bits == (infinity | 0x8000U));
  CHECK(S(0.0F).bits == 0);
  CHECK(S(-0.0F).bits == 0x8000U);
  CHECK(S(0.0F) == S(-0.0F));
  CHECK(S(std::numeric_limits<float>::denorm_min()).bits == nearest(std::numeric_limits<float>::denorm_min(), e, f));
  // A NaN stays one, whichever of its bits are set; it equals nothing.
  for (const std::uint32_t u : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0x7f801fffU, 0xff800001U, 0xffffe000U}) {
    const S x(std::bit_cast<float>(u));
    CHECK(std::isnan(static_cast<float>(x)));
    CHECK((x.bits >> 15) == (u >> 31));
    CHECK(!(x == x));
  }
}

TEST_CASE("half is IEEE binary16, rounded to nearest, ties to even") { check_format<half>(5, 10); }

TEST_CASE("bfloat16 is the upper half of a float, rounded to nearest, ties to even") { check_format<bfloat16>(8, 7); }

TEST_CASE("scalars: who multiplies, who is only stored, and where sums are carried") {
  static_assert(MatmulScalar<float> && MatmulScalar<double> && MatmulScalar<std::complex<float>> &&
                MatmulScalar<std::complex<double>> && MatmulScalar<half> && MatmulScalar<bfloat16>);
  static_assert(!MatmulScalar<int> && !MatmulScalar<long double> && !MatmulScalar<const float>);
  static_assert(std::is_same_v<accumulate_t<half>, float> && std::is_same_v<accumulate_t<bfloat16>, float>);
  static_assert(std::is_same_v<accumulate_t<double>, double>);
  static_assert(Summable<std::int64_t> && Summable<std::complex<float>> && !Summable<half> && !Summable<bool>);
  static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);
  static_assert(half(1.5F).bits == 0x3e00 && bfloat16(1.5F).bits == 0x3fc0);  // in constant expressions too
  CHECK(is_complex_v<std::complex<double>>);
}

}  // namespace
}  // namespace partita

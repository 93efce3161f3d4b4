// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over the buffers of several ranks on one device, in rank order, in one pass.
#pragma once

#include <cuda_runtime_api.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

#ifdef __CUDACC__
#define PARTITA_SUM_FUNCTION __host__ __device__
#else
#define PARTITA_SUM_FUNCTION
#endif

namespace partita::detail {

/// How many buffers a pass reads, and how many it writes: they are arguments of a kernel.
inline constexpr int most_summed = 64;

/// One row-major buffer of those that are summed.
template <class T>
struct SumBuffer {
  T* data = nullptr;
  index_t ld = 0;
};

/// outputs 0 … o-1 = [output 0 +] input 0 + input 1 + … + input i-1, each of rows × cols elements. All is read before
/// anything of the same element is written, so that outputs may be inputs.
template <class T>
struct RankSum {
  index_t rows = 0;
  index_t cols = 0;
  int inputs = 0;
  int outputs = 0;
  bool maximum = false;
  bool accumulates = false;
  SumBuffer<const T> in[most_summed];
  SumBuffer<T> out[most_summed];

  PARTITA_SUM_FUNCTION void operator()(index_t i, index_t j) const {
    T total = accumulates ? out[0].data[i * out[0].ld + j] : in[0].data[i * in[0].ld + j];
    for (int r = accumulates ? 0 : 1; r < inputs; ++r) {
      const T x = in[r].data[i * in[r].ld + j];
      if (maximum) {
        total = x > total || x != x ? x : total;  // NaN is the largest of all
      } else {
        total = static_cast<T>(total + x);
      }
    }
    for (int r = 0; r < outputs; ++r) out[r].data[i * out[r].ld + j] = total;
  }
};

/// The type in which the elements of T are summed on a device: a complex number is two real ones, and integers of one
/// width and sign are one type.
template <class T>
struct SumScalar {
  static_assert(std::is_arithmetic_v<T>, "only arithmetic types and complex numbers are summed");
  static_assert(!std::is_same_v<T, long double>, "a device has no long double");
  using Wide = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Narrow = std::conditional_t<sizeof(T) == 2, std::int16_t, std::int8_t>;
  using Signed = std::conditional_t<(sizeof(T) > 2), Wide, Narrow>;
  using UWide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using UNarrow = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>;
  using Unsigned = std::conditional_t<(sizeof(T) > 2), UWide, UNarrow>;
  using Integer = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
  using type = std::conditional_t<std::is_floating_point_v<T>, T, Integer>;
  static constexpr index_t parts = 1;
};
template <class T>
struct SumScalar<std::complex<T>> {
  using type = T;
  static constexpr index_t parts = 2;
};

/// The sum, on a stream; T is a type that SumScalar gives. Pre: neither rows nor cols is 0.
/// Defined by a unit of cuda/sum.cuh.
template <class T>
void launch_sum(cudaStream_t stream, const RankSum<T>& sum);

/// Defines launch_sum() for all scalars in the unit where it stands; with `extern`, declares that another unit does.
#define PARTITA_SUMS_OF_RANKS(PREFIX)                                           \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<float>&);         \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<double>&);        \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::int8_t>&);   \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::int16_t>&);  \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::int32_t>&);  \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::int64_t>&);  \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::uint8_t>&);  \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::uint16_t>&); \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::uint32_t>&); \
  PREFIX template void launch_sum(cudaStream_t, const RankSum<std::uint64_t>&)

PARTITA_SUMS_OF_RANKS(extern);

}  // namespace partita::detail

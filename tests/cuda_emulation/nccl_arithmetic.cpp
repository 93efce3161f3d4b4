// SPDX-License-Identifier: Apache-2.0
// The arithmetic of NCCL's reductions, rounded to the data's own type at each step.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "cuda_emulation/nccl_call.hpp"

namespace partita::cuda_emulation {
namespace {

template <class T>
T load(const char* from, std::size_t i) {
  T x;
  std::memcpy(&x, from + i * sizeof(T), sizeof(T));
  return x;
}
template <class T>
void store(char* into, std::size_t i, T x) {
  std::memcpy(into + i * sizeof(T), &x, sizeof(T));
}

/// Integers wrap around.
template <class T>
T applied(ncclRedOp_t op, T a, T b) {
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (op) {
    case ncclProd:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:  // sum, and average before it is divided
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <class F>
void with_type(ncclDataType_t type, F f) {
  switch (type) {
    case ncclInt8:
      return f(std::int8_t{});
    case ncclUint8:
      return f(std::uint8_t{});
    case ncclInt32:
      return f(std::int32_t{});
    case ncclUint32:
      return f(std::uint32_t{});
    case ncclInt64:
      return f(std::int64_t{});
    case ncclUint64:
      return f(std::uint64_t{});
    case ncclFloat16:
      return f(__half{});
    case ncclBfloat16:
      return f(__nv_bfloat16{});
    case ncclFloat32:
      return f(float{});
    case ncclFloat64:
      return f(double{});
    default:
      throw std::logic_error("a type that NCCL's stand-in does not add");
  }
}

float widened(__half x) { return __half2float(x); }
float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
T widened(T x) {
  return x;
}

template <class T, class W>
T rounded(W x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

}  // namespace

std::size_t nccl_size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void nccl_combine(ncclDataType_t type, ncclRedOp_t op, char* into, const char* from, std::size_t count) {
  with_type(type, [&](auto example) {
    using T = decltype(example);
    for (std::size_t i = 0; i < count; ++i) {
      store(into, i, rounded<T>(applied(op, widened(load<T>(into, i)), widened(load<T>(from, i)))));
    }
  });
}

void nccl_average(ncclDataType_t type, char* into, std::size_t count, int ranks) {
  with_type(type, [&](auto example) {
    using T = decltype(example);
    using W = decltype(widened(example));
    for (std::size_t i = 0; i < count; ++i) {
      store(into, i, rounded<T>(static_cast<W>(widened(load<T>(into, i)) / static_cast<W>(ranks))));
    }
  });
}

}  // namespace partita::cuda_emulation

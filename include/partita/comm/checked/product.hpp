// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other of a product before its first step, where calls are compared.
#pragma once

#include <cstdint>

#include "partita/comm/checked/record.hpp"

namespace partita {

/// C[m,n] = alpha·A[m,k]·B[k,n] + beta·C, as one rank is about to compute it. `rest` is a hash of all else that must be
/// the same on all ranks.
struct ProductFacts {
  index_t m = 0, n = 0, k = 0;
  std::uint64_t type = 0;  // of detail::type_code
  std::size_t type_bytes = 0;
  double alpha = 1, beta = 0;  // their real parts
  std::uint64_t rest = 0;
};

/// A communicator that compares products: check_product throws on all of its ranks where they differ.
template <class C>
concept ComparesProducts = requires(C c, const ProductFacts& facts) { c.check_product(facts); };

namespace detail {

/// The facts in a record: the shape of C, k as the root, the factors as the value.
inline void describe(CallRecord& record, const ProductFacts& facts) noexcept {
  record.type = facts.type;
  record.type_bytes = facts.type_bytes;
  record.rows = facts.m;
  record.cols = facts.n;
  record.root = facts.k;
  record.value = {std::bit_cast<std::uint64_t>(facts.alpha), std::bit_cast<std::uint64_t>(facts.beta)};
  record.blocks = facts.rest;
}

}  // namespace detail
}  // namespace partita

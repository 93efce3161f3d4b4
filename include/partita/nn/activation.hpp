// SPDX-License-Identifier: Apache-2.0
// What flows between layers: a counted, read-only tensor, so that the layers that need it backward share one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "partita/tensor/dist_tensor.hpp"

namespace partita {

/// Tokens in rows, features in columns; the row unit is the length of a sequence where sequences must stay whole.
/// Copies share the tensor, which is freed with the last of them: on all ranks at the same place of the program.
template <class T, class P, class Ctx>
class Activation {
 public:
  using value_type = T;
  using partition = P;
  using context_type = Ctx;
  using tensor_type = DistTensor<T, P, Ctx>;

  Activation() = default;
  Activation(tensor_type tensor)  // NOLINT(google-explicit-constructor)
      : tensor_(std::make_shared<const tensor_type>(std::move(tensor))) {}

  [[nodiscard]] const tensor_type& operator*() const noexcept { return *tensor_; }
  [[nodiscard]] const tensor_type* operator->() const noexcept { return tensor_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return tensor_ != nullptr; }
  /// Forgets the tensor.
  void reset() noexcept { tensor_.reset(); }

 private:
  std::shared_ptr<const tensor_type> tensor_;
};

/// What a forward pass is told beside its input; the same on all ranks. Random choices (dropout) are a function of the
/// seed of the layer, of `step` and of the global index: a pass that is run again makes the same ones.
struct Pass {
  bool training = true;
  std::uint64_t step = 0;
  /// How many tokens of each sequence of the batch are meant, in order; those behind are padding. Empty: all are.
  std::vector<index_t> lengths{};
};

}  // namespace partita

// SPDX-License-Identifier: Apache-2.0
// What is learnt: a value, the gradient that backward passes add to, and a name.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.hpp"
#include "partita/nn/partitions.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

/// Told when a backward pass has added all that it will to a parameter's gradient.
class GradientListener {
 public:
  /// `number` is what the listener called the parameter.
  virtual void gradient_ready(int number) = 0;

 protected:
  GradientListener() = default;
  GradientListener(const GradientListener&) = default;
  GradientListener& operator=(const GradientListener&) = default;
  ~GradientListener() = default;
};

/// A gradient that layers add to, and whom it tells. Its owner keeps it in its place while somebody listens.
class GradientSource {
 public:
  /// How many layers share the parameter: a backward pass adds to the gradient so many times.
  [[nodiscard]] int uses() const noexcept { return uses_; }
  void share() noexcept { ++uses_; }

  /// Layers call it when they have added to the gradient.
  void contribute() {
    if (++contributions_ % uses_ == 0 && listener_ != nullptr) listener_->gradient_ready(number_);
  }
  /// The listener knows this parameter as `number`; null to tell nobody.
  void listen(GradientListener* listener, int number) noexcept {
    listener_ = listener;
    number_ = number;
  }
  [[nodiscard]] const GradientListener* listener() const noexcept { return listener_; }

 protected:
  GradientSource() = default;
  GradientSource(GradientSource&&) = default;
  GradientSource& operator=(GradientSource&&) = default;
  ~GradientSource() = default;
  void forget_contributions() noexcept { contributions_ = 0; }

 private:
  int uses_ = 1;
  int contributions_ = 0;
  GradientListener* listener_ = nullptr;
  int number_ = -1;
};

/// One rank's part of a parameter, whatever its partition: what optimisers, norms and sums of gradients work on.
template <class T, class Ctx>
struct ParameterRef {
  std::string name;
  ProcessGrid<Ctx>* grid = nullptr;
  Layout layout;      // of the value
  AxisList sum_axes;  // along which the gradient is a pending sum
  Shape shape;        // global
  Units units;
  Block block;  // of the global matrix that this rank holds
  View<T> value;
  View<accumulate_t<T>> gradient;
  GradientSource* identity = nullptr;  // the Parameter, which layers may share

  /// Whether this rank is the one, of those that hold the same block, that counts it.
  [[nodiscard]] bool counts_here() const noexcept {
    for (const int axis : grid->axes()) {
      const bool names = layout.rows.contains(axis) || layout.cols.contains(axis);
      if (!names && grid->coordinates()[static_cast<unsigned>(axis)] != 0) return false;
    }
    return true;
  }
};

/// A matrix of parameters with partition P, read by layers whose tokens lie as Tokens says. The gradient is carried in
/// fp32 for 16-bit values, and its type says along which axes it is still to be summed (GradientSums does it).
template <class T, class P, class Tokens, class Ctx>
class Parameter : public GradientSource {
 public:
  using value_type = T;
  using partition = P;
  using gradient_partition = gradient_of_t<P, Tokens>;
  using value_tensor = DistTensor<T, P, Ctx>;
  using gradient_tensor = DistTensor<accumulate_t<T>, gradient_partition, Ctx>;

  Parameter(std::string name, value_tensor value)
      : name_(std::move(name)),
        value_(std::move(value)),
        gradient_(GridHandle<typename gradient_partition::grid_type, Ctx>(value_.grid().shared()), value_.shape(),
                  value_.units()) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] value_tensor& value() noexcept { return value_; }
  [[nodiscard]] const value_tensor& value() const noexcept { return value_; }
  /// The sum of what backward passes have added since zero(); on this rank alone, until the axes in its type are
  /// summed.
  [[nodiscard]] gradient_tensor& gradient() noexcept { return gradient_; }
  [[nodiscard]] const gradient_tensor& gradient() const noexcept { return gradient_; }

  /// Forgets the gradient.
  void zero() {
    gradient_.context().backend().template scale<accumulate_t<T>>(0, gradient_.local());
    forget_contributions();
  }
  [[nodiscard]] ParameterRef<T, Ctx> ref() {
    return {name_,
            &value_.grid().ranks(),
            P::layout,
            gradient_partition::layout.partial,
            value_.shape(),
            value_.units(),
            value_.block(),
            value_.local(),
            gradient_.local(),
            this};
  }

 private:
  std::string name_;
  value_tensor value_;
  gradient_tensor gradient_;
};

/// This rank's part of every parameter of a layer or a model, each once, in the order in which layers name them.
template <class L>
[[nodiscard]] auto parameters_of(L& layer) {
  std::vector<ParameterRef<typename L::value_type, typename L::context_type>> refs;
  layer.for_each_parameter([&refs](auto& parameter) {
    auto ref = parameter.ref();
    for (const auto& other : refs) {
      if (other.identity == ref.identity) return;
      if (other.name == ref.name) throw ArgumentError("ArgumentError: two parameters are called '" + ref.name + "'");
    }
    refs.push_back(std::move(ref));
  });
  return refs;
}

template <class L>
void zero_gradients(L& layer) {
  layer.for_each_parameter([](auto& parameter) { parameter.zero(); });
}

}  // namespace partita

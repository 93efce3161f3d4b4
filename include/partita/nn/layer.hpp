// SPDX-License-Identifier: Apache-2.0
// What a layer is, and chains of layers whose partitions meet.
#pragma once

#include <concepts>
#include <utility>

#include "partita/matmul/refusal.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/steps.hpp"

namespace partita {

namespace detail {
struct AnyVisitor {
  void operator()(const auto&) const {}
};
}  // namespace detail

/// What a layer takes, and what it gives.
template <class L>
using input_activation_t = Activation<typename L::value_type, typename L::input, typename L::context_type>;
template <class L>
using output_activation_t = Activation<typename L::value_type, typename L::output, typename L::context_type>;

/// From an activation to an activation, and back. forward() keeps what backward() needs until backward() or forget();
/// backward() adds to the gradients of the layer's parameters and gives the gradient of the input. All are collective
/// over the grid, and communicate exactly the steps that forward_steps() and backward_steps() name.
template <class L>
concept Layer = requires(L layer, const L& fixed, input_activation_t<L> x, output_activation_t<L> dy, const Pass& pass,
                         const Place& place, const Extent2D& extent, detail::AnyVisitor visit) {
  { layer.forward(x, pass) } -> std::same_as<output_activation_t<L>>;
  { layer.backward(dy) } -> std::same_as<input_activation_t<L>>;
  { layer.forget() } -> std::same_as<void>;
  layer.for_each_parameter(visit);
  fixed.forward_steps(place, extent, visit);
  fixed.backward_steps(place, extent, visit);
  { fixed.output_extent(extent) } -> std::same_as<Extent2D>;
};

/// A layer that may do the next one's work in its own pass: forward_with(next, x, pass) is
/// next.forward(forward(x, pass), pass), and leaves both ready for backward().
template <class L, class Next>
concept ForwardsWith = requires(L layer, Next& next, input_activation_t<L> x, const Pass& pass) {
  { layer.forward_with(next, x, pass) } -> std::same_as<output_activation_t<Next>>;
};

/// The words of a refusal, which the compiler prints.
template <class... Lists>
struct output {};
template <class... Lists>
struct input {};
template <class Output, class Input>
struct feed {};

/// Stands in the condition of a refusal so that the compiler prints both partitions.
template <class Feed>
inline constexpr bool layers_meet = false;
template <class... Lists>
inline constexpr bool layers_meet<feed<output<Lists...>, input<Lists...>>> = true;

namespace detail {
template <class First, class Next>
using feed_of = feed<spell_t<partita::output, typename First::output>, spell_t<partita::input, typename Next::input>>;
}  // namespace detail

/// Layers one after the other, two of them in one pass where the first one ForwardsWith the second. The output of each
/// has the partition that the next one takes: else this does not compile, and the error names both.
template <class... Layers>
class Sequential;

template <class Last>
class Sequential<Last> {
 public:
  using value_type = typename Last::value_type;
  using context_type = typename Last::context_type;
  using input = typename Last::input;
  using output = typename Last::output;

  explicit Sequential(Last last) : last_(std::move(last)) {}

  [[nodiscard]] auto forward(input_activation_t<Last> x, const Pass& pass = {}) {
    return last_.forward(std::move(x), pass);
  }
  [[nodiscard]] auto backward(const output_activation_t<Last>& dy) { return last_.backward(dy); }
  void forget() { last_.forget(); }
  template <class F>
  void for_each_parameter(F&& f) {
    last_.for_each_parameter(f);
  }
  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    last_.forward_steps(place, x, f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    last_.backward_steps(place, x, f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return last_.output_extent(x); }
  /// The layer in the place I.
  template <int I>
  [[nodiscard]] auto& layer() noexcept {
    static_assert(I == 0, "Sequential has fewer layers");
    return last_;
  }

 private:
  template <class...>
  friend class Sequential;

  /// forward(before.forward(x)).
  template <class Before>
  [[nodiscard]] auto forward_after(Before& before, input_activation_t<Before> x, const Pass& pass) {
    if constexpr (ForwardsWith<Before, Last>) {
      return before.forward_with(last_, std::move(x), pass);
    } else {
      return forward(before.forward(std::move(x), pass), pass);
    }
  }

  Last last_;
};

template <class First, class Next, class... Rest>
class Sequential<First, Next, Rest...> {
  static_assert(layers_meet<detail::feed_of<First, Next>>,
                "Sequential: a layer's output has another partition than the next layer takes");

 public:
  using value_type = typename First::value_type;
  using context_type = typename First::context_type;
  using input = typename First::input;
  using output = typename Sequential<Next, Rest...>::output;

  explicit Sequential(First first, Next next, Rest... rest)
      : first_(std::move(first)), rest_(std::move(next), std::move(rest)...) {}

  [[nodiscard]] auto forward(input_activation_t<First> x, const Pass& pass = {}) {
    if constexpr (layers_meet<detail::feed_of<First, Next>>) {  // else refused above
      return rest_.forward_after(first_, std::move(x), pass);
    }
  }
  [[nodiscard]] auto backward(const Activation<value_type, output, context_type>& dy) {
    if constexpr (layers_meet<detail::feed_of<First, Next>>) return first_.backward(rest_.backward(dy));
  }
  void forget() {
    first_.forget();
    rest_.forget();
  }
  template <class F>
  void for_each_parameter(F&& f) {
    first_.for_each_parameter(f);
    rest_.for_each_parameter(f);
  }
  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    first_.forward_steps(place, x, f);
    rest_.forward_steps(place, first_.output_extent(x), f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    rest_.backward_steps(place, first_.output_extent(x), f);
    first_.backward_steps(place, x, f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return rest_.output_extent(first_.output_extent(x)); }
  template <int I>
  [[nodiscard]] auto& layer() noexcept {
    if constexpr (I == 0) {
      return first_;
    } else {
      return rest_.template layer<I - 1>();
    }
  }

 private:
  template <class...>
  friend class Sequential;

  template <class Before>
  [[nodiscard]] auto forward_after(Before& before, input_activation_t<Before> x, const Pass& pass) {
    if constexpr (ForwardsWith<Before, First>) {
      return rest_.forward(before.forward_with(first_, std::move(x), pass), pass);
    } else {
      return forward(before.forward(std::move(x), pass), pass);
    }
  }

  First first_;
  Sequential<Next, Rest...> rest_;
};

template <class... Layers>
Sequential(Layers...) -> Sequential<Layers...>;

}  // namespace partita

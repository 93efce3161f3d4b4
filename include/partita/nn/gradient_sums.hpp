// SPDX-License-Identifier: Apache-2.0
// Finishes the pending sums of many gradients together, in few collectives that go on while backward computes.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/nn/parameter.hpp"
#include "partita/nn/steps.hpp"

namespace partita {

struct GradientSumsOptions {
  /// Gradients are summed in buckets of at most so many bytes; a larger one is alone in its bucket.
  index_t bucket_bytes = index_t{4} << 20;
  /// How many backward passes add to the gradients before their sum (gradient accumulation): it begins in the last.
  int passes = 1;
};

/// Sums the gradients of a model's parameters over the axes along which they are pending (ParameterRef::sum_axes), and
/// nothing where there are none. The parameters of one set of axes fill buckets from the last parameter to the first,
/// as backward passes reach them, and a bucket's all_reduce begins when the last of its gradients is complete (Li et
/// al., "PyTorch Distributed", VLDB 2020, section 3.2):
///
///     GradientSums sums(model);                 // once
///     zero_gradients(model);                    // for each step
///     (void)model.backward(dy);                 // begins the buckets
///     sums.finish();                            // now every gradient is the sum over all tokens, on every rank
///
/// finish() includes the parameters that no backward pass has reached. With `passes` = n, n forward and backward passes
/// go between zero_gradients() and finish(). What finish() has summed must be zeroed before more is added to it.
///
/// The model stays where it is and outlives this. All ranks run the same passes. Destroyed before finish(), it abandons
/// the sums under way as their requests do: for error paths only.
template <class T, class Ctx>
class GradientSums final : private GradientListener {
 public:
  using Ref = ParameterRef<T, Ctx>;

  /// Collective. Errors, on all ranks: ArgumentError for bucket_bytes or passes below 1, and for a parameter whose
  /// gradient another GradientSums sums; CapacityError. Communicates: an agreement.
  explicit GradientSums(std::vector<Ref> parameters, const GradientSumsOptions& options = {})
      : parameters_(std::move(parameters)), options_(options) {
    check();
    fill_buckets();
    allocate();
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].identity->listen(this, static_cast<int>(i));
  }
  template <class Model>
    requires requires { typename Model::context_type; }
  explicit GradientSums(Model& model, const GradientSumsOptions& options = {})
      : GradientSums(parameters_of(model), options) {}
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;
  ~GradientSums() {
    for (const Ref& parameter : parameters_) parameter.identity->listen(nullptr, -1);
  }

  /// Completes all sums; the next pass begins anew. Communicates: steps() of this rank's place, with backward's part.
  void finish() {
    for (Bucket& bucket : buckets_) {
      if (!bucket.begun) begin(bucket);
    }
    for (Bucket& bucket : buckets_) {
      bucket.request.wait();
      for (const Part& part : bucket.parts) {
        if (!part.in_place()) backend().copy(View<const Sum>(part.summed), part.gradient);
      }
      bucket.begun = false;
      bucket.missing = static_cast<int>(bucket.parts.size());
    }
    under_way_.clear();
    for (Progress& progress : progress_) progress.passes = 0;
  }

  /// The sums of the rank at a place of the model's grid: one all_reduce for each bucket.
  template <class F>
  void steps(const Place& place, F&& f) const {
    for (const Bucket& bucket : buckets_) {
      index_t elements = 0;
      for (const Part& part : bucket.parts) {
        const Ref& ref = parameters_[part.parameter];
        elements += block_of(ref.layout, ref.shape, ref.units, place.extents, place.coordinates).size();
      }
      visit_step(all_reduce_step(place, bucket.axes, elements), f);
    }
  }
  [[nodiscard]] int bucket_count() const noexcept { return static_cast<int>(buckets_.size()); }

 private:
  using Sum = accumulate_t<T>;
  using Request = typename Ctx::comm_type::Request;
  static constexpr std::size_t most_under_way = 16;  // communicators take a limited number of operations

  struct Part {
    std::size_t parameter = 0;
    View<Sum> gradient;
    View<Sum> summed;  // in the bucket's memory, or the gradient itself

    [[nodiscard]] bool in_place() const noexcept { return summed.data == gradient.data; }
  };
  struct Bucket {
    AxisList axes;
    std::vector<Part> parts;
    index_t bytes = 0;
    int missing = 0;  // parts whose gradient is not complete
    bool begun = false;
    Memory memory;
    View<Sum> all;    // the parts one after the other, or the gradient of the only one
    Request request;  // last, so that it ends before the memory
  };
  struct Progress {
    int passes = 0;
    std::size_t bucket = no_bucket;
  };
  static constexpr auto no_bucket = static_cast<std::size_t>(-1);

  void check() const {
    if (options_.bucket_bytes < 1 || options_.passes < 1) {
      throw ArgumentError("ArgumentError: GradientSums with buckets of " + std::to_string(options_.bucket_bytes) +
                          " bytes and " + std::to_string(options_.passes) + " passes; both must be at least 1");
    }
    for (const Ref& parameter : parameters_) {
      if (parameter.identity->listener() == nullptr) continue;
      throw ArgumentError("ArgumentError: the gradient of " + parameter.name +
                          " is summed by another GradientSums; finish that one, or destroy it first");
    }
  }

  [[nodiscard]] std::size_t last_bucket_along(const AxisList& axes) const noexcept {
    for (std::size_t at = buckets_.size(); at-- > 0;) {
      if (buckets_[at].axes == axes) return at;
    }
    return no_bucket;
  }

  /// By the largest block of each parameter, so that the buckets are the same on all ranks, and begin in one order.
  void fill_buckets() {
    progress_.resize(parameters_.size());
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      const Ref& ref = parameters_[i];
      const AxisValues& extents = ref.grid->extents();
      if (group_size(ref.sum_axes, extents) == 1) continue;
      const index_t elements = block_of(ref.layout, ref.shape, ref.units, extents, {}).size();
      const index_t bytes = checked_product(elements, static_cast<index_t>(sizeof(Sum)));
      std::size_t at = last_bucket_along(ref.sum_axes);
      if (at == no_bucket || buckets_[at].bytes + bytes > options_.bucket_bytes) {
        at = buckets_.size();
        buckets_.emplace_back().axes = ref.sum_axes;
        (void)ref.grid->comm(ref.sum_axes);  // made here, where all ranks are
      }
      buckets_[at].bytes += bytes;
      buckets_[at].parts.push_back({i, ref.gradient, ref.gradient});
      ++buckets_[at].missing;
      progress_[i].bucket = at;
    }
  }

  /// A bucket of one gradient is summed where it stands.
  void allocate() {
    if (parameters_.empty()) return;
    std::string objection;
    try {
      for (Bucket& bucket : buckets_) {
        bucket.all = bucket.parts.front().gradient;
        if (bucket.parts.size() == 1) continue;
        index_t count = 0;
        for (const Part& part : bucket.parts) count += part.gradient.size();
        bucket.memory = context().template allocate<Sum>(count);
        bucket.all = row_view(reinterpret_cast<Sum*>(bucket.memory.get()), count);
        Sum* at = bucket.all.data;
        for (Part& part : bucket.parts) {
          part.summed = View<Sum>(at, part.gradient.shape());
          at += part.gradient.size();
        }
      }
    } catch (const std::exception& error) {  // agreed below: peers must not go on into a collective alone
      objection = error.what();
    }
    detail::agree_or_throw<CapacityError>(context().comm(), objection);
  }

  void gradient_ready(int number) override {
    Progress& progress = progress_[static_cast<std::size_t>(number)];
    if (++progress.passes > options_.passes) {
      throw ArgumentError("ArgumentError: a backward pass after the last of " + std::to_string(options_.passes) +
                          " adds to the gradient of " + parameters_[static_cast<std::size_t>(number)].name +
                          ", whose sum has begun; call finish() first, or ask for more passes");
    }
    if (progress.passes < options_.passes || progress.bucket == no_bucket) return;
    Bucket& bucket = buckets_[progress.bucket];
    if (--bucket.missing == 0) begin(bucket);
  }

  void begin(Bucket& bucket) {
    if (under_way_.size() == most_under_way) {
      under_way_.front()->request.wait();
      under_way_.pop_front();
    }
    for (const Part& part : bucket.parts) {
      if (!part.in_place()) backend().copy(View<const Sum>(part.gradient), part.summed);
    }
    auto& comm = parameters_[bucket.parts.front().parameter].grid->comm(bucket.axes);
    bucket.request = comm.all_reduce(View<const Sum>(bucket.all), bucket.all, ReduceOp::sum);
    bucket.begun = true;
    under_way_.push_back(&bucket);
  }

  [[nodiscard]] Ctx& context() const noexcept { return parameters_.front().grid->context(); }
  [[nodiscard]] auto& backend() const noexcept { return context().backend(); }

  std::vector<Ref> parameters_;
  GradientSumsOptions options_;
  std::vector<Progress> progress_;
  std::deque<Bucket> buckets_;
  std::deque<Bucket*> under_way_;  // in the order in which they began
};

template <class Model>
GradientSums(Model&) -> GradientSums<typename Model::value_type, typename Model::context_type>;
template <class Model>
GradientSums(Model&, const GradientSumsOptions&)
    -> GradientSums<typename Model::value_type, typename Model::context_type>;

/// Sums all gradients of a model after its backward passes, and returns when they are done: for programs in which no
/// sum need go on during backward. Collective; errors and communication as those of GradientSums.
template <class Model>
void sum_gradients(Model& model) {
  GradientSums(model).finish();
}

}  // namespace partita

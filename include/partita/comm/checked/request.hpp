// SPDX-License-Identifier: Apache-2.0
// The handles of checked calls: they throw when the calls do not go together, before anything is written.
#pragma once

#include <memory>
#include <utility>

#include "partita/comm/checked/state.hpp"

namespace partita {

namespace detail {

/// Waits until the calls are compared; true if they go together. `call` is null where that has happened.
template <class C>
[[nodiscard]] bool await_call(CheckedCall* call) {
  if constexpr (CarriesInspections<C>) {
    if (call == nullptr || call->state == Inspection::State::idle) return true;
    const std::chrono::milliseconds limit = call->state_of->options.deadline;
    call->record.is_message() ? C::await_message(*call, limit) : C::await_inspection(*call, limit);
    return call->state != Inspection::State::refused;
  } else {
    return true;
  }
}

[[noreturn]] inline void throw_refused(CheckedCall& call) {
  const std::unique_ptr<Report> report = std::move(call.report);
  throw_report(*report);
}

}  // namespace detail

/// A pending operation of a CheckedComm<C>.
template <class C>
class [[nodiscard]] CheckedRequest {
 public:
  CheckedRequest() = default;
  /// `summed` is what is to be remembered of a sum in place.
  CheckedRequest(typename C::Request base, std::shared_ptr<detail::CheckedState> state, detail::CheckedCall* call,
                 const detail::ByteRows& summed = {})
      : base_(std::move(base)), state_(std::move(state)), call_(call), summed_(summed) {}
  /// Of a message; `call` is null where messages are not compared.
  CheckedRequest(typename C::Request base, std::shared_ptr<detail::CheckedState> state,
                 std::shared_ptr<detail::CheckedCall> call)
      : base_(std::move(base)), state_(std::move(state)), message_(std::move(call)), call_(message_.get()) {}

  /// Throws CollectiveMismatch, or what derives from it, on all ranks, when the calls do not go together; of a message
  /// on its two ranks.
  void wait() {
    detail::CheckedCall* const call = std::exchange(call_, nullptr);
    const bool passed = detail::await_call<C>(call);
    base_.wait();
    if (call == nullptr) return;
    const std::shared_ptr<detail::CheckedState> state = std::move(state_);
    const std::shared_ptr<detail::CheckedCall> message = std::move(message_);
    if (!passed) detail::throw_refused(*call);
    if (summed_.rows != 0) state->sums.remember(summed_);
  }

 private:
  typename C::Request base_;
  std::shared_ptr<detail::CheckedState> state_;
  std::shared_ptr<detail::CheckedCall> message_;
  detail::CheckedCall* call_ = nullptr;
  detail::ByteRows summed_;
};

/// A panel of a CheckedComm<C>. One that is released without wait() takes no part in the comparison.
template <class C, class T>
class [[nodiscard]] CheckedPanel {
 public:
  CheckedPanel() = default;
  CheckedPanel(typename C::template Panel<T> base, std::shared_ptr<detail::CheckedState> state,
               detail::CheckedCall* call)
      : base_(std::move(base)), state_(std::move(state)), call_(call) {}

  /// Throws as a request does, the root too. The panel is released then.
  void wait() {
    detail::CheckedCall* const call = std::exchange(call_, nullptr);
    if (!detail::await_call<C>(call)) {
      base_.release();
      detail::throw_refused(*call);
    }
    base_.wait();
  }
  [[nodiscard]] View<const T> view() const { return base_.view(); }
  void release() {
    call_ = nullptr;
    base_.release();
  }

 private:
  typename C::template Panel<T> base_;
  std::shared_ptr<detail::CheckedState> state_;
  detail::CheckedCall* call_ = nullptr;
};

}  // namespace partita

// SPDX-License-Identifier: Apache-2.0
// How a checked call begins: carried by the communicator underneath, or compared before that sees it.
#pragma once

#include <memory>
#include <utility>

#include "partita/comm/checked/exchange.hpp"
#include "partita/comm/checked/request.hpp"

namespace partita::detail {

/// Compares and does nothing else.
template <class C>
void compare_only(C& base, const std::shared_ptr<CheckedState>& state, CheckedCall& call) {
  state->log_call(call);
  if (base.size() == 1) {
    state->sent(call);
  } else if constexpr (CarriesInspections<C>) {
    typename C::Request begun = base.inspect_only(call);
    state->sent(call);
    CheckedRequest<C>(std::move(begun), state, &call).wait();
  } else {
    exchange_calls(base, call, *state);
  }
}

/// Lets the peers know that this rank's arguments are wrong. Returns where those of all ranks are, and for errors of
/// another kind.
template <class C>
void object(C& base, const std::shared_ptr<CheckedState>& state, CheckedCall& call, const Error& error) {
  const bool own = dynamic_cast<const ArgumentError*>(&error) != nullptr ||
                   dynamic_cast<const ShapeError*>(&error) != nullptr ||
                   dynamic_cast<const AliasError*>(&error) != nullptr;
  if (!own) return;
  call.record.refused = 1;
  call.record.repeated = 0;
  call.objection = error.what();
  compare_only(base, state, call);
}

/// Begins the operation, compared or to be compared. `check` checks the rank's own arguments; a communicator that
/// carries inspections does so itself before it posts anything.
template <class C, class Check, class Begin>
[[nodiscard]] auto start_checked(C& base, const std::shared_ptr<CheckedState>& state, CheckedCall& call, Check check,
                                 Begin begin) {
  state->log_call(call);
  if (base.size() == 1) {
    auto begun = begin();
    state->sent(call);
    return begun;
  }
  if constexpr (CarriesInspections<C>) {
    base.inspect_next(&call);
    try {
      auto begun = begin();
      state->sent(call);
      return begun;
    } catch (const Error& error) {
      base.inspect_next(nullptr);
      object(base, state, call, error);
      throw;
    } catch (...) {
      base.inspect_next(nullptr);
      throw;
    }
  } else {
    try {
      check();
    } catch (const Error& error) {
      object(base, state, call, error);
      throw;
    }
    exchange_calls(base, call, *state);
    return begin();
  }
}

/// Begins a send or a receive. It is compared with the other side where the communicator underneath carries
/// inspections, and else only kept among the latest calls.
template <class C, class Begin>
[[nodiscard]] CheckedRequest<C> start_message(C& base, const std::shared_ptr<CheckedState>& state,
                                              const CallRecord& record, Begin begin) {
  state->log->add(record);
  std::shared_ptr<CheckedCall> call;
  if constexpr (CarriesInspections<C>) {
    call = std::make_shared<CheckedCall>();
    call->record = record;
    call->state_of = state.get();
    base.inspect_message(call);
    try {
      return CheckedRequest<C>(begin(), state, std::move(call));
    } catch (...) {
      base.inspect_message(nullptr);
      throw;
    }
  } else {
    return CheckedRequest<C>(begin(), state, std::move(call));
  }
}

}  // namespace partita::detail

// SPDX-License-Identifier: Apache-2.0
// From the names of a policy and a type to the training that is compiled for them, one unit each.
#pragma once

#include <concepts>

#include "partita/nn/strategy.hpp"
#include "partita/partita.hpp"
#include "settings.hpp"

namespace train_digits {

class Digits;

template <class T, class S, class Ctx>
Result train(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch);

/// Types that are compiled: bf16 for threads alone, which spares a sixth of the units of a build with MPI.
template <class Ctx>
inline constexpr bool compiles_bf16 = std::same_as<Ctx, partita::ThreadContext>;

template <class S, class Ctx>
Result train_type(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch) {
  if (settings.type == "double") return train<double, S>(context, settings, digits, watch);
  if constexpr (compiles_bf16<Ctx>) {
    if (settings.type == "bf16") return train<partita::bfloat16, S>(context, settings, digits, watch);
  }
  return train<float, S>(context, settings, digits, watch);
}

/// Pre: `settings.policy` is one of options.hpp's; `serial` is column-row on one rank.
template <class Ctx>
Result train_policy(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch) {
  if (settings.policy == "sequence") {
    return train_type<partita::SequenceParallel<>>(context, settings, digits, watch);
  }
  if (settings.policy == "summa2d") return train_type<partita::TwoDimensional<>>(context, settings, digits, watch);
  if (settings.policy == "summa25d") {
    return train_type<partita::TwoAndAHalfDimensional<>>(context, settings, digits, watch);
  }
  return train_type<partita::ColumnRow<>>(context, settings, digits, watch);
}

}  // namespace train_digits

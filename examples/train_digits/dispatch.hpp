// SPDX-License-Identifier: Apache-2.0
// From the names of a policy and a type to the training that is compiled for them, one unit each.
#pragma once

#include <type_traits>

#include "partita/nn/strategy.hpp"
#include "partita/partita.hpp"
#include "settings.hpp"

namespace train_digits {

class Digits;

template <class T, class S, class Ctx>
Result train(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch);

/// Types that are compiled beside float: both for threads, double among processes, bf16 on GPUs; options.hpp refuses
/// the others.
template <class T, class Ctx>
inline constexpr bool compiles = std::is_same_v<Ctx, partita::ThreadContext> ||
                                 partita::host_memory_v<typename Ctx::backend_type> == std::is_same_v<T, double>;

template <class S, class Ctx>
Result train_type(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch) {
  if constexpr (compiles<double, Ctx>) {
    if (settings.type == "double") return train<double, S>(context, settings, digits, watch);
  }
  if constexpr (compiles<partita::bfloat16, Ctx>) {
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

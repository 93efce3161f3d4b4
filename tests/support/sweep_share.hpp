// SPDX-License-Identifier: Apache-2.0
// How much of a sweep a slow build runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace partita::test {

/// The share of a sweep to run, from PARTITA_SWEEP_SHARE: 1 unless a slow build asks for less.
inline double sweep_share() {
  const char* text = std::getenv("PARTITA_SWEEP_SHARE");
  return text == nullptr ? 1.0 : std::atof(text);
}

/// Whether the i-th of 0, 1, 2, … is in the share, which is drawn evenly and begins with 0.
inline bool in_share(std::int64_t i) {
  const auto before = [](std::int64_t n) { return std::ceil(static_cast<double>(n) * sweep_share() - 1e-9); };
  return before(i + 1) > before(i);
}

}  // namespace partita::test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "partita/nn/learning_rate.hpp"

namespace partita::test {
namespace {

TEST_CASE("learning rate: rises to the peak, falls by half a cosine, and stays") {
  const WarmupCosine rate{.peak = 2, .last = 1, .warmup_steps = 4, .total_steps = 12};
  CHECK(rate(0) == 0.5);
  CHECK(rate(3) == 2);
  CHECK(rate(4) == 2);
  CHECK(rate(6) == doctest::Approx(1.5 + std::sqrt(0.125)));
  CHECK(rate(8) == doctest::Approx(1.5));
  CHECK(rate(12) == 1);
  CHECK(rate(1000) == 1);
  for (index_t step = 4; step < 12; ++step) CHECK(rate(step + 1) < rate(step));
}

TEST_CASE("learning rate: without a warm-up, and with nothing else") {
  CHECK(WarmupCosine{.peak = 1, .total_steps = 10}(0) == 1);
  const WarmupCosine all{.peak = 1, .last = 0.5, .warmup_steps = 2, .total_steps = 2};
  CHECK(all(1) == 1);
  CHECK(all(2) == 0.5);
}

}  // namespace
}  // namespace partita::test

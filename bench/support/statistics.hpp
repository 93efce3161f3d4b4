// SPDX-License-Identifier: Apache-2.0
// Medians and what can be said of them from a few samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bench {

/// A value with the ends of an interval that covers it in 95 of 100 repetitions of the whole measurement.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Pre: there are values.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("the median of no values");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// How many of the smallest, and of the largest, of n samples may be left out, so that the rest still spans the median
/// of their distribution with a probability of 95 %: the number below the median is binomial (n, 1/2). Less than 0
/// where not even the whole span does (n < 6).
[[nodiscard]] inline int spare_order_statistics(int n) {
  double outside = 0;  // P(the number below the median is at most `spare`)
  double term = std::pow(0.5, n);
  int spare = -1;
  for (int below = 0; below <= n / 2; ++below) {
    outside += term;
    if (2 * outside > 0.05) break;
    spare = below;
    term *= static_cast<double>(n - below) / (below + 1);
  }
  return spare;
}

/// The median with its interval by order statistics: nothing is assumed of the distribution. With fewer than 6 values
/// the interval is their whole span, and covers less.
[[nodiscard]] inline Estimate estimate_median(std::vector<double> values) {
  const double middle = median(values);
  std::sort(values.begin(), values.end());
  const auto spare = static_cast<std::size_t>(std::max(0, spare_order_statistics(static_cast<int>(values.size()))));
  return {middle, values[spare], values[values.size() - 1 - spare]};
}

/// Pre: there are values, all positive.
[[nodiscard]] inline double geometric_mean(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("the geometric mean of no values");
  double sum = 0;
  for (const double x : values) sum += std::log(x);
  return std::exp(sum / static_cast<double>(values.size()));
}

/// Draws with replacement; the same draws on every run.
class Resampler {
 public:
  [[nodiscard]] double median_of(std::span<const double> values) {
    std::vector<double> drawn;
    drawn.reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) drawn.push_back(values[next() % values.size()]);
    return median(std::move(drawn));
  }

 private:
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) ^ (state_ >> 17 & 0xffffU);
  }
  std::uint64_t state_ = 20240607;
};

namespace detail {
inline constexpr int resamplings = 2000;

/// The interval in which 95 of 100 redrawn values of a statistic lie.
[[nodiscard]] inline Estimate interval_of(double value, std::vector<double> redrawn) {
  std::sort(redrawn.begin(), redrawn.end());
  const std::size_t tail = redrawn.size() / 40;
  return {value, redrawn[tail], redrawn[redrawn.size() - 1 - tail]};
}
}  // namespace detail

/// Two series of samples whose medians are compared: median(above) / median(below), or, where the samples were paired
/// and `above` holds their ratios, median(above) alone.
struct Comparison {
  std::vector<double> above;
  std::vector<double> below;

  /// The ratio, with medians taken by `middle`.
  template <class Median>
  [[nodiscard]] double ratio(const Median& middle) const {
    const double first = middle(above);
    return below.empty() ? first : first / middle(below);
  }
};

/// The geometric mean of several ratios, or one of them, with its interval by resampling each series.
[[nodiscard]] inline Estimate estimate_ratio(std::span<const Comparison> comparisons) {
  const auto mean = [&](const auto& middle) {
    std::vector<double> ratios;
    for (const Comparison& comparison : comparisons) ratios.push_back(comparison.ratio(middle));
    return geometric_mean(ratios);
  };
  Resampler resampler;
  std::vector<double> redrawn;
  for (int i = 0; i < detail::resamplings; ++i) {
    redrawn.push_back(mean([&](const std::vector<double>& values) { return resampler.median_of(values); }));
  }
  return detail::interval_of(mean([](const std::vector<double>& values) { return median(values); }),
                             std::move(redrawn));
}

}  // namespace bench

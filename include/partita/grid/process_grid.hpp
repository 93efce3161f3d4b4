// SPDX-License-Identifier: Apache-2.0
// The ranks of a grid at run time: coordinates, and one sub-communicator for each set of axes that is used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/axis_list.hpp"
#include "partita/comm/agree.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/context.hpp"
#include "partita/grid/axis.hpp"

namespace partita {

/// The extents, this rank's coordinates and the sub-communicators of a grid. Not a template on the grid's type, so
/// that what runs over a grid is compiled once for each context.
template <class Ctx>
class ProcessGrid {
 public:
  using comm_type = typename Ctx::comm_type;

  ProcessGrid(Ctx& context, std::span<const std::string_view> names, const AxisValues& extents)
      : context_(&context), extents_(extents) {
    for (std::size_t a = 0; a < names.size(); ++a) {
      axes_.push_back(static_cast<int>(a));
      names_.push_back(names[a]);
    }
    coordinates_ = coordinates_along(axes_, extents_, context.rank());
  }
  ProcessGrid(const ProcessGrid&) = delete;
  ProcessGrid& operator=(const ProcessGrid&) = delete;

  [[nodiscard]] Ctx& context() const noexcept { return *context_; }
  [[nodiscard]] const AxisValues& extents() const noexcept { return extents_; }
  [[nodiscard]] const AxisValues& coordinates() const noexcept { return coordinates_; }
  /// All axes in grid order.
  [[nodiscard]] const AxisList& axes() const noexcept { return axes_; }
  [[nodiscard]] std::string_view name(int axis) const { return names_.at(static_cast<std::size_t>(axis)); }

  /// The ranks that differ from this one along `axes` only, ordered as the grid is; made on first use.
  /// Communicates: the first call for a set of axes is collective over the whole grid.
  [[nodiscard]] comm_type& comm(const AxisList& axes) {
    const AxisList sorted = axes.sorted();
    if (sorted.size() == axes_.size()) return context_->comm();
    auto found = comms_.find(sorted.mask());
    if (found == comms_.end()) {
      const int color = index_along(axes_.without(sorted), extents_, coordinates_);
      found = comms_.emplace(sorted.mask(), std::move(*context_->comm().split(color, context_->rank()))).first;
    }
    return found->second;
  }

 private:
  Ctx* context_;
  AxisValues extents_;
  AxisValues coordinates_{};
  AxisList axes_;
  std::vector<std::string_view> names_;
  std::map<unsigned, comm_type> comms_;
};

/// A counted handle of a ProcessGrid whose axes are those of the type G. Cheap to copy.
template <class G, class Ctx>
class GridHandle {
 public:
  using grid_type = G;
  using context_type = Ctx;

  explicit GridHandle(std::shared_ptr<ProcessGrid<Ctx>> ranks) : ranks_(std::move(ranks)) {}

  [[nodiscard]] ProcessGrid<Ctx>& ranks() const noexcept { return *ranks_; }
  [[nodiscard]] Ctx& context() const noexcept { return ranks_->context(); }
  [[nodiscard]] const std::shared_ptr<ProcessGrid<Ctx>>& shared() const noexcept { return ranks_; }

  template <AxisTag Tag>
  [[nodiscard]] int extent() const noexcept {
    static_assert(G::template has<Tag>, "the grid has no such axis");
    return ranks_->extents()[static_cast<unsigned>(G::template position<Tag>)];
  }
  template <AxisTag Tag>
  [[nodiscard]] int coordinate() const noexcept {
    static_assert(G::template has<Tag>, "the grid has no such axis");
    return ranks_->coordinates()[static_cast<unsigned>(G::template position<Tag>)];
  }

 private:
  std::shared_ptr<ProcessGrid<Ctx>> ranks_;
};

namespace detail {

inline std::string grid_text(std::span<const std::string_view> names, const AxisValues& extents) {
  std::string text = "Grid<";
  for (std::size_t a = 0; a < names.size(); ++a) {
    text += (a == 0 ? "" : ", ") + std::string(names[a]) + " " + std::to_string(extents[a]);
  }
  return text + ">";
}

inline std::string rank_product(std::span<const std::string_view> names, const AxisValues& extents) {
  constexpr index_t most = index_t{1} << 40;  // beyond any machine
  index_t product = 1;
  std::string factors;
  for (std::size_t a = 0; a < names.size(); ++a) {
    if (product < most) product *= extents[a];
    if (a > 0) factors += '*';
    factors += std::to_string(extents[a]);
  }
  return (product < most ? std::to_string(product) : "more than 2^40") + " ranks (" + factors + ")";
}

struct Unnamed {
  std::string operator()(const AxisValues&) const { return {}; }
};

}  // namespace detail

/// Arranges the ranks of `context` in the grid type G; its dynamic extents are given in order. `name(extents)` is what
/// messages call it, where that is not empty.
/// Errors: GridError on all ranks, where the number of ranks is not the product of the extents.
/// Communicates: three agreements.
template <class G, class Ctx, class Name = detail::Unnamed>
[[nodiscard]] GridHandle<G, Ctx> make_grid_of(Ctx& context, std::span<const int> run_time_extents, Name name = {}) {
  AxisValues extents{};
  std::size_t given = 0;
  std::string objection;
  index_t product = 1;
  for (int a = 0; a < G::axis_count; ++a) {
    int extent = G::extents[a];
    if (extent == dynamic) {
      extent = given < run_time_extents.size() ? run_time_extents[given] : 0;
      ++given;
    }
    extents[static_cast<unsigned>(a)] = extent;
    if (product <= std::numeric_limits<int>::max()) product *= extent;
  }
  std::string subject = name(extents);
  if (subject.empty()) subject = detail::grid_text(G::names, extents);
  if (given != run_time_extents.size()) {
    objection = "GridError: " + std::to_string(run_time_extents.size()) + " extents given for a grid with " +
                std::to_string(given) + " dynamic axes";
  } else if (*std::min_element(extents.begin(), extents.begin() + G::axis_count) < 1) {
    objection = "GridError: " + subject + ": every axis needs an extent of at least 1";
  } else if (product != context.size()) {
    objection = "GridError: " + subject + " needs " + detail::rank_product(G::names, extents) +
                ", the communicator has " + std::to_string(context.size());
  }
  detail::agree_or_throw<GridError>(context.comm(), objection);
  // Ranks that ask for different extents of the same product would wait for each other for ever.
  std::uint64_t mixed = 0;
  for (int a = 0; a < G::axis_count; ++a) {
    mixed = mixed * 1000003U + static_cast<std::uint64_t>(extents[static_cast<unsigned>(a)]);
  }
  const auto code = static_cast<index_t>(mixed >> 4);
  if (context.comm().agree(code) != -context.comm().agree(-code)) {
    throw GridError("GridError: the ranks ask for different extents; this one for " + subject);
  }
  return GridHandle<G, Ctx>(std::make_shared<ProcessGrid<Ctx>>(context, G::names, extents));
}

}  // namespace partita

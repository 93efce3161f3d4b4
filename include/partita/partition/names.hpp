// SPDX-License-Identifier: Apache-2.0
// What a layout is called in messages.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "partita/base/axis_list.hpp"
#include "partita/partition/policies.hpp"

namespace partita {

/// "Depth, Row" for a list of axes.
[[nodiscard]] inline std::string axes_text(const AxisList& axes, std::span<const std::string_view> names) {
  std::string text;
  for (const int axis : axes) {
    if (!text.empty()) text += ", ";
    text += names[static_cast<std::size_t>(axis)];
  }
  return text;
}

/// The name of a layout, if it is one of the named policies on its grid, else empty. Two names can be one layout; the
/// first in this order is used: Replicated, ColumnShard, RowShard, Summa2D, Summa25D, Summa25DWeight, SplitKLeft.
[[nodiscard]] inline std::string_view policy_name(const Layout& layout, std::span<const std::string_view> names) {
  const auto is = [&](std::initializer_list<std::string_view> grid, const Layout& policy) {
    return std::equal(grid.begin(), grid.end(), names.begin(), names.end()) && layout == policy;
  };
  if (is({"Tp"}, Replicated<>::layout)) return "Replicated";
  if (is({"Tp"}, ColumnShard<>::layout)) return "ColumnShard";
  if (is({"Tp"}, RowShard<>::layout)) return "RowShard";
  if (is({"Row", "Col"}, Summa2D<>::layout)) return "Summa2D";
  if (is({"Row", "Col"}, transposed_t<Summa2D<>>::layout)) return "transposed(Summa2D)";
  if (is({"Depth", "Row", "Col"}, Summa25D<>::layout)) return "Summa25D";
  if (is({"Depth", "Row", "Col"}, transposed_t<Summa25D<>>::layout)) return "transposed(Summa25D)";
  if (is({"Depth", "Row", "Col"}, Summa25DWeight<>::layout)) return "Summa25DWeight";
  if (is({"Depth", "Row", "Col"}, transposed_t<Summa25DWeight<>>::layout)) return "transposed(Summa25DWeight)";
  if (is({"Depth", "Row", "Col"}, SplitKLeft<>::layout)) return "SplitKLeft";
  if (is({"Depth", "Row", "Col"}, transposed_t<SplitKLeft<>>::layout)) return "transposed(SplitKLeft)";
  return {};
}

/// "Summa25D<2,3>": the policy as it is written in code, with the extents of its grid; empty where it has no name.
[[nodiscard]] inline std::string policy_text(const Layout& layout, std::span<const std::string_view> names,
                                             const AxisValues& extents) {
  const std::string_view name = policy_name(layout, names);
  if (name.empty() || name.ends_with(")")) return {};
  const auto number = [&](std::size_t axis) { return std::to_string(extents[axis]); };
  const std::string arguments = names.size() == 1   ? number(0)
                                : names.size() == 2 ? number(0) + "," + number(1)
                                                    : number(1) + "," + number(0);  // q, d
  return std::string(name) + "<" + arguments + ">";
}

/// "Summa2D", or "{rows over Row; columns over Col, Depth; partial over Tp}" where the layout has no name.
[[nodiscard]] inline std::string layout_text(const Layout& layout, std::span<const std::string_view> names) {
  if (const std::string_view name = policy_name(layout, names); !name.empty()) return std::string(name);
  const auto part = [&](std::string_view what, const AxisList& axes) {
    return axes.empty() ? std::string() : std::string(what) + " over " + axes_text(axes, names) + "; ";
  };
  std::string text = part("rows", layout.rows) + part("columns", layout.cols) + part("partial", layout.partial);
  if (text.empty()) return "{replicated}";
  text.resize(text.size() - 2);
  return "{" + text + "}";
}

}  // namespace partita

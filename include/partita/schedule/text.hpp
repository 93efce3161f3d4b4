// SPDX-License-Identifier: Apache-2.0
// Steps in words: what explain(), messages and traces print.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "partita/partition/names.hpp"
#include "partita/schedule/count.hpp"

namespace partita {

[[nodiscard]] constexpr std::string_view name_of(StepKind kind) noexcept {
  switch (kind) {
    case StepKind::broadcast:
      return "broadcast";
    case StepKind::gemm:
      return "gemm";
    case StepKind::reduce:
      return "reduce";
    case StepKind::all_reduce:
      return "all_reduce";
    case StepKind::reduce_scatter:
      return "reduce_scatter";
    case StepKind::all_gather:
      return "all_gather";
    case StepKind::all_to_all_v:
      return "all_to_all_v";
    case StepKind::send_recv:
      return "send_recv";
  }
  return {};
}

[[nodiscard]] constexpr std::string_view name_of(Operand operand) noexcept {
  return operand == Operand::a ? "A" : operand == Operand::b ? "B" : "C";
}

[[nodiscard]] inline std::string to_string(Range r) { return std::to_string(r.begin) + ":" + std::to_string(r.end); }

/// "broadcast A[0:50, 10:20] along Col from 1", with global half-open ranges and ranks of the group.
[[nodiscard]] inline std::string to_string(const Step& step, std::span<const std::string_view> axis_names) {
  const std::string rectangle = "[" + to_string(step.block.rows) + ", " + to_string(step.block.cols) + "]";
  std::string text = std::string(name_of(step.kind)) + " " + std::string(name_of(step.operand)) + rectangle;
  if (step.kind == StepKind::gemm) return text + " over k " + to_string(step.k);
  text += " along " + axes_text(step.axes, axis_names);
  switch (step.kind) {
    case StepKind::broadcast:
      return text + " from " + std::to_string(step.root);
    case StepKind::reduce:
      return text + " to " + std::to_string(step.root);
    case StepKind::send_recv:
      return text + " to " + std::to_string(step.root) + ", from " + std::to_string(step.source);
    case StepKind::reduce_scatter:
    case StepKind::all_gather: {
      const Range own = step.parts.of(step.self);
      return text + ", own " + (step.parts.over_rows ? "rows " : "columns ") + to_string(own);
    }
    default:
      return text;
  }
}

[[nodiscard]] inline std::string to_string(const Count& count) {
  return std::to_string(count.messages) + " messages, " + std::to_string(count.elements) + " elements moved, " +
         std::to_string(count.flops) + " flops, at most " + std::to_string(count.workspace) +
         " elements of scratch memory";
}

/// One line a step; beyond `most` steps only their number is told.
template <class Schedule>
[[nodiscard]] std::string steps_text(const Schedule& schedule, std::span<const std::string_view> axis_names, int most) {
  std::string text;
  int steps = 0;
  schedule.for_each([&](const Step& step) {
    if (steps++ < most) text += "  " + to_string(step, axis_names) + "\n";
  });
  const int shown = most > 0 ? most : 0;
  if (steps > shown) text += "  ... and " + std::to_string(steps - shown) + " more\n";
  return text;
}

}  // namespace partita

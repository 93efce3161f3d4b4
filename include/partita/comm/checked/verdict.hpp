// SPDX-License-Identifier: Apache-2.0
// The judgement on the calls of all ranks: a function of what all of them see, so the same on each.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/comm/checked/errors.hpp"
#include "partita/comm/checked/record.hpp"

namespace partita::detail {

/// What one rank called. A record is null where the rank has not called; `latest` is then what it called last.
struct SeenCall {
  const CallRecord* record = nullptr;
  std::span<const Shape> shapes;  // of all_to_all_v: what is sent to each rank, then what is received from each
  std::string objection;          // why the rank refuses its own arguments
  std::string latest;
};

enum class Verdict { agree, missing, stray, differ, types, shapes, repeated };

struct Report {
  Verdict verdict = Verdict::agree;
  std::uint64_t step = 0;
  std::string text;
  std::vector<std::string> calls;
  std::string events;
};

[[noreturn]] inline void throw_report(const Report& r) {
  switch (r.verdict) {
    case Verdict::missing:
      throw MissingCall("MissingCall: " + r.text, r.step, r.calls, r.events);
    case Verdict::stray:
      throw ForeignThread("ForeignThread: " + r.text, r.step, r.calls);
    case Verdict::types:
      throw TypeMismatch("TypeMismatch: " + r.text, r.step, r.calls);
    case Verdict::shapes:
      throw ShapeMismatch("ShapeMismatch: " + r.text, r.step, r.calls);
    case Verdict::repeated:
      throw RepeatedSum("RepeatedSum: " + r.text, r.step, r.calls);
    default:
      throw CollectiveMismatch("CollectiveMismatch: " + r.text, r.step, r.calls);
  }
}

/// Whether what each rank sends is what each expects. Pre: an exchange on all ranks.
[[nodiscard]] inline bool exchanges_fit(std::span<const std::span<const Shape>> shapes) noexcept {
  const std::size_t ranks = shapes.size();
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      if (shapes[from].size() != 2 * ranks || shapes[to].size() != 2 * ranks) return false;
      if (shapes[from][to] != shapes[to][ranks + from]) return false;
    }
  }
  return true;
}

[[nodiscard]] inline std::string call_text(const SeenCall& call) {
  if (call.record == nullptr) return "has not called" + (call.latest.empty() ? "" : "; its latest: " + call.latest);
  std::string text = text_of(*call.record);
  if (call.record->kind == CallKind::all_to_all_v && !call.shapes.empty()) {
    const std::size_t ranks = call.shapes.size() / 2;
    for (std::size_t i = 0; i < call.shapes.size(); ++i) {
      text += (i == 0 ? ", sends " : i == ranks ? ", receives " : " ") + to_string(call.shapes[i]);
    }
  }
  if (call.record->refused != 0) text += ", which it refuses (" + call.objection + ")";
  if (call.record->stray != CallKind::none) {
    text += ", after " + std::string(name_of(call.record->stray)) + " from another thread";
  }
  return text;
}

/// The first field in which the calls are not all equal, or null.
[[nodiscard]] inline const CallField* first_difference(std::span<const SeenCall> calls) noexcept {
  for (const CallField& field : call_fields) {
    for (const SeenCall& call : calls) {
      if (field.of(*call.record) != field.of(*calls.front().record)) return &field;
    }
  }
  return nullptr;
}

/// "  rank 0: ..." for each rank that has something to say.
inline void append_calls(Report& report) {
  for (std::size_t r = 0; r < report.calls.size(); ++r) {
    if (!report.calls[r].empty()) report.text += "\n  rank " + std::to_string(r) + ": " + report.calls[r];
  }
}

[[nodiscard]] inline bool messages_fit(const CallRecord& a, const CallRecord& b) noexcept {
  return a.type == b.type && a.rows == b.rows && a.cols == b.cols;
}

/// Judges a message whose sides did not pass: `own`, of rank `rank`, and `other`, or null where nobody answered in
/// time; `latest` is then what all ranks called last. `answered`: the sides answer each other; else one came too late,
/// or they wait for each other in vain.
[[nodiscard]] inline Report judge_message(const SeenCall& own, const SeenCall* other, bool answered, int rank,
                                          std::vector<std::string> latest, const std::string& communicator,
                                          std::chrono::milliseconds limit) {
  const CallRecord& mine = *own.record;
  Report report{Verdict::differ, mine.sequence, "a message on " + communicator + ": ", std::move(latest), {}};
  const auto tell = [&report](std::int64_t of, const std::string& text) {
    std::string& line = report.calls[static_cast<std::size_t>(of)];
    line += (line.empty() ? "" : " and ") + text;
  };
  for (std::string& line : report.calls) line.insert(0, line.empty() ? "" : "its latest: ");
  if (other == nullptr) report.calls[static_cast<std::size_t>(rank)].clear();
  const bool sends_first = other != nullptr && other->record->kind < mine.kind;  // of a message to oneself
  if (sends_first) tell(mine.root, call_text(*other));
  tell(rank, call_text(own));
  if (other != nullptr && !sends_first) tell(mine.root, call_text(*other));

  const std::string waited = std::to_string(limit.count()) + " ms";
  if (other == nullptr) {
    report.verdict = Verdict::missing;
    report.text += "rank " + std::to_string(mine.root) + " has not answered within " + waited;
  } else if (other->record->kind == mine.kind) {
    report.text += std::string("both ranks wait in a ") + name_of(mine.kind) + ", and neither answers";
  } else if (other->record->tag != mine.tag) {
    report.text += "the two sides differ in the tag";
  } else if (!answered) {
    report.verdict = Verdict::missing;
    report.text += "one side came when the other had waited for " + waited + " and given up";
  } else if (other->record->type != mine.type) {
    report.verdict = Verdict::types;
    report.text += "the two sides differ in the type of the elements";
  } else {
    report.verdict = Verdict::shapes;
    report.text += "the two sides differ in the shape";
  }
  append_calls(report);
  return report;
}

/// Judges the calls of all ranks in rank order. `complete`: all have called, and none has given up waiting.
[[nodiscard]] inline Report judge(std::span<const SeenCall> calls, bool complete, std::uint64_t step,
                                  const std::string& communicator, std::chrono::milliseconds limit) {
  Report report;
  report.step = step;
  bool stray = false;
  bool repeated = true;
  bool exchange = true;
  std::vector<std::span<const Shape>> shapes;
  for (const SeenCall& call : calls) {
    report.calls.push_back(call_text(call));
    if (call.record == nullptr) {
      repeated = false;
      continue;
    }
    stray = stray || call.record->stray != CallKind::none;
    const CallRecord* first = calls.front().record;
    repeated = repeated && call.record->repeated != 0 && first != nullptr && call.record->repeated == first->repeated;
    exchange = exchange && call.record->kind == CallKind::all_to_all_v;
    shapes.push_back(call.shapes);
  }
  const std::string where = "call " + std::to_string(step) + " of " + communicator + ": ";
  if (!complete) {
    report.verdict = Verdict::missing;
    report.text = where + "not all ranks had called within " + std::to_string(limit.count()) + " ms";
  } else if (const CallField* field = first_difference(calls); stray) {
    report.verdict = Verdict::stray;
    report.text = where + "a communicator belongs to one thread, and another called it";
  } else if (field != nullptr) {
    const std::string_view what = field->what;
    report.verdict = what == "the type of the elements"            ? Verdict::types
                     : what == "the shape" || what == "the blocks" ? Verdict::shapes
                                                                   : Verdict::differ;
    report.text = where + "the ranks differ in " + field->what;
  } else if (exchange && !exchanges_fit(shapes)) {
    report.verdict = Verdict::shapes;
    report.text = where + "what a rank receives has another shape than what is sent";
  } else if (repeated) {
    report.verdict = Verdict::repeated;
    report.text =
        where + "all ranks sum in place what still is the result of the sum before; say touched() if that is meant";
  }
  if (report.verdict != Verdict::agree) append_calls(report);
  return report;
}

}  // namespace partita::detail

// SPDX-License-Identifier: Apache-2.0
// Comparing calls over a communicator that cannot carry them: two agreements, and a gather where more must be seen.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "partita/comm/checked/state.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

/// The calls of all ranks, by one all_gather of their records and shapes, which counts as a comparison.
template <class C>
[[nodiscard]] Report gather_calls(C& base, const CheckedCall& own, const CheckedState& state) {
  constexpr std::size_t record_words = sizeof(CallRecord) / 8;
  constexpr std::size_t text_words = 32;
  const auto ranks = static_cast<std::size_t>(base.size());
  const std::size_t words = record_words + text_words + 4 * ranks;
  std::vector<std::int64_t> mine(words);
  std::memcpy(mine.data(), &own.record, sizeof(CallRecord));
  std::memcpy(mine.data() + record_words, own.objection.data(), std::min(own.objection.size(), 8 * text_words - 1));
  for (std::size_t i = 0; i < own.shapes.size() && own.shapes.size() == 2 * ranks; ++i) {
    mine[record_words + text_words + 2 * i] = own.shapes[i].rows;
    mine[record_words + text_words + 2 * i + 1] = own.shapes[i].cols;
  }
  std::vector<std::int64_t> all(words * ranks);
  if constexpr (OnDevice<C>) {
    base.gather_words(mine, all);
  } else {
    std::vector<Block> blocks;
    for (int r = 0; r < base.size(); ++r) blocks.push_back({{r, r + 1}, {0, static_cast<index_t>(words)}});
    const Traffic before = base.traffic();
    base.all_gather(View<const std::int64_t>(row_view(mine.data(), static_cast<index_t>(words))),
                    View<std::int64_t>(all.data(), {base.size(), static_cast<index_t>(words)}),
                    std::span<const Block>(blocks))
        .wait();
    const Traffic moved = base.traffic() - before;
    state.log->comparisons.messages += moved.messages;
    state.log->comparisons.elements += moved.elements;
    state.log->comparisons.bytes += moved.bytes;
  }

  std::vector<CallRecord> records(ranks);
  std::vector<std::vector<Shape>> shapes(ranks);
  std::vector<SeenCall> seen(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int64_t* from = all.data() + r * words;
    std::memcpy(static_cast<void*>(&records[r]), from, sizeof(CallRecord));
    for (std::size_t i = 0; i < 2 * ranks; ++i) {
      const std::int64_t* shape = from + record_words + text_words + 2 * i;
      shapes[r].push_back({shape[0], shape[1]});
    }
    seen[r] = {&records[r], shapes[r], reinterpret_cast<const char*>(from + record_words), {}};
  }
  return judge(seen, true, own.record.sequence, state.text, state.options.deadline);
}

/// Compares the calls of all ranks; throws on all alike if they do not go together. A deadline of the communicator
/// underneath becomes MissingCall; it is then as dead as its own TimeoutError leaves it.
/// Communicates: two agreements; an all_gather for all_to_all_v, and where the calls differ.
template <class C>
void exchange_calls(C& base, CheckedCall& call, CheckedState& state) {
  constexpr std::uint64_t most = (std::uint64_t{1} << 60) - 1;
  const std::uint64_t digest = call.digest() & most;
  const std::uint64_t stray = call.record.stray != CallKind::none ? 1 : 0;
  const std::uint64_t fresh = call.record.repeated != 0 ? 0 : 1;
  Report report;
  try {
    const auto high = static_cast<std::uint64_t>(base.agree(static_cast<index_t>(2 * digest + stray)));
    const auto low = static_cast<std::uint64_t>(base.agree(static_cast<index_t>(2 * (most - digest) + fresh)));
    const bool equal = high / 2 == digest && low / 2 == most - digest;
    const bool fits = equal && high % 2 == 0 && low % 2 == 1;
    state.sent(call);
    if (fits && (call.record.kind != CallKind::all_to_all_v || call.record.refused != 0)) return;
    report = gather_calls(base, call, state);
  } catch (const TimeoutError& error) {
    report = {Verdict::missing, call.record.sequence, error.what(), {}, state.events()};
    report.text += "\n  rank " + std::to_string(base.rank()) + ": " + call_text(call.seen());
  }
  if (report.verdict != Verdict::agree) throw_report(report);
}

}  // namespace partita::detail

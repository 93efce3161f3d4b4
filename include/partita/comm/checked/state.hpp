// SPDX-License-Identifier: Apache-2.0
// One rank's end of a checked communicator: the call that is being made, and what its peers may see of it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "partita/comm/checked/inspection.hpp"
#include "partita/comm/checked/log.hpp"
#include "partita/comm/checked/sums.hpp"
#include "partita/comm/checked/verdict.hpp"

namespace partita {

struct CheckOptions {
  /// How long a rank waits for the calls of the others, where the communicator underneath carries inspections
  /// (ThreadComm does); elsewhere its own deadline holds.
  std::chrono::milliseconds deadline = std::chrono::seconds(2);
  /// Whether a sum in place of what the last such sum left is reported.
  bool repeated_sums = true;
};

namespace detail {

class CheckedState;

/// A call while it is compared; constant for its peers from when it is posted until all have examined it.
class CheckedCall final : public Inspection {
 public:
  CallRecord record;
  std::vector<Shape> shapes;  // of all_to_all_v
  std::string objection;
  CheckedState* state_of = nullptr;
  std::unique_ptr<Report> report;

  [[nodiscard]] bool examine(std::span<const Inspection* const> calls, bool complete) override;
  [[nodiscard]] SeenCall seen() const { return {&record, shapes, objection, {}}; }
  void seal() noexcept { glance_ = {digest_of(record), record.repeated, record.stray != CallKind::none}; }
  [[nodiscard]] std::uint64_t digest() const noexcept { return glance_.digest; }

 private:
  /// All that peers look at where the calls go together: one cache line, which the own rank leaves alone meanwhile.
  struct alignas(64) Glance {
    std::uint64_t digest = 0;
    std::uint64_t repeated = 0;
    bool stray = false;
  };

  [[nodiscard]] bool agrees(std::span<const Inspection* const> calls) const;
  [[nodiscard]] bool examine_message(const CheckedCall* other, bool answered);

  Glance glance_;
};

/// Kept alive by the communicator underneath as long as peers may look at it.
class CheckedState {
 public:
  /// More than a rank may have pending, so that no call is overwritten that a peer may still look at.
  static constexpr std::size_t call_count = 128;

  CheckedState(int own_rank, int ranks_of_all, std::string name, std::uint64_t number, std::shared_ptr<EventLog> events,
               CheckOptions chosen)
      : rank(own_rank),
        ranks(ranks_of_all),
        text(std::move(name)),
        id(number),
        log(std::move(events)),
        options(chosen),
        sums(own_rank, ranks_of_all) {
    log->name(id, text);
  }

  /// Starts the next call. Throws ForeignThread in a thread that is not the communicator's own.
  CheckedCall& open(CallKind kind) {
    check_thread(kind);
    CheckedCall& call = calls_[sequence % call_count];
    call.state = Inspection::State::idle;
    call.record = {};
    call.record.kind = kind;
    call.record.communicator = id;
    call.record.sequence = sequence;
    call.record.stray = stray_.load(std::memory_order_relaxed);
    call.state_of = this;
    return call;
  }
  /// The call is about to be posted.
  void log_call(CheckedCall& call) noexcept {
    call.seal();
    log->add(call.record);
  }
  /// The call has been posted, or compared: it counts.
  void sent(const CheckedCall& call) noexcept {
    ++sequence;
    if (call.record.stray != CallKind::none) stray_.store(CallKind::none);
  }
  /// The first thread that calls the communicator is its own.
  void check_thread(CallKind kind) {
    const std::thread::id me = std::this_thread::get_id();
    std::thread::id owner = owner_.load(std::memory_order_relaxed);
    if (owner == me) return;
    if (owner == std::thread::id() && owner_.compare_exchange_strong(owner, me)) return;
    stray_.store(kind);
    Report report;  // without a step: that is the own thread's to know
    report.verdict = Verdict::stray;
    report.text = std::string(name_of(kind)) + " on rank " + std::to_string(rank) + " of " + text +
                  " from a thread other than its own; let one thread make all calls, or hand it over by adopt()";
    report.calls.push_back(name_of(kind));
    throw_report(report);
  }
  void adopt() noexcept { owner_.store(std::this_thread::get_id()); }

  /// What rank m called last, as far as this rank can see it; empty where it cannot.
  [[nodiscard]] std::string latest_of(std::size_t m) const {
    return m < peers.size() ? peers[m]->last() : std::string();
  }
  [[nodiscard]] std::string latest_message_of(std::size_t m) const {
    return m < peers.size() ? peers[m]->last_and_message() : std::string();
  }
  [[nodiscard]] std::string events() const {
    std::string all;
    for (std::size_t m = 0; m < peers.size(); ++m) all += "  rank " + std::to_string(m) + ":\n" + peers[m]->text();
    return peers.empty() ? "  rank " + std::to_string(rank) + ":\n" + log->text() : all;
  }

  const int rank;
  const int ranks;
  const std::string text;
  const std::uint64_t id;
  const std::shared_ptr<EventLog> log;
  CheckOptions options;
  std::vector<std::shared_ptr<EventLog>> peers;  // by rank, where their memory can be reached
  SumGuard sums;
  std::uint64_t sequence = 0;
  std::uint64_t splits = 0;
  bool closed = false;

 private:
  std::array<CheckedCall, call_count> calls_;
  std::atomic<std::thread::id> owner_{};
  std::atomic<CallKind> stray_{CallKind::none};
};

inline bool CheckedCall::agrees(std::span<const Inspection* const> calls) const {
  bool all_repeated = true;
  for (const Inspection* inspection : calls) {
    if (inspection == nullptr) return false;
    const Glance& other = static_cast<const CheckedCall&>(*inspection).glance_;
    if (other.digest != glance_.digest || other.stray) return false;
    all_repeated = all_repeated && other.repeated != 0 && other.repeated == glance_.repeated;
  }
  if (all_repeated) return false;
  if (record.kind != CallKind::all_to_all_v || record.refused != 0) return true;
  std::vector<std::span<const Shape>> all;
  for (const Inspection* inspection : calls) all.push_back(static_cast<const CheckedCall&>(*inspection).shapes);
  return exchanges_fit(all);
}

inline bool CheckedCall::examine_message(const CheckedCall* other, bool answered) {
  if (answered && messages_fit(record, other->record)) return true;
  std::vector<std::string> latest(static_cast<std::size_t>(state_of->ranks));
  for (std::size_t m = 0; other == nullptr && m < latest.size(); ++m) latest[m] = state_of->latest_message_of(m);
  const SeenCall theirs = other != nullptr ? other->seen() : SeenCall{};
  // Where both have called, the receiver judges for the sender, whose options are its own to change.
  const auto limit = answered ? std::chrono::milliseconds(0) : state_of->options.deadline;
  report = std::make_unique<Report>(judge_message(seen(), other != nullptr ? &theirs : nullptr, answered,
                                                  state_of->rank, std::move(latest), state_of->text, limit));
  if (report->verdict == Verdict::missing) report->events = state_of->events();
  return false;
}

/// No data is looked at: the verdict costs a comparison of one word for each rank.
inline bool CheckedCall::examine(std::span<const Inspection* const> calls, bool complete) {
  if (record.is_message()) return examine_message(static_cast<const CheckedCall*>(calls[1]), complete);
  if (complete && agrees(calls)) return true;
  std::vector<SeenCall> seen_calls;
  for (std::size_t m = 0; m < calls.size(); ++m) {
    if (calls[m] != nullptr) {
      seen_calls.push_back(static_cast<const CheckedCall&>(*calls[m]).seen());
    } else {
      complete = false;
      seen_calls.push_back({nullptr, {}, {}, state_of->latest_of(m)});
    }
  }
  report = std::make_unique<Report>(
      judge(seen_calls, complete, record.sequence, state_of->text, state_of->options.deadline));
  if (report->verdict == Verdict::missing) report->events = state_of->events();
  return false;
}

}  // namespace detail
}  // namespace partita

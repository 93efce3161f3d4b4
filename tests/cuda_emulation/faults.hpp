// SPDX-License-Identifier: Apache-2.0
// Counts calls, and makes the chosen ones fail.
#pragma once

#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda_emulation/control.hpp"

namespace partita::cuda_emulation {

class Faults {
 public:
  Counters counters;
  static inline thread_local std::int64_t own_waits = 0;

  void add(const Fault& fault) { faults_.push_back(fault); }
  void add_dropped_wait(std::int64_t nth, int device) { drops_.push_back({nth, device, {}}); }
  void add_own_dropped_wait(std::int64_t nth) { drops_.push_back({nth, any_device, std::this_thread::get_id()}); }

  /// Counts a call; the code that it shall return instead of working, if any.
  std::optional<int> enter(Library library, std::string_view function, int device) {
    ++(library == Library::cuda ? counters.cuda : library == Library::cublas ? counters.cublas : counters.nccl);
    return next(library, function, device, false);
  }
  /// The asynchronous error that the NCCL operation `function` shall end with, if any.
  std::optional<int> asynchronous(std::string_view function, int device) {
    return next(Library::nccl, function, device, true);
  }
  bool drops_wait(int device) {
    ++counters.waits;
    ++own_waits;
    bool dropped = false;
    for (std::size_t i = 0; i < drops_.size();) {
      const bool other_thread = drops_[i].thread != std::thread::id{} && drops_[i].thread != std::this_thread::get_id();
      if (other_thread || (drops_[i].device != any_device && drops_[i].device != device)) {
        ++i;
      } else if (--drops_[i].nth > 0) {
        ++i;
      } else {
        drops_.erase(drops_.begin() + static_cast<std::ptrdiff_t>(i));
        dropped = true;
      }
    }
    if (dropped) ++counters.dropped_waits;
    return dropped;
  }

 private:
  struct Drop {
    std::int64_t nth;
    int device;
    std::thread::id thread;  // none: any
  };

  std::optional<int> next(Library of, std::string_view function, int device, bool asynchronous) {
    std::optional<int> code;
    for (std::size_t i = 0; i < faults_.size();) {
      Fault& f = faults_[i];
      const bool counts = f.called == of && f.asynchronous == asynchronous &&
                          (f.function.empty() || f.function == function) &&
                          (f.device == any_device || f.device == device);
      if (counts && --f.nth <= 0) {
        code = f.code;
        faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
        ++counters.faults;
      } else {
        ++i;
      }
    }
    return code;
  }

  std::vector<Fault> faults_;
  std::vector<Drop> drops_;
};

}  // namespace partita::cuda_emulation

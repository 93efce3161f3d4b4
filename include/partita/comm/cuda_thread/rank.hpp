// SPDX-License-Identifier: Apache-2.0
// What a rank on a shared device owns, and what outlives it: memory that peers' streams may still read.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "partita/comm/concepts.hpp"
#include "partita/comm/thread/group.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita::detail {

enum class CudaCall : std::uint8_t { none, broadcast, reduce, all_reduce, reduce_scatter, all_gather, all_to_all_v };

/// What a rank shows its peers of a collective. Constant from the first meeting on, but for `done`, which is constant
/// from the second one on; the rank writes it again after the next operation's first meeting.
struct CudaPost {
  CudaCall call = CudaCall::none;
  const char* name = "";
  const void* type = nullptr;
  int root = -1;
  ReduceOp op = ReduceOp::sum;
  Rectangle in;
  Rectangle out;
  std::vector<Rectangle> sends;
  CudaPoint ready;  // from here on peers may touch what the call names
  CudaPoint done;   // here the rank's stream has touched peers' memory for the last time
};

/// A block that is lent as a panel, and where its readers' streams are done with it.
struct CudaLoan {
  CudaLoan* self = this;
  const void* type = nullptr;
  Rectangle block;
  CudaAccess access;  // by its readers
  CudaPoint ready;
  std::vector<CudaPoint> done;  // of each rank of the communicator
};

/// What is sent, in memory of its own until it is received.
struct CudaMessage {
  const void* type = nullptr;
  Rectangle stage;
  CudaPoint ready;
};

/// What the ranks of one launch share. What a rank shows to peers lives here: it may leave by an exception while they
/// look at it. Streams, and memory that their work may still touch after a failure, end with the last rank.
struct CudaLaunch {
  CudaLaunch(int ranks, int of_device) : device(of_device), timelines(static_cast<std::size_t>(ranks)) {}
  CudaLaunch(const CudaLaunch&) = delete;
  CudaLaunch& operator=(const CudaLaunch&) = delete;
  ~CudaLaunch() {
    (void)cudaSetDevice(device);
    if (kept.empty() && messages.empty()) return;
    cudaStream_t last = nullptr;
    for (const auto& timeline : timelines) {
      if (timeline == nullptr) continue;
      last = timeline->compute();
      (void)cudaStreamSynchronize(timeline->compute());
      (void)cudaStreamSynchronize(timeline->communication());
    }
    for (void* memory : kept) (void)cudaFreeAsync(memory, last);
    for (const CudaMessage& message : messages) {
      if (message.stage.data != nullptr) (void)cudaFreeAsync(message.stage.data, last);
    }
  }

  std::mutex mutex;
  int device;
  std::atomic<bool> failed = false;  // a rank left an operation by an exception: streams may be in anybody's memory
  std::vector<std::shared_ptr<CudaTimeline>> timelines;
  std::list<CudaPost> posts;
  std::list<CudaLoan> loans;
  std::list<CudaMessage> messages;
  std::vector<void*> kept;
};

/// One rank, over all communicators that it has. Its own thread alone uses it.
struct CudaRank {
  std::shared_ptr<CudaLaunch> launch;
  std::shared_ptr<CudaTimeline> timeline;
  Traffic traffic{};
  int loans = 0;  // not known to be over

  void count(index_t messages, index_t elements, std::size_t bytes) noexcept {
    if (elements > 0) traffic.add(messages, elements, bytes);
  }
};

/// Device memory that outlives a peer's stream still reading it. Throws CapacityError.
[[nodiscard]] inline Memory allocate_beside_peers(const std::shared_ptr<CudaRank>& rank, std::size_t bytes) {
  if (bytes == 0) return Memory(nullptr, MemoryDeleter{});
  struct Owner {
    std::shared_ptr<CudaRank> rank;
    std::size_t bytes;
  };
  auto owner = std::make_unique<Owner>(Owner{rank, bytes});
  void* const data = rank->timeline->allocate(bytes);
  const auto free = [](void* memory, void* of) {
    const std::unique_ptr<Owner> last(static_cast<Owner*>(of));
    CudaRank& me = *last->rank;
    if (!me.launch->failed && me.loans == 0) return me.timeline->free(memory, last->bytes);
    const std::lock_guard lock(me.launch->mutex);
    me.launch->kept.push_back(memory);
  };
  return Memory(static_cast<std::byte*>(data), MemoryDeleter{free, owner.release()});
}

}  // namespace partita::detail

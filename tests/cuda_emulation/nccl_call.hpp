// SPDX-License-Identifier: Apache-2.0
// One call of an NCCL operation: what it moves, and which ranks it needs.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cuda_emulation/rectangle.hpp"

namespace partita::cuda_emulation {

enum class NcclKind {
  broadcast,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
  split
};

struct NcclCall {
  NcclKind kind = NcclKind::broadcast;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // of a message, the peer

  [[nodiscard]] const char* name() const;
  /// As it stands in reports: ncclReduce(16 float32, sum, root 0).
  [[nodiscard]] std::string text() const;
  /// True if the two can be one operation, as calls of two ranks.
  [[nodiscard]] bool matches(const NcclCall& other) const;
  [[nodiscard]] bool is_message() const { return kind == NcclKind::send || kind == NcclKind::recv; }
  [[nodiscard]] bool reduces() const {
    return kind == NcclKind::reduce || kind == NcclKind::all_reduce || kind == NcclKind::reduce_scatter;
  }

  /// What `rank` of `size` reads, and what it writes: in place, its own part is not written.
  [[nodiscard]] std::vector<Rectangle> sent(int rank, int size) const;
  [[nodiscard]] std::vector<Rectangle> received(int rank, int size) const;
  /// Empty, or why these buffers are not allowed.
  [[nodiscard]] std::string overlap_error(int rank, int size) const;
  /// Whether participant `index` receives data of participant `other`. Of a message, 0 sends and 1 receives.
  [[nodiscard]] bool receives_from(int index, int other) const;

 private:
  [[nodiscard]] std::size_t bytes() const;
};

[[nodiscard]] std::size_t nccl_size_of(ncclDataType_t type);
/// into[i] = into[i] (op) from[i], rounded to the type, as each step of a ring is.
void nccl_combine(ncclDataType_t type, ncclRedOp_t op, char* into, const char* from, std::size_t count);
/// into[i] /= ranks
void nccl_average(ncclDataType_t type, char* into, std::size_t count, int ranks);

}  // namespace partita::cuda_emulation

// SPDX-License-Identifier: Apache-2.0
// The control operations of MPI ranks: non-blocking collectives of MPI over a few numbers, with a deadline.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/mpi/world.hpp"

namespace partita::detail {

/// One collective of MPI. The numbers are the task's own: one that is given up stays alive with them.
class MpiControl final : public MpiTask {
 public:
  explicit MpiControl(const char* task_name) : MpiTask(task_name) {}
  bool advance() override { return MpiWorld::test(request); }

  MPI_Request request = MPI_REQUEST_NULL;
  index_t own = 0;
  std::vector<index_t> result;
};

inline void complete(MpiWorld& world, std::shared_ptr<MpiControl> task) {
  world.begin(task);
  if (!task->done) world.wait_until(task->name, [&task] { return task->done; });
}

/// Returns when all ranks have entered.
inline void control_barrier(MpiWorld& world, MPI_Comm comm, const char* name) {
  auto task = world.make<MpiControl>(name);
  mpi_check(MPI_Ibarrier(comm, &task->request), "MPI_Ibarrier");
  complete(world, std::move(task));
}

/// The largest value of all ranks. Pre: size > 1, or the value is its own maximum.
[[nodiscard]] inline index_t control_max(MpiWorld& world, MPI_Comm comm, const char* name, index_t value) {
  auto task = world.make<MpiControl>(name);
  task->own = value;
  task->result.resize(1);
  mpi_check(MPI_Iallreduce(&task->own, task->result.data(), 1, MPI_INT64_T, MPI_MAX, comm, &task->request),
            "MPI_Iallreduce");
  complete(world, task);
  return task->result[0];
}

/// The value of each rank.
[[nodiscard]] inline std::vector<index_t> control_gather(MpiWorld& world, MPI_Comm comm, int size, const char* name,
                                                         index_t value) {
  auto task = world.make<MpiControl>(name);
  task->own = value;
  task->result.resize(static_cast<std::size_t>(size));
  mpi_check(MPI_Iallgather(&task->own, 1, MPI_INT64_T, task->result.data(), 1, MPI_INT64_T, comm, &task->request),
            "MPI_Iallgather");
  complete(world, task);
  return std::move(task->result);
}

}  // namespace partita::detail

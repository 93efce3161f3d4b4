// SPDX-License-Identifier: Apache-2.0
// Copies and sums on a rank's stream for communication, of its own and of peers' device memory.
#pragma once

#include <cstddef>

#include "partita/comm/concepts.hpp"
#include "partita/comm/cuda_thread/endpoint.hpp"
#include "partita/cuda/sum.hpp"

namespace partita::detail {

/// Pre: equal shapes; the two are apart or one and the same.
template <class T>
void copy_on_stream(cudaStream_t stream, View<const T> in, View<T> out) {
  if (out.empty() || in.data == out.data) return;
  const auto bytes = [](index_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  const auto pitch = [bytes](const auto& view) { return bytes(view.rows == 1 ? view.cols : view.ld); };
  cuda_check(cudaMemcpy2DAsync(out.data, pitch(out), in.data, pitch(in), bytes(out.cols),
                               static_cast<std::size_t>(out.rows), cudaMemcpyDeviceToDevice, stream),
             "cudaMemcpy2DAsync");
}

/// The part of an all_reduce that a rank does for all: whole rows, where there are enough.
[[nodiscard]] inline Block part_of(Shape whole, int parts, int part) noexcept {
  if (whole.rows >= parts) return {balanced_chunk(whole.rows, parts, part), {0, whole.cols}};
  return {{0, whole.rows}, balanced_chunk(whole.cols, parts, part)};
}

/// The sum, or maximum, of input(r) of each rank r, into output(r) of `outputs` ranks.
template <class T, class Input, class Output>
void sum_on_stream(CudaEndpoint& end, ReduceOp op, Into into, Input input, int outputs, Output output) {
  using Device = typename SumScalar<T>::type;
  constexpr index_t parts = SumScalar<T>::parts;
  const View<T> first = output(0);
  RankSum<Device> sum;
  sum.rows = first.rows;
  sum.cols = first.cols * parts;
  sum.inputs = end.size();
  sum.outputs = outputs;
  sum.maximum = op == ReduceOp::max;
  sum.accumulates = into == Into::accumulate;
  for (int r = 0; r < end.size(); ++r) {
    const View<const T> in = input(r);
    sum.in[r] = {reinterpret_cast<const Device*>(in.data), in.ld * parts};
  }
  for (int r = 0; r < outputs; ++r) {
    const View<T> out = output(r);
    sum.out[r] = {reinterpret_cast<Device*>(out.data), out.ld * parts};
  }
  launch_sum(end.timeline().communication(), sum);
}

/// Waits for all peers whose memory is read.
inline void wait_for_all(CudaEndpoint& end) {
  for (int r = 0; r < end.size(); ++r) end.wait_for(r);
}

template <class T>
[[nodiscard]] View<const T> posted_input(const CudaEndpoint& end, int member) noexcept {
  return view_of<const T>(end.post_of(member).in);
}
template <class T>
[[nodiscard]] View<T> posted_output(const CudaEndpoint& end, int member) noexcept {
  return view_of<T>(end.post_of(member).out);
}

inline void check_inputs(const CudaEndpoint& end, Shape wanted) {
  for (int r = 0; r < end.size(); ++r) end.check_posted_shape(r, end.post_of(r).in, wanted);
}

template <class T>
void run_broadcast(CudaEndpoint& end, View<T> out, int root) {
  const bool sends = end.rank() == root;
  end.begin(CudaCall::broadcast, "broadcast", &type_tag<T>, root).out = rectangle(out);
  if (sends) {
    end.lent = {{cuda_access(View<const T>(out))}};
  } else {
    end.own = {cuda_access(out)};
  }
  end.run(
      [&] {
        end.check_posted_shape(root, end.post_of(root).out, out.shape());
        if (sends || out.empty()) return false;
        end.wait_for(root);
        copy_on_stream<T>(end.timeline().communication(), posted_output<T>(end, root), out);
        return true;
      },
      [&](int, const CudaPoint& done) {
        if (sends) end.timeline().owe(cuda_access(View<const T>(out)), done);
      });
  if (!sends) end.me->count(1, out.size(), sizeof(T));
}

template <class T>
void run_reduce(CudaEndpoint& end, View<const T> in, View<T> out, int root, Into into) {
  const bool receives = end.rank() == root;
  CudaPost& post = end.begin(CudaCall::reduce, "reduce", &type_tag<T>, root);
  post.in = rectangle(in);
  if (receives) {
    end.own = {cuda_access(in), cuda_access(out)};
  } else {
    end.lent = {{cuda_access(in), root}};
  }
  end.run(
      [&] {
        check_inputs(end, in.shape());
        if (!receives || in.empty()) return false;
        wait_for_all(end);
        sum_on_stream<T>(
            end, ReduceOp::sum, into, [&](int r) { return posted_input<T>(end, r); }, 1, [&](int) { return out; });
        return true;
      },
      [&](int, const CudaPoint& done) { end.timeline().owe(cuda_access(in), done); });
  if (!receives) end.me->count(1, in.size(), sizeof(T));
}

/// Each rank combines its part of all inputs, and writes it to all outputs. Only rank r touches part r of any buffer,
/// so inputs may be outputs.
template <class T>
void run_all_reduce(CudaEndpoint& end, View<const T> in, View<T> out, ReduceOp op) {
  CudaPost& post = end.begin(CudaCall::all_reduce, "all_reduce", &type_tag<T>, -1);
  post.in = rectangle(in);
  post.out = rectangle(out);
  post.op = op;
  const Block mine = part_of(in.shape(), end.size(), end.rank());
  end.own = {cuda_access(in.sub(mine)), cuda_access(out.sub(mine))};
  for (int r = 0; r < end.size(); ++r) {
    const Block part = part_of(in.shape(), end.size(), r);
    if (r == end.rank() || part.size() == 0) continue;
    end.lent.push_back({cuda_access(in.sub(part)), r});
    end.lent.push_back({cuda_access(out.sub(part)), r});
  }
  end.run(
      [&] {
        check_inputs(end, in.shape());
        if (mine.size() == 0) return false;
        wait_for_all(end);
        sum_on_stream<T>(
            end, op, Into::overwrite, [&](int r) { return posted_input<T>(end, r).sub(mine); }, end.size(),
            [&](int r) { return posted_output<T>(end, r).sub(mine); });
        return true;
      },
      [&](int r, const CudaPoint& done) {
        const Block part = part_of(in.shape(), end.size(), r);
        end.timeline().owe(cuda_access(out.sub(part)), done);
        if (in.data != out.data) end.timeline().owe(cuda_access(in.sub(part)), done);
      });
  for (int r = 0; r < end.size(); ++r) {
    const index_t chunk = balanced_chunk(in.size(), end.size(), r).size();
    if (r != end.rank()) end.me->count(2, 2 * chunk, sizeof(T));
  }
}

template <class T>
void run_reduce_scatter(CudaEndpoint& end, View<const T> in, View<T> out, std::span<const Block> blocks) {
  const auto block_of_rank = [&](int r) { return blocks[static_cast<std::size_t>(r)]; };
  end.begin(CudaCall::reduce_scatter, "reduce_scatter", &type_tag<T>, -1).in = rectangle(in);
  const Block mine = block_of_rank(end.rank());
  end.own = {cuda_access(in.sub(mine)), cuda_access(out)};
  for (int r = 0; r < end.size(); ++r) {
    if (r != end.rank() && block_of_rank(r).size() > 0) end.lent.push_back({cuda_access(in.sub(block_of_rank(r))), r});
  }
  end.run(
      [&] {
        check_inputs(end, in.shape());
        if (out.empty()) return false;
        wait_for_all(end);
        sum_on_stream<T>(
            end, ReduceOp::sum, Into::overwrite, [&](int r) { return posted_input<T>(end, r).sub(mine); }, 1,
            [&](int) { return out; });
        return true;
      },
      [&](int r, const CudaPoint& done) { end.timeline().owe(cuda_access(in.sub(block_of_rank(r))), done); });
  for (int r = 0; r < end.size(); ++r) {
    if (r != end.rank()) end.me->count(1, block_of_rank(r).size(), sizeof(T));
  }
}

template <class T>
void run_all_gather(CudaEndpoint& end, View<const T> in, View<T> out, std::span<const Block> blocks) {
  end.begin(CudaCall::all_gather, "all_gather", &type_tag<T>, -1).in = rectangle(in);
  if (end.size() > 1) end.lent = {{cuda_access(in)}};
  for (int r = 0; r < end.size(); ++r) {
    const Block block = blocks[static_cast<std::size_t>(r)];
    const bool stays = r == end.rank() && same_view<T>(in, out.sub(block));
    if (block.size() == 0 || stays) continue;
    end.own.push_back(cuda_access(out.sub(block)));
    if (r == end.rank()) end.own.push_back(cuda_access(in));
  }
  const bool copies = !end.own.empty();
  end.run(
      [&] {
        for (int i = 0; i < end.size(); ++i) {  // the next rank's first, so that not all read the same one
          const int r = (end.rank() + i) % end.size();
          const Block block = blocks[static_cast<std::size_t>(r)];
          end.check_posted_shape(r, end.post_of(r).in, block.shape());
          if (block.size() == 0) continue;
          end.wait_for(r);
          copy_on_stream<T>(end.timeline().communication(), posted_input<T>(end, r), out.sub(block));
        }
        return copies;
      },
      [&](int, const CudaPoint& done) { end.timeline().owe(cuda_access(in), done); });
  for (int r = 0; r < end.size(); ++r) {
    if (r != end.rank()) end.me->count(1, blocks[static_cast<std::size_t>(r)].size(), sizeof(T));
  }
}

template <class T>
void run_all_to_all_v(CudaEndpoint& end, std::span<const View<const T>> sends, std::span<const View<T>> receives) {
  const auto self = static_cast<std::size_t>(end.rank());
  CudaPost& post = end.begin(CudaCall::all_to_all_v, "all_to_all_v", &type_tag<T>, -1);
  for (std::size_t r = 0; r < sends.size(); ++r) {
    post.sends.push_back(rectangle(sends[r]));
    if (r != self && !sends[r].empty()) end.lent.push_back({cuda_access(sends[r]), static_cast<int>(r)});
    if (receives[r].empty() || (r == self && same_view<T>(sends[r], receives[r]))) continue;
    end.own.push_back(cuda_access(receives[r]));
    if (r == self) end.own.push_back(cuda_access(sends[r]));
  }
  const bool copies = !end.own.empty();
  end.run(
      [&] {
        for (int i = 0; i < end.size(); ++i) {
          const int r = (end.rank() + i) % end.size();
          const Rectangle& from = end.post_of(r).sends[self];
          const View<T> to = receives[static_cast<std::size_t>(r)];
          end.check_posted_shape(r, from, to.shape());
          if (to.empty()) continue;
          end.wait_for(r);
          copy_on_stream<T>(end.timeline().communication(), view_of<const T>(from), to);
        }
        return copies;
      },
      [&](int r, const CudaPoint& done) { end.timeline().owe(cuda_access(sends[static_cast<std::size_t>(r)]), done); });
  for (int r = 0; r < end.size(); ++r) {
    if (r != end.rank()) end.me->count(1, receives[static_cast<std::size_t>(r)].size(), sizeof(T));
  }
}

}  // namespace partita::detail

// SPDX-License-Identifier: Apache-2.0
// Between .npy files and distributed tensors: each rank reads, and writes, its own block only.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "partita/tensor/create.hpp"
#include "partita/tensor/npy_file.hpp"
#include "partita/tensor/npy_writer.hpp"

namespace partita {

namespace detail {

/// Calls work() on this rank. Where that throws on any rank, every rank throws FileError with the same text.
/// Communicates: an agreement (see agree_on_objection).
template <class Comm, class Work>
void together(Comm& comm, const Work& work) {
  std::string objection;
  try {
    work();
  } catch (const std::exception& error) {  // agreed below: peers must not go on into a collective alone
    objection = error.what();
    if (objection.empty()) objection = "FileError: an error without a text";
  }
  objection = agree_on_objection(comm, objection);
  if (!objection.empty()) throw FileError(objection);
}

/// The file of load_npy, mapped on every rank.
template <class Comm>
[[nodiscard]] NpyFile open_npy(Comm& comm, const std::string& path) {
  std::optional<NpyFile> file;
  together(comm, [&] { file.emplace(path); });
  return *std::move(file);
}

template <class T, class Comm>
void read_npy(Comm& comm, const NpyFile& file, Block block, View<T> out) {
  together(comm, [&] { file.read(block, out); });
}

/// Whether this rank is the first of those that hold its block: at 0 along every axis that the layout does not name.
template <class Ctx>
[[nodiscard]] bool holds_first_copy(const ProcessGrid<Ctx>& grid, const Layout& layout) {
  for (const int axis : grid.axes()) {
    if (!layout.names(axis) && grid.coordinates()[static_cast<unsigned>(axis)] != 0) return false;
  }
  return true;
}

/// save_npy() of a tensor of `shape` whose rectangle `block` this rank writes, or nothing where `values` is empty.
template <class T, class Comm>
void write_npy(Comm& comm, const std::string& path, Shape shape, Block block, View<const T> values) {
  const bool makes_file = comm.rank() == 0;
  std::optional<NpyWriter> writer;
  together(comm, [&] {
    if (makes_file) writer.emplace(path, npy_type_of<T>(), shape);
  });
  std::uint64_t token = makes_file ? writer->token() : 0;
  const index_t high = comm.agree(static_cast<index_t>(token >> 32));
  const index_t low = comm.agree(static_cast<index_t>(token & 0xffffffffU));
  token = static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);

  together(comm, [&] {
    if (values.empty()) return;
    if (!makes_file) writer.emplace(NpyWriter::join(path, token));
    writer->write(block, values);
    if (!makes_file) writer->commit();
  });
  together(comm, [&] {
    if (makes_file) writer->commit();
  });
}

}  // namespace detail

/// The matrix in a .npy file as a tensor with partition P: load_npy<double, Summa2D<>>(grid, "a.npy"). Every rank maps
/// the file and reads the pages of its own block; elements convert to T with one rounding (see NpyFile::read). A 1-D
/// array of n elements is n×1.
/// Errors, the same on all ranks: FileError for a file that a rank cannot open or read, that is malformed, or whose
/// elements do not convert to T; ShapeError where ranks see files of different shapes; those of DistTensor.
/// Communicates: two agreements, and those of the tensor's construction.
template <NpyScalar T, class P, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> load_npy(const GridHandle<G, Ctx>& grid, const std::string& path,
                                             Units units = {}) {
  static_assert(P::layout.partial.empty(), "load_npy(): a partition with a pending sum has no single decomposition");
  auto& comm = grid.context().comm();
  const NpyFile file = detail::open_npy(comm, path);
  DistTensor<T, P, Ctx> tensor(grid_as<typename P::grid_type>(grid), file.shape(), units);
  detail::fill(tensor.context().backend(), tensor.local(),
               [&](View<T> local) { detail::read_npy(comm, file, tensor.block(), local); });
  return tensor;
}

/// Writes the whole matrix to `path`, in C order, as npy_type_of<T>(). Of ranks that hold the same block the first one
/// writes it. The bytes go to a file beside `path`, which takes its name when all ranks have written: where any rank
/// fails, `path` is left as it was, and nothing beside it.
/// Errors, the same on all ranks: FileError.
/// Communicates: five agreements.
template <NpyScalar T, class P, class Ctx>
void save_npy(const DistTensor<T, P, Ctx>& tensor, const std::string& path) {
  static_assert(P::layout.partial.empty(),
                "save_npy(): the tensor is a pending sum; finish it with matmul<Result> first");
  const ProcessGrid<Ctx>& grid = tensor.grid().ranks();
  const bool writes = detail::holds_first_copy(grid, P::layout);
  detail::read_on_host(grid.context(), writes ? tensor.local() : View<const T>(), [&](View<const T> values) {
    detail::write_npy<T>(grid.context().comm(), path, tensor.shape(), tensor.block(), values);
  });
}

}  // namespace partita

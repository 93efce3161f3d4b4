// SPDX-License-Identifier: Apache-2.0
// load_npy and save_npy: any partition to any other through a file, and failures that all ranks see alike.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "partita/backend/eigen.hpp"
#include "partita/comm/launch.hpp"
#include "partita/context.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/gather.hpp"
#include "partita/tensor/npy.hpp"
#include "support/scratch_directory.hpp"

namespace partita {
namespace {

using Ctx = Context<EigenBackend, ThreadComm>;

using Scratch = test::ScratchDirectory;

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  REQUIRE(file.flush().good());
}

template <class T>
T element(index_t i, index_t j) {
  if constexpr (is_complex_v<T>) {
    using R = typename T::value_type;
    return T(static_cast<R>(100 * i + j), static_cast<R>(i - j));
  } else if constexpr (is_storage_only_v<T>) {
    return T(static_cast<float>(10 * i + j));
  } else {
    return static_cast<T>(1000 * i + j);
  }
}

/// What each rank throws in body(context): the types and the texts.
struct Verdicts {
  std::mutex mutex;
  int file_errors = 0;
  int shape_errors = 0;
  std::vector<std::string> texts;

  template <class Body>
  void record(const Body& body) {
    try {
      body();
    } catch (const FileError& error) {
      const std::lock_guard lock(mutex);
      ++file_errors;
      texts.emplace_back(error.what());
    } catch (const ShapeError& error) {
      const std::lock_guard lock(mutex);
      ++shape_errors;
      texts.emplace_back(error.what());
    }
  }
  [[nodiscard]] bool one_text() const {
    return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text == texts.front(); });
  }
};

/// Saves under `From`, loads under `To`, and compares every element that a rank holds.
template <class T, class From, class To>
void round_trip(const std::vector<int>& extents, Shape shape, Units from_units = {}, Units to_units = {}) {
  const Scratch scratch;
  const std::string path = scratch.path("x.npy");
  int ranks = 1;
  for (const int extent : extents) ranks *= extent;
  CAPTURE(to_string(shape));
  CAPTURE(ranks);
  launch_threads(ranks, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid_of<typename From::grid_type>(context, extents);
    const auto saved = from_function<T, From>(grid, shape, element<T>, from_units);
    save_npy(saved, path);
    const auto loaded = load_npy<T, To>(grid, path, to_units);
    REQUIRE(loaded.shape() == shape);
    REQUIRE(loaded.units() == to_units);
    const Block block = loaded.block();
    index_t wrong = 0;
    for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
      for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
        if (loaded.local()(i - block.rows.begin, j - block.cols.begin) != element<T>(i, j)) ++wrong;
      }
    }
    REQUIRE(wrong == 0);
  });
  REQUIRE(scratch.names() == std::vector<std::string>{"x.npy"});
  const NpyFile file(path);
  REQUIRE(file.header().dtype == npy_type_of<T>());
  REQUIRE(file.shape() == shape);
}

TEST_CASE("what one partition saves any other loads") {
  for (const Shape shape :
       {Shape{7, 5}, Shape{13, 11}, Shape{1, 1}, Shape{2, 9}, Shape{0, 4}, Shape{3, 0}, Shape{64, 64}}) {
    round_trip<double, RowShard<>, ColumnShard<>>({3}, shape);
    round_trip<float, Replicated<>, RowShard<>>({4}, shape);
    round_trip<float, ColumnShard<>, Replicated<>>({5}, shape);
    round_trip<double, Summa2D<>, transposed_t<Summa2D<>>>({2, 3}, shape);
    round_trip<double, Summa25D<>, Summa25DWeight<>>({2, 2, 2}, shape);
    round_trip<std::complex<float>, SplitKLeft<>, Summa25D<>>({3, 2, 2}, shape);
    round_trip<double, Summa25DWeight<>, SplitKLeft<>>({2, 3, 3}, shape);
  }
}

TEST_CASE("every scalar, and integers") {
  round_trip<float, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<double, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<std::complex<float>, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<std::complex<double>, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<half, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<bfloat16, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
  round_trip<std::int64_t, Summa2D<>, Summa2D<>>({2, 2}, {7, 9});
}

TEST_CASE("units decide where a loaded tensor is cut") {
  round_trip<double, Summa2D<>, Summa2D<>>({2, 3}, {12, 20}, {}, {4, 5});
  round_trip<double, RowShard<>, ColumnShard<>>({3}, {10, 9}, {3, 1}, {1, 4});
}

TEST_CASE("elements convert, and a replacement is complete") {
  const Scratch scratch;
  const std::string path = scratch.path("x.npy");
  launch_threads(4, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<Summa2D<>>(context, 2, 2);
    save_npy(from_function<double, Summa2D<>>(grid, {40, 30}, element<double>), path);
    save_npy(from_function<float, Summa2D<>>(grid, {5, 3}, element<float>), path);  // smaller, of another type
    const auto wide = gather(load_npy<std::complex<double>, Summa2D<>>(grid, path));
    REQUIRE(wide.shape == Shape{5, 3});
    for (index_t i = 0; i < 5; ++i) {
      for (index_t j = 0; j < 3; ++j) REQUIRE(wide(i, j) == std::complex<double>(element<double>(i, j)));
    }
  });
  CHECK(scratch.names() == std::vector<std::string>{"x.npy"});
}

TEST_CASE("of replicas the first is written") {
  const Scratch scratch;
  const std::string path = scratch.path("x.npy");
  launch_threads(8, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<Summa25DWeight<>>(context, 2, 2, 2);
    auto tensor = from_function<double, Summa25DWeight<>>(grid, {5, 7}, element<double>);
    if (grid.coordinate<Depth>() != 0) {  // a copy that nobody may write
      for (index_t i = 0; i < tensor.local().size(); ++i) tensor.local().data[i] = -1;
    }
    save_npy(tensor, path);
    const auto whole = load_npy<double, Summa25D<>>(grid, path);
    for (index_t i = 0; i < whole.local().size(); ++i) REQUIRE(whole.local().data[i] >= 0);
  });
}

TEST_CASE("a file that is missing or broken is a FileError with one text on all ranks, and the ranks go on") {
  const Scratch scratch;
  const std::string path = scratch.path("x.npy");
  const std::string broken = scratch.path("broken.npy");
  write_file(broken, "no header");
  Verdicts missing, empty, complex, later;
  launch_threads(6, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<Summa2D<>>(context, 2, 3);
    missing.record([&] { static_cast<void>(load_npy<double, Summa2D<>>(grid, scratch.path("none.npy"))); });
    empty.record([&] { static_cast<void>(load_npy<double, Summa2D<>>(grid, broken)); });
    save_npy(from_function<std::complex<float>, Summa2D<>>(grid, {7, 7}, element<std::complex<float>>), path);
    complex.record([&] { static_cast<void>(load_npy<float, Summa2D<>>(grid, path)); });
    later.record([&] { static_cast<void>(load_npy<std::complex<float>, Summa2D<>>(grid, path)); });
  });
  CHECK(missing.file_errors == 6);
  CHECK(missing.one_text());
  CHECK(missing.texts.front().find("none.npy: cannot be read: No such file") != std::string::npos);
  CHECK(empty.file_errors == 6);
  CHECK(empty.one_text());
  CHECK(complex.file_errors == 6);
  CHECK(complex.one_text());
  CHECK(later.file_errors == 0);
}

TEST_CASE("an element that only one rank reads and cannot convert stops all with its text") {
  const Scratch scratch;
  const std::string path = scratch.path("x.npy");
  {
    std::string text = format_npy_header(NpyType::uint64, {4, 1});
    const std::uint64_t values[4] = {1, 2, ~std::uint64_t{0}, 4};
    text.append(reinterpret_cast<const char*>(values), sizeof values);
    write_file(path, text);
  }
  Verdicts verdicts;
  launch_threads(4, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<RowShard<>>(context, 4);
    verdicts.record([&] { static_cast<void>(load_npy<std::int64_t, RowShard<>>(grid, path)); });
  });
  CHECK(verdicts.file_errors == 4);
  CHECK(verdicts.one_text());
  CHECK(verdicts.texts.front().find("18446744073709551615 does not fit int64") != std::string::npos);
}

TEST_CASE("ranks that see files of different shapes throw the same error") {
  const Scratch scratch;
  Verdicts verdicts;
  launch_threads(3, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<RowShard<>>(context, 3);
    save_npy(zeros<float, RowShard<>>(grid, {4, 4}), scratch.path("0.npy"));
    save_npy(zeros<float, RowShard<>>(grid, {4, 5}), scratch.path("1.npy"));
    const std::string path = scratch.path(context.rank() == 1 ? "1.npy" : "0.npy");
    verdicts.record([&] { static_cast<void>(load_npy<float, RowShard<>>(grid, path)); });
  });
  CHECK(verdicts.shape_errors == 3);
}

/// Whether save_npy to `path` is refused on all ranks of a 2×2 grid, with one text.
bool refused(const std::string& path, Shape shape) {
  Verdicts verdicts;
  launch_threads(4, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<Summa2D<>>(context, 2, 2);
    const auto tensor = from_function<double, Summa2D<>>(grid, shape, element<double>);
    verdicts.record([&] { save_npy(tensor, path); });
  });
  return verdicts.file_errors == 4 && verdicts.one_text();
}

TEST_CASE("a write that fails is a FileError on all ranks and leaves no file") {
  const Scratch scratch;
  CHECK(refused(scratch.path("no/such/directory/x.npy"), {3, 3}));
  CHECK(refused(scratch.path(""), {3, 3}));  // a directory
  CHECK(scratch.names().empty());

  // A limit on the size of files makes the system refuse as a full disk does.
  struct rlimit old = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old;
  limit.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const bool large = refused(scratch.path("x.npy"), {64, 64});
  const bool small = refused(scratch.path("small.npy"), {4, 4});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  ::signal(SIGXFSZ, handler);
  CHECK(large);
  CHECK_FALSE(small);
  CHECK(scratch.names() == std::vector<std::string>{"small.npy"});
}

TEST_CASE("a failure of one rank that is not the maker leaves no file") {
  const Scratch scratch;
  Verdicts verdicts;
  launch_threads(4, [&](ThreadComm comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<RowShard<>>(context, 4);
    const auto tensor = from_function<double, RowShard<>>(grid, {8, 8}, element<double>);
    // The last rank names another path, beside which nobody has made a file.
    const std::string path = scratch.path(context.rank() == 3 ? "y.npy" : "x.npy");
    verdicts.record([&] { save_npy(tensor, path); });
  });
  CHECK(verdicts.file_errors == 4);
  CHECK(verdicts.one_text());
  CHECK(scratch.names().empty());
}

TEST_CASE("objections of any length travel whole, and the highest rank's is told") {
  for (const std::size_t length : {1U, 6U, 7U, 8U, 13U, 14U, 500U}) {
    launch_threads(3, [&](ThreadComm comm) {
      std::string mine;
      if (comm.rank() > 0) mine = std::string(length, static_cast<char>('a' + comm.rank())) + "\xff";
      const std::string told = detail::agree_on_objection(comm, mine);
      REQUIRE(told == std::string(length, 'c') + "\xff");
      REQUIRE(detail::agree_on_objection(comm, std::string()).empty());
    });
  }
}

}  // namespace
}  // namespace partita

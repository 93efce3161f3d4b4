// SPDX-License-Identifier: Apache-2.0
// One product of two .npy files under one policy, as a rank runs it: load, multiply, time, count. threads.cpp, mpi.cpp
// and devices.cpp compile it, once for each kind of ranks.
#pragma once

#include <chrono>
#include <complex>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "partita/partita.hpp"
#ifdef MATMUL_FILES_BLAS
#include "partita/backend/blas.hpp"
#endif
#include "policies.hpp"

namespace matmul_files {

#ifdef MATMUL_FILES_BLAS
using RankBackend = BlasBackend;
#else
using RankBackend = EigenBackend;
#endif

/// What a rank moves is counted from the calls of its communicator.
template <class Comm>
using RankContext = Context<RankBackend, CountingComm<Comm>>;

/// One rank: files are read and written in `host`; products run in `compute`, which is the same context unless ranks
/// have devices.
template <class HostT, class ComputeT = HostT>
struct Rank {
  using Host = HostT;
  using Compute = ComputeT;
  Host& host;
  Compute& compute;
};
template <class Comm>
using HostRank = Rank<RankContext<Comm>>;

/// An error of the job that every rank throws, with the same text.
struct JobError : Error {
  using Error::Error;
};

/// What to multiply, and how: C = alpha·op(A)·op(B) + beta·C0.
struct Job {
  std::string a{}, b{}, c0{};  // .npy files; c0 may be empty: zeros
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  int repeat = 1;
  MatmulOptions options{};
  std::string output{};  // where the result goes; may be empty
};

/// Messages and bytes that one rank moved in each product: as counted, and as its schedule predicts.
struct Moved {
  index_t messages = 0, bytes = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};
struct RankMoved {
  Moved counted, predicted;
};

/// What is known when a job is done. The schedule is that of the rank that holds the report.
struct Report {
  std::string algorithm{}, strategy{}, grid{}, schedule{}, steps{};
  std::vector<double> seconds{};  // of each product: the slowest rank's
  std::vector<RankMoved> ranks{};
};

/// The grid of G's ranks, for files and for products.
template <class G, class Host, class Compute>
struct Grids {
  Grids(Host& files, Compute& products, std::span<const int> extents)
      : host(make_grid_of<G>(files, extents)), compute(beside(host, products, extents)) {}

  GridHandle<G, Host> host;
  GridHandle<G, Compute> compute;

 private:
  static auto beside(const GridHandle<G, Host>& host, Compute& products, std::span<const int> extents) {
    if constexpr (std::is_same_v<Host, Compute>) {
      return host;
    } else {
      return make_grid_of<G>(products, extents);
    }
  }
};

/// The tensor where products run, or where files are written.
template <class G, class Ctx, class T, class P, class From>
DistTensor<T, P, Ctx> brought(const GridHandle<G, Ctx>& grid, DistTensor<T, P, From> x) {
  if constexpr (std::is_same_v<From, Ctx>) {
    return x;
  } else {
    return to(grid, x);
  }
}

/// One operand: a tensor with partition P, or, where the file holds the transpose, one with the transposed partition.
/// Either way view() is op(X) with partition P.
template <class T, class P, class Ctx>
class FileOperand {
 public:
  template <class GridsT>
  FileOperand(const GridsT& grids, const std::string& path, bool transpose)
      : stored_(transpose ? Stored(std::in_place_index<1>,
                                   brought(grids.compute, load_npy<T, transposed_t<P>>(grids.host, path)))
                          : Stored(std::in_place_index<0>, brought(grids.compute, load_npy<T, P>(grids.host, path)))) {}

  [[nodiscard]] TensorView<T, P, Ctx> view() const {
    if (stored_.index() == 0) return as_view(std::get<0>(stored_));
    return transposed(std::get<1>(stored_));
  }

 private:
  using Stored = std::variant<DistTensor<T, P, Ctx>, DistTensor<T, transposed_t<P>, Ctx>>;
  Stored stored_;
};

/// A tensor of the job, as make() returns it: where one rank has no memory for its block, all throw JobError.
template <class Make>
auto made(const Make& make) {
  try {
    return make();
  } catch (const CapacityError& error) {
    throw JobError(error.what());
  }
}

/// A factor of the command line as a scalar of the product.
template <class T>
T factor(double x) {
  if constexpr (is_complex_v<T>) {
    return T(static_cast<typename T::value_type>(x));
  } else {
    return static_cast<T>(x);
  }
}

/// "Row 2 x Col 4".
inline std::string grid_text(std::span<const std::string_view> names, const AxisValues& extents) {
  std::string text;
  for (std::size_t a = 0; a < names.size(); ++a) {
    text += (a == 0 ? "" : " x ") + std::string(names[a]) + " " + std::to_string(extents[a]);
  }
  return text;
}

/// "3 panels: 6 broadcast, 3 gemm".
inline std::string schedule_text(const ProductSchedule& schedule) {
  index_t panels = 0;
  std::map<StepKind, index_t> steps;
  schedule.for_each([&](const Step& step) {
    if (step.kind == StepKind::gemm && step.last) ++panels;
    ++steps[step.kind];
  });
  std::string text = std::to_string(panels) + (panels == 1 ? " panel" : " panels");
  for (const auto& [kind, count] : steps) {
    text += (kind == steps.begin()->first ? ": " : ", ") + std::to_string(count) + " " + std::string(name_of(kind));
  }
  return text;
}

/// The entries of all ranks, on all ranks.
template <class Host>
std::vector<RankMoved> gather_moved(Host& context, const RankMoved& own) {
  const index_t size = context.size();
  const index_t mine[] = {own.counted.messages, own.counted.bytes, own.predicted.messages, own.predicted.bytes};
  Matrix<index_t> all(Shape{size, 4});
  std::vector<Block> rows;
  for (index_t rank = 0; rank < size; ++rank) rows.push_back({{rank, rank + 1}, {0, 4}});
  context.comm().all_gather(View<const index_t>(mine, 1, 4, 4), all.view(), rows).wait();
  std::vector<RankMoved> ranks;
  for (index_t rank = 0; rank < size; ++rank) {
    ranks.push_back({{all(rank, 0), all(rank, 1)}, {all(rank, 2), all(rank, 3)}});
  }
  return ranks;
}

/// Runs the products of a job on this rank, and notes how long each took and what it moved. `reset` restores the old
/// values of C, `product` multiplies. Throws JobError where the count of what moved is not what the schedule predicts.
template <class R>
void time_products(const R& rank, const Job& job, const Moved& predicted, Report& report,
                   const std::function<void()>& reset, const std::function<void()>& product) {
  auto& host = rank.host.comm();
  auto& compute = rank.compute.comm();
  RankMoved moved{{}, predicted};
  std::string objection;
  for (int i = 0; i < job.repeat; ++i) {
    reset();
    rank.compute.sync();
    host.barrier();
    const Traffic before = compute.traffic();
    const auto start = std::chrono::steady_clock::now();
    product();
    rank.compute.sync();
    host.barrier();  // ranks may outnumber cores: one that starts late is waited for
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    const Traffic traffic = compute.traffic() - before;
    moved.counted = {traffic.messages, traffic.bytes};
    if (moved.counted != predicted && objection.empty()) {
      objection = "rank " + std::to_string(rank.host.rank()) + " moved " + std::to_string(traffic.messages) +
                  " messages and " + std::to_string(traffic.bytes) + " bytes, its schedule says " +
                  std::to_string(predicted.messages) + " and " + std::to_string(predicted.bytes);
    }
    const index_t slowest = host.agree(time.count());
    report.seconds.push_back(static_cast<double>(slowest) * 1e-9);
  }
  detail::agree_or_throw<JobError>(host, objection);
  report.ranks = gather_moved(rank.host, moved);
}

/// What a rank does with its block of the result: called on all ranks, with the block's global rectangle.
template <class T>
using Use = std::function<void(const Report&, Block, View<const T>)>;

/// Runs the job on this rank of a grid of the given extents, lets `use` see the result, and writes it to job.output.
template <class T, class Left, class Right, class R>
Report multiply_under(const R& rank, std::span<const int> extents, const Job& job, const Use<T>& use) {
  using Ctx = typename R::Compute;
  const Grids<typename Left::grid_type, typename R::Host, Ctx> grids(rank.host, rank.compute, extents);
  const auto left = made([&] { return FileOperand<T, Left, Ctx>(grids, job.a, job.transpose_a); });
  const auto right = made([&] { return FileOperand<T, Right, Ctx>(grids, job.b, job.transpose_b); });
  const auto a = left.view();
  const auto b = right.view();

  // The rule of the two partitions gives the partition of the result, ...
  using Rule = MatmulRule<Left, Right>;
  using Result = DistTensor<T, typename Rule::result, Ctx>;
  const Shape shape{a.shape.rows, b.shape.cols};
  std::optional<Result> c0;
  if (!job.c0.empty()) {
    c0.emplace(made([&] { return brought(grids.compute, load_npy<T, typename Rule::result>(grids.host, job.c0)); }));
  }
  Result c = made([&] { return c0 ? c0->clone() : Result(grids.compute, shape); });

  // ... and the schedule, which is executed, priced and printed.
  const ProductGeometry geometry = product_geometry(a, b);
  const ProductSchedule schedule = Rule::schedule(geometry, job.options);
  Report report;
  const Count price = job.alpha == 0 ? Count{} : count_of(schedule);  // alpha = 0 reads neither A nor B
  time_products(
      rank, job, {price.messages, price.elements * static_cast<index_t>(sizeof(T))}, report,
      [&] {
        if (c0) rank.compute.backend().copy(std::as_const(*c0).local(), c.local());
      },
      [&] { matmul_into(c, a, b, factor<T>(job.alpha), factor<T>(job.beta), job.options); });

  const std::span<const std::string_view> names(Left::grid_type::names);
  report.algorithm = name_of(Rule::plan.plan.algorithm);
  report.strategy = layout_text(Left::layout, names) + " x " + layout_text(Right::layout, names) + " -> " +
                    layout_text(Rule::result::layout, names) + ", " + plan_text(Rule::plan, names);
  report.grid = grid_text(names, geometry.extents);
  report.schedule = schedule_text(schedule);
  report.steps = steps_text(schedule, names, 40);
  const auto result = brought(grids.host, std::move(c));
  use(report, result.block(), result.local());
  if (!job.output.empty()) save_npy(result, job.output);
  return report;
}

/// Runs the job with scalar T under a policy: called on all ranks of contexts of as many as the grid has.
/// Errors, the same on all ranks: FileError, ShapeError, JobError; those of `use`; those of the communicator.
template <class T, class R>
Report multiply_files(const R& rank, const AnyPolicy& policy, std::span<const int> extents, const Job& job,
                      const Use<T>& use) {
  return std::visit(
      [&]<class Left, class Right>(const Policy<Left, Right>&) -> Report {
        return multiply_under<T, Left, Right>(rank, extents, job, use);
      },
      policy);
}

/// Runs body(context) on ranks that are threads. Throws the first rank's error.
template <class Body>
void on_threads(int ranks, const Body& body) {
  LaunchOptions launch;
  launch.deadline = std::chrono::hours(24);  // a rank may wait long for another one's product
  launch_threads(ranks, launch, [&](ThreadComm comm) {
    RankContext<ThreadComm> context(CountingComm(std::move(comm)));
    body(context);
  });
}

/// The declaration, or with an empty PREFIX the definition, of the products of scalar T on ranks of type RANK.
#define MATMUL_FILES_PRODUCT(PREFIX, T, RANK)                                                                     \
  PREFIX template Report multiply_files<T, RANK>(const RANK&, const AnyPolicy&, std::span<const int>, const Job&, \
                                                 const Use<T>&)
#define MATMUL_FILES_PRODUCTS(PREFIX, RANK)                \
  MATMUL_FILES_PRODUCT(PREFIX, float, RANK);               \
  MATMUL_FILES_PRODUCT(PREFIX, double, RANK);              \
  MATMUL_FILES_PRODUCT(PREFIX, std::complex<float>, RANK); \
  MATMUL_FILES_PRODUCT(PREFIX, std::complex<double>, RANK)

MATMUL_FILES_PRODUCTS(extern, HostRank<ThreadComm>);

}  // namespace matmul_files

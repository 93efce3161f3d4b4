// SPDX-License-Identifier: Apache-2.0
// Tensors that change their partition, as threads or, under mpirun, as processes. `moved` and `predicted` are the bytes
// that the busiest rank receives, as its communicator counts them and as the schedule of the exchange says.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "support/host.hpp"
#include "support/problem.hpp"

namespace {

using namespace bench;
using partita::ColumnShard;
using partita::Replicated;
using partita::RowShard;
using partita::Summa2D;

/// The extents that the ranks have on the grid of P: one axis, or the most square rectangle.
template <class P>
std::vector<int> extents_for(int ranks) {
  if (P::grid_type::axis_count == 1) return {ranks};
  int side = static_cast<int>(std::sqrt(static_cast<double>(ranks)));
  while (ranks % side != 0) --side;
  return {side, ranks / side};
}

template <class T, class From, class To, class Comm>
void move(Place<Comm>& place, Shape shape) {
  auto& context = place.context;
  const auto from_extents = extents_for<From>(context.size());
  const auto to_extents = extents_for<To>(context.size());
  const auto from_grid = partita::make_grid_of<typename From::grid_type>(context, std::span<const int>(from_extents));
  const auto to_grid = partita::make_grid_of<typename To::grid_type>(context, std::span<const int>(to_extents));
  auto x = partita::zeros<T, From>(from_grid, shape);
  fill(x.local(), x.block(), seed_of_a);

  const auto run = [&] { benchmark::DoNotOptimize(partita::redistribute<To>(x, to_grid).local().data); };
  const double seconds = place.time(run);
  const partita::Traffic moved = place.moved(run);

  const partita::Exchange exchange(shape, partita::detail::placement_of<From>(from_grid.ranks(), {}),
                                   partita::detail::placement_of<To>(to_grid.ranks(), {}), context.rank());
  const double own = static_cast<double>(partita::count_of(exchange).elements) * sizeof(T);
  const double predicted = place.team.greatest(own);
  place.counter("GB/s", static_cast<double>(shape.size()) * sizeof(T) / seconds / 1e9);
  place.counter("moved", static_cast<double>(moved.bytes));
  place.counter("predicted", predicted);
  if (static_cast<double>(moved.bytes) != predicted)
    place.fail("the communicator counts other bytes than the schedule");
}

template <class From, class To, class Comm>
void enroll_pair(Host<Comm>& host, const char* name) {
  for (const Shape shape : {Shape{512, 512}, Shape{2048, 2048}, Shape{8192, 128}}) {
    for (const int ranks : host.rank_counts()) {
      enroll_benchmark(host, std::string("f32/") + partita::to_string(shape) + "/" + name, ranks, 20,
                       [shape](Place<Comm>& place) { move<float, From, To>(place, shape); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks(argc, argv, []<class Comm>(Host<Comm>& host) {
    enroll_pair<ColumnShard<>, RowShard<>>(host, "columns to rows");
    enroll_pair<RowShard<>, ColumnShard<>>(host, "rows to columns");
    enroll_pair<ColumnShard<>, Summa2D<>>(host, "columns to rectangles");
    enroll_pair<Summa2D<>, ColumnShard<>>(host, "rectangles to columns");
    enroll_pair<ColumnShard<>, Replicated<>>(host, "columns to copies");
    enroll_pair<Summa2D<>, partita::transposed_t<Summa2D<>>>(host, "rectangles to transposed");
  });
}

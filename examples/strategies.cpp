// SPDX-License-Identifier: Apache-2.0
// example_strategies [--tokens M --hidden K --ffn N --ranks P]: what a linear layer's forward and backward passes move
// under each strategy of tensor parallelism, counted from their schedules, beside the formula and the published one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "partita/nn/product.hpp"
#include "partita/nn/strategy.hpp"

namespace {

using namespace partita;

/// Y [tokens, ffn] = X [tokens, hidden] · W [hidden, ffn] on `ranks` ranks.
struct Sizes {
  index_t tokens = 8192;
  index_t hidden = 4096;
  index_t ffn = 16384;
  int ranks = 64;

  [[nodiscard]] double x() const { return static_cast<double>(tokens) * static_cast<double>(hidden); }
  [[nodiscard]] double w() const { return static_cast<double>(hidden) * static_cast<double>(ffn); }
  [[nodiscard]] double y() const { return static_cast<double>(tokens) * static_cast<double>(ffn); }
};

/// The most that any rank moves, calls and holds.
struct Counted {
  index_t elements = 0;
  index_t collectives = 0;
  index_t parameters = 0;   // elements of W
  index_t activations = 0;  // elements of X and Y
};

struct Row {
  std::string strategy;
  std::string grid;
  Counted counted;
  double formula = 0;
  double published = 0;
  std::string path;  // messages or collectives one after the other, by the formula
};

/// From the schedules of the three products and of the gradient's sum, for every rank of a grid that nobody makes.
template <class In, class Weight, class Out>
Counted count_layer(const Sizes& sizes, std::initializer_list<int> grid) {
  using Gradient = gradient_of_t<Weight, Out>;
  const Extent2D x{{sizes.tokens, sizes.hidden}, {}};
  const Extent2D w{{sizes.hidden, sizes.ffn}, {}};
  const Extent2D y{{sizes.tokens, sizes.ffn}, {}};
  AxisList axes;
  Place place;
  for (const int extent : grid) {
    place.extents[static_cast<unsigned>(axes.size())] = extent;
    axes.push_back(axes.size());
  }
  Counted most;
  for (int rank = 0; rank < sizes.ranks; ++rank) {
    place.coordinates = coordinates_along(axes, place.extents, rank);
    Count count;
    index_t collectives = 0;
    const auto add = [&](const Step& step) {
      add_step(step, count);
      if (step.kind != StepKind::gemm) ++collectives;
    };
    detail::product_steps<float, In, Weight, Out>(place, x, w, add);
    detail::product_steps<float, Out, transposed_t<Weight>, In>(place, y, w.transposed(), add);
    detail::product_steps<float, transposed_t<In>, Out, Gradient>(place, x.transposed(), y, add);
    const auto block = [&](const Layout& layout, const Extent2D& of) {
      return block_of(layout, of.shape, of.units, place.extents, place.coordinates);
    };
    visit_step(all_reduce_step(place, Gradient::layout.partial, block(Weight::layout, w)), add);
    most.elements = std::max(most.elements, count.elements);
    most.collectives = std::max(most.collectives, collectives);
    most.parameters = std::max(most.parameters, block(Weight::layout, w).size());
    most.activations = std::max(most.activations, block(In::layout, x).size() + block(Out::layout, y).size());
  }
  return most;
}

/// The rows of semantics: one-dimensional, each square grid, each cube or slab of square layers.
std::vector<Row> rows_of(const Sizes& s) {
  std::vector<Row> rows;
  const double p = s.ranks;
  const auto text = [](int n) { return std::to_string(n); };
  const std::string ring = "2(P-1) = " + text(2 * (s.ranks - 1)) + " messages of a ring";
  const double x_ring = 2 * (p - 1) / p * s.x();
  const double y_ring = 2 * (p - 1) / p * s.y();
  rows.push_back({"1D column", text(s.ranks), count_layer<Replicated<>, ColumnShard<>, ColumnShard<>>(s, {s.ranks}),
                  x_ring, x_ring, ring});
  rows.push_back({"1D row", text(s.ranks), count_layer<ColumnShard<>, RowShard<>, Replicated<>>(s, {s.ranks}), y_ring,
                  y_ring, ring});
  for (int q = 2; q * q <= s.ranks; ++q) {
    if (s.ranks % (q * q) != 0) continue;
    const int d = s.ranks / (q * q);
    const double share = 3.0 * (q - 1) / (q * q);
    const double published = 3.0 * (q - 1) / q * (s.x() / d + s.w());
    const std::string path = "6q = " + text(6 * q) + " collectives";
    const std::string side = text(q) + "x" + text(q);
    if (d == 1) {
      rows.push_back({"2D", side, count_layer<Summa2D<>, Summa2D<>, Summa2D<>>(s, {q, q}), share * (s.x() + s.w()),
                      published, path});
    } else {
      const double depth_sum = 2.0 * (d - 1) / d * s.w() / (q * q);
      rows.push_back({"2.5D", side + "x" + text(d), count_layer<Summa25D<>, Summa25DWeight<>, Summa25D<>>(s, {d, q, q}),
                      share * (s.x() / d + s.w()) + depth_sum, published, path + " + 1 over the depth"});
    }
  }
  return rows;
}

/// Whether every block of every row has the same size on all ranks, so that the formula is exact.
bool divides(const Sizes& s) { return s.tokens % s.ranks == 0 && s.hidden % s.ranks == 0 && s.ffn % s.ranks == 0; }

std::string millions(double elements) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", elements / 1e6);
  return text;
}

/// Prints the table and tells whether the counted elements are those of the formula, where blocks are even.
bool print(const Sizes& s) {
  const std::vector<Row> rows = rows_of(s);
  std::printf("Y = X*W, X %lld x %lld, W %lld x %lld, forward and backward, on %d ranks.\n",
              static_cast<long long>(s.tokens), static_cast<long long>(s.hidden), static_cast<long long>(s.hidden),
              static_cast<long long>(s.ffn), s.ranks);
  std::printf(
      "Millions of elements, MB in fp32; counted from the schedules of the three products and the gradient's sum.\n\n");
  std::printf("%-9s  %-8s  %10s  %10s  %10s  %10s  %10s  %10s  %-11s  %s\n", "strategy", "grid", "MB/rank",
              "moved/rank", "formula", "published", "parameters", "X and Y", "collectives", "critical path");
  bool agree = true;
  for (const Row& row : rows) {
    const auto counted = static_cast<double>(row.counted.elements);
    const bool equal = !divides(s) || std::abs(counted - row.formula) < 0.5;
    agree = agree && equal;
    std::printf("%-9s  %-8s  %10s  %10s  %10s  %10s  %10s  %10s  %-11lld  %s%s\n", row.strategy.c_str(),
                row.grid.c_str(), millions(counted * sizeof(float)).c_str(), millions(counted).c_str(),
                millions(row.formula).c_str(), millions(row.published).c_str(),
                millions(static_cast<double>(row.counted.parameters)).c_str(),
                millions(static_cast<double>(row.counted.activations)).c_str(),
                static_cast<long long>(row.counted.collectives), row.path.c_str(), equal ? "" : "  DIFFERS");
  }
  const auto least = std::min_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.counted.elements < b.counted.elements; });
  std::printf("\nmoves least: %s on %s, %s M elements a rank\n", least->strategy.c_str(), least->grid.c_str(),
              millions(static_cast<double>(least->counted.elements)).c_str());
  std::printf(
      "published: 6(q-1)/q for 2D and 3(q-1)(d+1)/(dq) for 2.5D, with |X| = |W| = 1: a factor q too large, and "
      "without\n"
      "the sum of the weight's gradient over the depth.\n"
      "collectives: of one rank's schedules, which cut wide panels further, so that they are multiplied while others "
      "move.\n");
  if (rows.size() == 2) {
    const int q = static_cast<int>(std::sqrt(static_cast<double>(s.ranks)));
    std::printf("no 2D or 2.5D grid of %d ranks: q*q*d with q of at least 2, such as --ranks %d or %d.\n", s.ranks,
                std::max(4, q * q), std::max(4, (q + 1) * (q + 1)));
  }
  if (!divides(s)) std::printf("blocks are uneven: the formula is not exact; counted is the rank that moves most.\n");
  return agree;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What a linear layer's forward and backward passes move under each strategy.", "example_strategies");
  Sizes sizes;
  const CLI::Range size(index_t{1}, index_t{1} << 24);
  app.add_option("--tokens,--rows", sizes.tokens, "Rows of X, 8192 unless given")->check(size)->type_name("M");
  app.add_option("--hidden,--in", sizes.hidden, "Columns of X, 4096 unless given")->check(size)->type_name("K");
  app.add_option("--ffn,--out", sizes.ffn, "Columns of W, four times --hidden unless given")
      ->check(size)
      ->type_name("N");
  app.add_option("--ranks", sizes.ranks, "Number of ranks, 64 unless given")
      ->check(CLI::Range(1, 4096))
      ->type_name("P");
  try {
    app.parse(argc, argv);
    if (app.count("--ffn") == 0) sizes.ffn = 4 * sizes.hidden;
    if (print(sizes)) return 0;
    std::fprintf(stderr, "example_strategies: a schedule's count differs from the formula\n");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "example_strategies: %s\n", error.what());
  }
  return 1;
}

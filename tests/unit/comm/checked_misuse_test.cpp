// SPDX-License-Identifier: Apache-2.0
// CheckedComm: many kinds of misuse at random places of random valid programs, each found on all ranks.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/comm/checked.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds patient = std::chrono::seconds(20);

enum class Op {
  broadcast,
  panel,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  exchange,
  barrier,
  agree,
  split,
  subset,
  value,
  close
};

/// A call, as one rank makes it.
struct Call {
  Op op = Op::barrier;
  int type = 1;  // float, double, complex<float>, complex<double>, int64
  index_t rows = 2, cols = 3;
  int root = 0;
  ReduceOp reduction = ReduceOp::sum;
  Into into = Into::overwrite;
  index_t cut = 0;            // shifts the blocks of all ranks
  bool other_blocks = false;  // other blocks for other ranks, the same own one
  int more_sent = -1;         // one row more to this rank
  int more_received = -1;     // one row more from this rank
  bool null_output = false, overlapping = false;
  int members = 1;
  std::string name = "alpha";
  std::complex<double> value{0.5, 0};
  bool real = true, integer = false;
};

/// A rank's buffers, large enough for all calls, and what stood in them before.
struct Buffers {
  alignas(64) std::array<std::byte, 8192> in{};
  alignas(64) std::array<std::byte, 8192> out{};
  std::array<std::byte, 8192> in_before{}, out_before{};

  void keep() {
    in_before = in;
    out_before = out;
  }
  [[nodiscard]] bool unchanged() const { return in == in_before && out == out_before; }
};

template <class T>
void fill(std::array<std::byte, 8192>& buffer, int seed) {
  T* data = reinterpret_cast<T*>(buffer.data());
  for (std::size_t i = 0; i < buffer.size() / sizeof(T); ++i) data[i] = laws::element<T>(seed, static_cast<index_t>(i));
}

/// One row of blocks: rank r has (r + cut) mod 3 + 1 columns.
std::vector<Block> blocks_of(const Call& call, int size) {
  std::vector<Block> blocks;
  index_t begin = 0;
  for (int r = 0; r < size; ++r) {
    const index_t width = (r + call.cut) % 3 + 1;
    blocks.push_back({{0, call.rows}, {begin, begin + width}});
    begin += width;
  }
  return blocks;
}

template <class T, class C>
void make_call(C& comm, const Call& call, Buffers& buffers) {
  const int rank = comm.rank();
  const int size = comm.size();
  fill<T>(buffers.in, rank);
  fill<T>(buffers.out, 40 + rank);
  buffers.keep();
  T* const source = reinterpret_cast<T*>(buffers.in.data());
  T* target = reinterpret_cast<T*>(buffers.out.data());
  if (call.null_output) target = nullptr;
  if (call.overlapping) target = source + 1;
  const Shape shape{call.rows, call.cols};
  const View<const T> in(source, shape);
  const View<T> out(target, shape);
  const auto right = [&](bool holds, const char* what) { laws::expect(holds, what, rank); };
  switch (call.op) {
    case Op::broadcast:
      comm.broadcast(out, call.root).wait();
      return right(out(0, 1) == laws::element<T>(40 + call.root, 1), "broadcast");
    case Op::panel: {
      auto panel = comm.broadcast_panel(in, out, call.root);
      panel.wait();
      right(panel.view()(0, 1) == laws::element<T>(call.root, 1), "panel");
      panel.release();
      return comm.drain();
    }
    case Op::reduce:
      comm.reduce(in, out, call.root, call.into).wait();
      return right(rank != call.root || call.into != Into::overwrite || out(0, 1) == laws::total<T>(size, 1), "reduce");
    case Op::all_reduce:
      comm.all_reduce(in, out, call.reduction).wait();
      return right(call.rows == 0 || call.reduction != ReduceOp::sum || out(0, 1) == laws::total<T>(size, 1), "sum");
    case Op::reduce_scatter:
    case Op::all_gather: {
      std::vector<Block> blocks = blocks_of(call, size);
      const auto own = static_cast<std::size_t>(rank);
      const Shape whole{call.rows, blocks.back().cols.end};
      if (call.other_blocks) blocks[own == 0 ? 1 : 0].rows.end -= 1;
      const Shape part = blocks[own].shape();
      if (call.op == Op::reduce_scatter) {
        comm.reduce_scatter(View<const T>(source, whole), View<T>(target, part), blocks).wait();
        return right(target[0] == laws::total<T>(size, blocks[own].cols.begin), "reduce_scatter");
      }
      comm.all_gather(View<const T>(source, part), View<T>(target, whole), blocks).wait();
      return right(target[blocks[1].cols.begin] == laws::element<T>(1, 0), "all_gather");
    }
    case Op::exchange: {
      std::vector<View<const T>> sends;
      std::vector<View<T>> receives;
      for (int r = 0; r < size; ++r) {
        const index_t more_out = r == call.more_sent ? 1 : 0;
        const index_t more_in = r == call.more_received ? 1 : 0;
        sends.emplace_back(source + 16 * r, Shape{call.rows + more_out, 2});
        receives.emplace_back(target + 16 * r, Shape{call.rows + more_in, 2});
      }
      comm.all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
      return right(target[16] == laws::element<T>(1, 16 * rank), "exchange");
    }
    case Op::barrier:
      return comm.barrier();
    case Op::agree:
      return right(comm.agree(rank) == size - 1, "agree");
    case Op::split:
      return right(comm.split(0, 0)->size() == size, "split");
    case Op::subset:
      return right(comm.subset(call.members).has_value() == (rank < call.members), "subset");
    case Op::value:
      if (call.integer) return comm.check_value(call.name, static_cast<int>(call.value.real() * 2));
      if (call.real) return comm.check_value(call.name, call.value.real());
      return comm.check_value(call.name, call.value);
    case Op::close:
      return comm.close();
  }
}

template <class C>
void make_call(C& comm, const Call& call, Buffers& buffers) {
  switch (call.type) {
    case 0:
      return make_call<float>(comm, call, buffers);
    case 1:
      return make_call<double>(comm, call, buffers);
    case 2:
      return make_call<std::complex<float>>(comm, call, buffers);
    case 3:
      return make_call<std::complex<double>>(comm, call, buffers);
    default:
      return make_call<std::int64_t>(comm, call, buffers);
  }
}

/// What one rank met at the wrong call.
struct Found {
  const std::type_info* type = nullptr;
  std::string text;
  std::vector<std::string> calls;
  std::string events;
  bool unchanged = false;
  std::chrono::milliseconds after{0};
};

template <class C>
Found find(C& comm, Buffers& buffers, const std::function<void()>& call) {
  Found found;
  const auto begin = Clock::now();
  buffers.keep();
  try {
    call();
  } catch (const CollectiveMismatch& error) {
    found = {&typeid(error), error.what(), error.calls, error.events, buffers.unchanged(), {}};
  }
  found.after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  comm.drain();
  return found;
}

enum class How {
  differs,        // the guilty rank makes the other call
  skips,          // it leaves out the call, and makes the next one
  repeats,        // it makes the call before once more
  comes_late,     // it makes the call when the others have given up
  goes_elsewhere  // it makes the call on another communicator
};

struct Misuse {
  std::string name;
  Call right;
  std::function<void(Call&)> spoil;
  const std::type_info* type = &typeid(CollectiveMismatch);
  How how = How::differs;
};

Call call_of(Op op) {
  Call call;
  call.op = op;
  return call;
}

std::vector<Misuse> kinds_of_misuse() {
  std::vector<Misuse> all;
  const auto operations = [&](const char* name, Op right, Op wrong) {
    all.push_back({name, call_of(right), [wrong](Call& c) { c.op = wrong; }});
  };
  operations("broadcast for all_reduce", Op::all_reduce, Op::broadcast);
  operations("reduce for all_reduce", Op::all_reduce, Op::reduce);
  operations("barrier for all_reduce", Op::all_reduce, Op::barrier);
  operations("all_gather for all_reduce", Op::all_reduce, Op::all_gather);
  operations("panel for broadcast", Op::broadcast, Op::panel);
  operations("reduce for broadcast", Op::broadcast, Op::reduce);
  operations("all_reduce for panel", Op::panel, Op::all_reduce);
  operations("all_reduce for reduce", Op::reduce, Op::all_reduce);
  operations("all_gather for reduce_scatter", Op::reduce_scatter, Op::all_gather);
  operations("reduce_scatter for all_gather", Op::all_gather, Op::reduce_scatter);
  operations("exchange for all_gather", Op::all_gather, Op::exchange);
  operations("all_gather for exchange", Op::exchange, Op::all_gather);
  operations("all_reduce for barrier", Op::barrier, Op::all_reduce);
  operations("agree for barrier", Op::barrier, Op::agree);
  operations("barrier for agree", Op::agree, Op::barrier);
  operations("agree for split", Op::split, Op::agree);
  operations("split for subset", Op::subset, Op::split);
  operations("barrier for a value", Op::value, Op::barrier);
  operations("close too early", Op::barrier, Op::close);

  const auto shapes = [&](const char* name, Op op, std::function<void(Call&)> spoil) {
    all.push_back({name, call_of(op), std::move(spoil), &typeid(ShapeMismatch)});
  };
  const auto one_column_less = [](Call& c) { c.cols -= 1; };
  const auto one_row_more = [](Call& c) { c.rows += 1; };
  shapes("columns of all_reduce", Op::all_reduce, one_column_less);
  shapes("all_reduce transposed", Op::all_reduce, [](Call& c) { std::swap(c.rows, c.cols); });
  shapes("nothing in all_reduce", Op::all_reduce, [](Call& c) { c.rows = 0; });
  shapes("rows of broadcast", Op::broadcast, one_row_more);
  shapes("columns of panel", Op::panel, one_column_less);
  shapes("rows of reduce", Op::reduce, one_row_more);
  shapes("rows of reduce_scatter", Op::reduce_scatter, one_row_more);
  shapes("rows of all_gather", Op::all_gather, one_row_more);
  shapes("more sent than received", Op::exchange, [](Call& c) { c.more_sent = c.root; });
  shapes("more received than sent", Op::exchange, [](Call& c) { c.more_received = c.root; });
  shapes("blocks of reduce_scatter", Op::reduce_scatter, [](Call& c) { c.other_blocks = true; });
  shapes("blocks of all_gather", Op::all_gather, [](Call& c) { c.other_blocks = true; });

  const auto types = [&](const char* name, Op op, int type) {
    all.push_back({name, call_of(op), [type](Call& c) { c.type = type; }, &typeid(TypeMismatch)});
  };
  types("float in all_reduce", Op::all_reduce, 0);
  types("int64 in broadcast", Op::broadcast, 4);
  types("complex<float> in panel", Op::panel, 2);
  types("complex<double> in reduce", Op::reduce, 3);
  types("float in all_gather", Op::all_gather, 0);
  types("int64 in reduce_scatter", Op::reduce_scatter, 4);
  types("float in exchange", Op::exchange, 0);
  all.push_back(
      {"an integer for a value", call_of(Op::value), [](Call& c) { c.integer = true; }, &typeid(TypeMismatch)});

  const auto differs = [&](const char* name, Op op, std::function<void(Call&)> spoil) {
    all.push_back({name, call_of(op), std::move(spoil)});
  };
  const auto other_root = [](Call& c) { c.root = 1 - c.root; };
  differs("root of broadcast", Op::broadcast, other_root);
  differs("root of panel", Op::panel, other_root);
  differs("root of reduce", Op::reduce, other_root);
  differs("maximum for sum", Op::all_reduce, [](Call& c) { c.reduction = ReduceOp::max; });
  differs("accumulate for overwrite", Op::reduce, [](Call& c) { c.into = Into::accumulate; });
  differs("members of subset", Op::subset, [](Call& c) { c.members = 2; });
  differs("a value", Op::value, [](Call& c) { c.value = 0.5000000001; });
  differs("the name of a value", Op::value, [](Call& c) { c.name = "beta"; });
  all.push_back({"an imaginary part", call_of(Op::value), [](Call& c) { c.value = {0.5, 1}; }});
  all.back().right.real = false;
  differs("a null pointer", Op::all_reduce, [](Call& c) { c.null_output = true; });
  differs("an output over the input", Op::all_reduce, [](Call& c) { c.overlapping = true; });
  differs("a root that is no rank", Op::broadcast, [](Call& c) { c.root = 77; });

  all.push_back({"a call left out", call_of(Op::all_reduce), {}, &typeid(CollectiveMismatch), How::skips});
  all.push_back({"a call made twice", call_of(Op::all_reduce), {}, &typeid(CollectiveMismatch), How::repeats});
  all.push_back({"a late call", call_of(Op::all_reduce), {}, &typeid(MissingCall), How::comes_late});
  all.push_back({"a late panel", call_of(Op::panel), {}, &typeid(MissingCall), How::comes_late});
  all.push_back({"another communicator", call_of(Op::all_reduce), {}, &typeid(MissingCall), How::goes_elsewhere});
  return all;
}

Call random_call(std::mt19937& random, int ranks) {
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Call call = call_of(static_cast<Op>(pick(static_cast<int>(Op::close))));
  call.type = pick(5);
  call.rows = 1 + pick(3);
  call.cols = 2 + pick(3);
  call.root = pick(ranks);
  call.cut = pick(3);
  call.into = pick(2) == 0 ? Into::overwrite : Into::accumulate;
  call.members = 1 + pick(ranks);
  return call;
}

/// Runs a random program in which one rank goes wrong at one place; what was not as it must be, in words.
template <class Make>
std::string run_misuse(const Misuse& misuse, unsigned seed, Make make_comm) {
  std::mt19937 random(seed * 7919U + 13U);
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int ranks = 2 + pick(4);
  const int guilty = pick(ranks);
  std::vector<Call> program;
  for (int i = 0; i < 7; ++i) program.push_back(random_call(random, ranks));
  const auto place = static_cast<std::size_t>(1 + pick(5));
  program[place] = misuse.right;
  program[place].root = pick(2);
  if (misuse.how == How::skips) program[place + 1] = call_of(Op::barrier);
  if (misuse.how == How::repeats) program[place - 1] = call_of(Op::reduce);
  Call wrong = program[place];
  if (wrong.op == Op::exchange) wrong.root = (guilty + 1) % ranks;
  if (misuse.spoil) misuse.spoil(wrong);

  std::vector<Found> found(static_cast<std::size_t>(ranks));
  std::atomic<int> given_up{0};
  launch_threads(ranks, [&](ThreadComm base) {
    auto comm = make_comm(std::move(base));
    auto other = comm.split(0, comm.rank());
    Buffers buffers;
    const bool is_guilty = comm.rank() == guilty;
    for (std::size_t i = 0; i < place; ++i) make_call(comm, program[i], buffers);
    if (misuse.type == &typeid(MissingCall)) {
      comm.set_deadline(std::chrono::milliseconds(40));
      other->set_deadline(std::chrono::milliseconds(40));
    }
    Found& mine = found[static_cast<std::size_t>(comm.rank())];
    mine = find(comm, buffers, [&] {
      if (is_guilty && misuse.how == How::skips) return make_call(comm, program[place + 1], buffers);
      if (is_guilty && misuse.how == How::repeats) return make_call(comm, program[place - 1], buffers);
      if (is_guilty && misuse.how == How::goes_elsewhere) return make_call(*other, wrong, buffers);
      while (is_guilty && misuse.how == How::comes_late && given_up.load() < ranks - 1) std::this_thread::yield();
      make_call(comm, is_guilty ? wrong : program[place], buffers);
    });
    ++given_up;
    comm.set_deadline(patient);
    other->set_deadline(patient);
    if (misuse.how == How::goes_elsewhere) {
      while (given_up.load() < ranks) std::this_thread::yield();
      // what the others still wait for is refused at once
      find(comm, buffers, [&] { make_call(is_guilty ? comm : *other, wrong, buffers); });
    }
    for (std::size_t i = place + 1; i < program.size(); ++i) make_call(comm, program[i], buffers);
    make_call(*other, call_of(Op::all_reduce), buffers);
    comm.close();
  });

  std::string wrongs;
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) wrongs += misuse.name + ", seed " + std::to_string(seed) + ": " + what + "\n";
  };
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const Found& f = found[rank];
    require(f.type != nullptr, "a rank found nothing");
    if (f.type == nullptr) continue;
    require(*f.type == *misuse.type, "another error: " + f.text);
    require(f.unchanged, "something was written");
    require(f.after < patient, "late");
    require(f.calls.size() == static_cast<std::size_t>(ranks), "not all ranks are named: " + f.text);
    if (f.calls.size() != static_cast<std::size_t>(ranks)) continue;
    const auto g = static_cast<std::size_t>(guilty);
    const bool exchange = misuse.right.op == Op::exchange && misuse.type == &typeid(ShapeMismatch);
    // What one rank knows of two others at a missing call may be the same; its own call it knows.
    const std::size_t other = rank != g ? rank : g == 0 ? 1 : 0;
    require(f.calls[g] != f.calls[other] || exchange || misuse.how == How::comes_late,
            "the two sides look alike: " + f.text);
    require(misuse.type == &typeid(MissingCall) || f.text == found.front().text, "the texts differ: " + f.text);
    require((misuse.type == &typeid(MissingCall)) == !f.events.empty(), "events");
  }
  return wrongs;
}

TEST_CASE("CheckedComm finds each kind of misuse on all ranks, writes nothing, and can be used on") {
  const std::vector<Misuse> kinds = kinds_of_misuse();
  CHECK(kinds.size() >= 36);
  for (const Misuse& misuse : kinds) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::string wrongs =
          run_misuse(misuse, seed, [](ThreadComm base) { return CheckedComm(std::move(base), {patient, true}); });
      INFO(wrongs);
      CHECK(wrongs.empty());
    }
  }
}

TEST_CASE("CheckedComm does so over a communicator that does not carry inspections") {
  for (const Misuse& misuse : kinds_of_misuse()) {
    if (misuse.type == &typeid(MissingCall)) continue;  // the deadline is that of the communicator underneath
    for (unsigned seed = 0; seed < 3; ++seed) {
      const std::string wrongs = run_misuse(
          misuse, seed, [](ThreadComm base) { return CheckedComm(CountingComm<ThreadComm>(std::move(base))); });
      INFO(wrongs);
      CHECK(wrongs.empty());
    }
  }
}

}  // namespace
}  // namespace partita

// SPDX-License-Identifier: Apache-2.0
// CheckedComm: the two sides of a message are compared before it is written; kinds of misuse amid valid programs.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "partita/comm/checked.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;
using Checked = CheckedComm<ThreadComm>;

constexpr std::chrono::milliseconds patient = std::chrono::seconds(20);

/// One side of a message.
struct Side {
  bool calls = true, sends = true;
  int peer = 0, tag = 0;
  int type = 1;  // float, double, int64
  index_t rows = 2, cols = 3;
  bool late = false;  // calls when the other side has given up
};

struct Buffer {
  alignas(64) std::array<std::byte, 512> bytes{};
};

template <class T>
void call_as(Checked& comm, const Side& side, Buffer& buffer) {
  T* data = reinterpret_cast<T*>(buffer.bytes.data());
  if (side.sends) {
    for (index_t i = 0; i < side.rows * side.cols; ++i) data[i] = static_cast<T>(10 * comm.rank() + i);
  }
  const View<T> view(data, {side.rows, side.cols});
  side.sends ? comm.send(view, side.peer, side.tag).wait() : comm.recv(view, side.peer, side.tag).wait();
  if (!side.sends) CHECK(data[1] == static_cast<T>(10 * side.peer + 1));
}

void call(Checked& comm, const Side& side, Buffer& buffer) {
  if (!side.calls) return;
  if (side.type == 0) return call_as<float>(comm, side, buffer);
  if (side.type == 1) return call_as<double>(comm, side, buffer);
  call_as<std::int64_t>(comm, side, buffer);
}

/// What a rank met.
struct Found {
  const std::type_info* type = nullptr;
  std::string text, events;
  std::vector<std::string> calls;
  bool unchanged = false;
  std::chrono::milliseconds after{0};
};

Found find(const std::function<void()>& body, const Buffer& buffer) {
  Found found;
  const Buffer before = buffer;
  const auto begin = Clock::now();
  try {
    body();
  } catch (const CollectiveMismatch& error) {
    found.type = &typeid(error);
    found.text = error.what();
    found.calls = error.calls;
    found.events = error.events;
  }
  found.unchanged = buffer.bytes == before.bytes;
  found.after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return found;
}

/// Lets a rank know that its peer is in a wait. That one has begun to hear a word, underneath the comparisons, and
/// takes it when it waits for something else; only then has the word been delivered.
class WaitNotice {
 public:
  /// On the rank that is going to wait, before its call; done() after it.
  void hear(Checked& comm, int from) { heard_ = comm.base().recv(row_view(&word_, 1), from, tag); }
  void done() { heard_.wait(); }
  /// On the other one. Returns when the peer waits.
  void await(Checked& comm, int peer) { comm.base().send(row_view(&word_, 1), peer, tag).wait(); }

 private:
  static constexpr int tag = 99;
  int word_ = 0;
  ThreadRequest heard_;
};

/// Whose deadline ends the wait.
enum class End { of_none, of_sender, of_both };

struct Misuse {
  std::string name;
  std::function<void(Side& send, Side& recv, int third)> spoil;
  const std::type_info* type;
  End end = End::of_none;
};

std::vector<Misuse> kinds_of_misuse() {
  std::vector<Misuse> all;
  const auto shapes = [&](const char* name, std::function<void(Side&, Side&, int)> spoil) {
    all.push_back({name, std::move(spoil), &typeid(ShapeMismatch)});
  };
  shapes("a column more is sent", [](Side& send, Side&, int) { send.cols += 1; });
  shapes("a row more is received", [](Side&, Side& recv, int) { recv.rows += 1; });
  shapes("transposed", [](Side& send, Side&, int) { std::swap(send.rows, send.cols); });
  shapes("nothing is sent", [](Side& send, Side&, int) { send.rows = 0; });
  shapes("nothing is received", [](Side&, Side& recv, int) { recv.cols = 0; });
  const auto types = [&](const char* name, std::function<void(Side&, Side&, int)> spoil) {
    all.push_back({name, std::move(spoil), &typeid(TypeMismatch)});
  };
  types("float is sent", [](Side& send, Side&, int) { send.type = 0; });
  types("int64 is received", [](Side&, Side& recv, int) { recv.type = 2; });
  const auto vain = [&](const char* name, std::function<void(Side&, Side&, int)> spoil) {
    all.push_back({name, std::move(spoil), &typeid(CollectiveMismatch), End::of_sender});
  };
  vain("another tag", [](Side& send, Side&, int) { send.tag = 9; });
  vain("both send", [](Side&, Side& recv, int) { recv.sends = true; });
  vain("both receive", [](Side& send, Side&, int) { send.sends = false; });
  const auto missing = [&](const char* name, std::function<void(Side&, Side&, int)> spoil) {
    all.push_back({name, std::move(spoil), &typeid(MissingCall), End::of_both});
  };
  missing("sent to another", [](Side& send, Side&, int third) { send.peer = third; });
  missing("received from another", [](Side&, Side& recv, int third) { recv.peer = third; });
  missing("sent to itself", [](Side& send, Side& recv, int) { send.peer = recv.peer; });
  missing("nobody sends", [](Side& send, Side&, int) { send.calls = false; });
  missing("nobody receives", [](Side&, Side& recv, int) { recv.calls = false; });
  missing("sent too late", [](Side& send, Side&, int) { send.late = true; });
  missing("received too late", [](Side&, Side& recv, int) { recv.late = true; });
  return all;
}

/// A random valid program of messages and collectives.
void run_valid(Checked& comm, std::mt19937& random) {
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Buffer buffer;
  for (int i = 0; i < 4; ++i) {
    const int from = pick(comm.size());
    const int to = (from + 1 + pick(comm.size() - 1)) % comm.size();
    const Side side{true, true, to, pick(3), pick(3), 1 + pick(3), 2 + pick(3), false};
    Side answer = side;
    answer.sends = false;
    answer.peer = from;
    if (comm.rank() == from) call(comm, side, buffer);
    if (comm.rank() == to) call(comm, answer, buffer);
    if (pick(3) == 0) comm.barrier();
  }
}

std::string run_misuse(const Misuse& misuse, unsigned seed) {
  std::mt19937 random(seed * 7919U + 5U);
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int ranks = 3 + pick(3);
  const int from = pick(ranks);
  const int to = (from + 1 + pick(ranks - 1)) % ranks;
  int third = 0;
  while (third == from || third == to) ++third;
  const int tag = pick(4);
  Side send{true, true, to, tag, 1, 1 + pick(3), 4, false};
  Side recv = send;
  recv.sends = false;
  recv.peer = from;
  misuse.spoil(send, recv, third);
  const unsigned program = static_cast<unsigned>(random());

  std::array<Found, 2> found;
  std::atomic<int> given_up{0};
  launch_threads(ranks, [&](ThreadComm base) {
    Checked comm(std::move(base), {patient, true});
    std::mt19937 shared(program);
    run_valid(comm, shared);
    comm.barrier();
    const bool sends = comm.rank() == from;
    if (sends || comm.rank() == to) {
      const Side& side = sends ? send : recv;
      if (misuse.end == End::of_both && !side.late) comm.set_deadline(std::chrono::milliseconds(10));
      WaitNotice receiver_waits;
      if (misuse.end == End::of_sender && !sends) receiver_waits.hear(comm, from);
      if (misuse.end == End::of_sender && sends) {
        receiver_waits.await(comm, to);
        comm.set_deadline(std::chrono::milliseconds(50));
      }
      while (side.late && given_up.load() == 0) std::this_thread::yield();
      Buffer buffer;
      buffer.bytes.fill(std::byte{77});
      Buffer own;  // what is sent is written there by the test itself
      Found& mine = found[sends ? 0 : 1];
      mine = find([&] { call(comm, side, side.sends ? own : buffer); }, buffer);
      receiver_waits.done();
      comm.set_deadline(patient);
      ++given_up;
    }
    comm.barrier();
    run_valid(comm, shared);
    run_valid(comm, shared);
    comm.close();
  });

  std::string wrongs;
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) wrongs += misuse.name + ", seed " + std::to_string(seed) + ": " + what + "\n";
  };
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const Found& f = found[side];
    if (!(side == 0 ? send : recv).calls) continue;
    require(f.type != nullptr, "nothing found");
    if (f.type == nullptr) continue;
    require(*f.type == *misuse.type, "another error: " + f.text);
    require(f.unchanged, "something was written");
    require(f.after < patient, "late");
    require(f.calls.size() == static_cast<std::size_t>(ranks), "not a line for each rank: " + f.text);
    if (f.calls.size() != static_cast<std::size_t>(ranks)) continue;
    require(!f.calls[static_cast<std::size_t>(from)].empty() && !f.calls[static_cast<std::size_t>(to)].empty(),
            "a side is not named: " + f.text);
    require((*misuse.type == typeid(MissingCall)) == !f.events.empty(), "events");
    if (*misuse.type != typeid(MissingCall)) require(f.text == found[0].text, "the texts differ: " + f.text);
  }
  return wrongs;
}

TEST_CASE("CheckedComm finds each kind of misuse of messages on both sides, writes nothing, and can be used on") {
  for (const Misuse& misuse : kinds_of_misuse()) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::string wrongs = run_misuse(misuse, seed);
      INFO(wrongs);
      CHECK(wrongs.empty());
    }
  }
}

TEST_CASE("CheckedComm names both sides of a message") {
  std::array<Found, 3> found;
  const auto on_three = [&found](const std::function<void(Checked&, View<double>, WaitNotice&)>& body) {
    launch_threads(3, [&](ThreadComm base) {
      Checked comm(std::move(base), {patient, true});
      Buffer buffer;
      WaitNotice notice;
      const View<double> view(reinterpret_cast<double*>(buffer.bytes.data()), {1, 4});
      found[static_cast<std::size_t>(comm.rank())] = find([&] { body(comm, view, notice); }, buffer);
      notice.done();
      comm.set_deadline(patient);
      comm.barrier();
      comm.close();
    });
  };
  on_three([](Checked& comm, View<double> x, WaitNotice& receiver_waits) {
    if (comm.rank() == 0) {
      receiver_waits.await(comm, 2);
      comm.set_deadline(std::chrono::milliseconds(100));
      comm.send(x, 2, 5).wait();
    }
    if (comm.rank() == 2) {
      receiver_waits.hear(comm, 0);
      comm.recv(x, 0, 6).wait();
    }
  });
  CHECK(found[0].calls == std::vector<std::string>{"send of 1x4 double to 2, tag 5", "",  //
                                                   "recv of 1x4 double from 0, tag 6"});
  CHECK(found[2].text == found[0].text);
  CHECK(found[0].text.find("a message on the communicator: the two sides differ in the tag") != std::string::npos);

  std::atomic<int> begun{0};
  on_three([&begun](Checked& comm, View<double> x, WaitNotice&) {
    if (comm.rank() == 1) return;
    Checked::Request message = comm.rank() == 0 ? comm.send(x, 1, 5) : comm.recv(x, 0, 5);
    for (++begun; begun.load() < 2;) std::this_thread::yield();
    comm.set_deadline(std::chrono::milliseconds(100));
    message.wait();
  });
  // Rank 0 may have given up before, and gone on to the barrier.
  CHECK(found[2].calls[0].find("its latest: ") == 0);
  CHECK(found[2].calls[0].find("send of 1x4 double to 1, tag 5 (call 0 of the communicator)") != std::string::npos);
  CHECK(found[2].text.find("rank 0 has not answered within 100 ms") != std::string::npos);
  CHECK(found[0].events.find("recv of 1x4 double from 0, tag 5") != std::string::npos);

  on_three([](Checked& comm, View<double> x, WaitNotice&) {  // a message to oneself
    if (comm.rank() != 1) return;
    auto sent = comm.send(x.sub({{0, 1}, {0, 3}}), 1, 0);
    auto received = comm.recv(x, 1, 0);
    CHECK_THROWS_AS(sent.wait(), ShapeMismatch);
    received.wait();
  });
  CHECK(found[1].calls[1] == "send of 1x3 double to 1, tag 0 and recv of 1x4 double from 1, tag 0");
}

TEST_CASE("CheckedComm: a message that was given up is retried after a collective") {
  launch_threads(2, [](ThreadComm base) {
    Checked comm(std::move(base), {patient, true});
    double x = comm.rank();
    const auto view = row_view(&x, 1);
    const auto message = [&] { comm.rank() == 0 ? comm.send(view, 1, 0).wait() : comm.recv(view, 0, 0).wait(); };
    for (int round = 0; round < 3; ++round) {
      if (comm.rank() == 0) {
        comm.set_deadline(std::chrono::milliseconds(20));
        CHECK_THROWS_AS(message(), MissingCall);
        comm.set_deadline(patient);
      }
      comm.barrier();  // rank 1 does not answer before it
      message();
      CHECK(x == 0);
      message();
    }
    comm.close();
  });
}

TEST_CASE("CheckedComm: a message against a collective is found by both") {
  std::atomic<bool> over{false};
  launch_threads(2, [&over](ThreadComm base) {
    Checked comm(std::move(base), {std::chrono::milliseconds(20), true});
    double x = 0;
    if (comm.rank() == 0) {
      CHECK_THROWS_AS(comm.recv(row_view(&x, 1), 1, 0).wait(), MissingCall);
      while (!over.load()) std::this_thread::yield();
    } else {
      CHECK_THROWS_AS(comm.barrier(), MissingCall);
      over.store(true);
    }
    comm.set_deadline(patient);
    if (comm.rank() == 0) CHECK_THROWS_AS(comm.barrier(), MissingCall);
    comm.barrier();
    comm.close();
  });
}

TEST_CASE("CheckedComm: many messages in any order, with collectives between the two calls, are no misuse") {
  launch_threads(3, [](ThreadComm base) {
    Checked comm(std::move(base), {patient, true});
    const int next = (comm.rank() + 1) % 3;
    const int before = (comm.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      std::array<double, 16> out{}, in{};
      std::vector<Checked::Request> requests;
      for (int i = 0; i < 16; ++i) {
        out[static_cast<std::size_t>(i)] = 100 * comm.rank() + i;
        requests.push_back(comm.send(row_view(&out[static_cast<std::size_t>(i)], 1), next, i % 4));
      }
      if (round % 2 == 0) comm.barrier();
      for (int i = 15; i >= 0; --i) {  // tags in another order; in order for each tag
        const int at = (15 - i) / 4 * 4 + i % 4;
        requests.push_back(comm.recv(row_view(&in[static_cast<std::size_t>(at)], 1), before, at % 4));
      }
      while (!requests.empty()) {
        requests.back().wait();
        requests.pop_back();
      }
      for (int i = 0; i < 16; ++i) CHECK(in[static_cast<std::size_t>(i)] == 100 * before + i);
    }
    comm.close();
  });
}

TEST_CASE("CheckedComm: without inspections underneath, messages pass as they are") {
  launch_threads(2, [](ThreadComm base) {
    CheckedComm comm(CountingComm<ThreadComm>(std::move(base)));
    double x = comm.rank();
    comm.rank() == 0 ? comm.send(row_view(&x, 1), 1, 0).wait() : comm.recv(row_view(&x, 1), 0, 0).wait();
    CHECK(x == 0);
    CHECK(comm.events().find(comm.rank() == 0 ? "send of 1x1 double to 1, tag 0" : "from 0, tag 0") !=
          std::string::npos);
    comm.close();
  });
}

}  // namespace
}  // namespace partita

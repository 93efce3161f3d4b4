// SPDX-License-Identifier: Apache-2.0
// How processes without MPI meet: rank 0 and its guests as threads on one machine, and whoever else may connect.
#include "partita/comm/nccl/rendezvous.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <atomic>
#include <exception>
#include <map>
#include <thread>

#include "partita/comm/nccl/environment.hpp"
#include "support/free_port.hpp"

namespace partita {
namespace {

using std::chrono::milliseconds;

using test::free_port;

const std::string secret = std::string("what NCCL needs: ") + '\0' + " and all\n" + std::string(100, 'x');

Rendezvous at(int rank, int size, int port, int ms = 10'000) {
  return {rank, size, "localhost", port, milliseconds(ms)};
}

/// What each of these ranks got, or threw.
std::vector<std::string> meet_all(const std::vector<Rendezvous>& ranks) {
  std::vector<std::string> results(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        results[i] = meet(ranks[i], ranks[i].rank == 0 ? secret : std::string(secret.size(), ' '));
      } catch (const std::exception& error) {
        results[i] = error.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return results;
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("All ranks of a job get rank 0's bytes, whoever comes first") {
  for (const int size : {1, 2, 3, 8}) {
    const int port = free_port();
    std::vector<Rendezvous> ranks;
    for (int r = size - 1; r >= 0; --r) ranks.push_back(at(r, size, port));
    CHECK(meet_all(ranks) == std::vector<std::string>(ranks.size(), secret));
  }
}

TEST_CASE("Strangers are ignored: the silent, the noisy, those that break off, and those of another job") {
  const int port = free_port();
  std::atomic<bool> over{false};
  std::vector<std::thread> strangers;
  const auto connect = [&] {
    std::string error;
    return detail::connect_to("localhost", port, detail::SocketClock::now() + milliseconds(200), error);
  };
  const auto soon = [] { return detail::SocketClock::now() + milliseconds(100); };
  const auto harass = [&](auto say) {
    strangers.emplace_back([&, say] {
      std::vector<detail::Socket> kept;
      while (!over) {
        detail::Socket s = connect();
        if (s.open()) say(s);
        if (kept.size() < 20) kept.push_back(std::move(s));
        std::this_thread::sleep_for(milliseconds(5));
      }
    });
  };
  harass([](const detail::Socket&) {});
  harass(
      [&](const detail::Socket& s) { (void)detail::send_all(s, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", soon()); });
  harass([&](const detail::Socket& s) { (void)detail::send_all(s, "PR", soon()); });
  harass([&](const detail::Socket& s) {
    const detail::RendezvousGreeting other{17, 1, 4, detail::RendezvousGreeting::asks};
    (void)detail::send_all(s, other.packed(), soon());
  });
  // Says that it is rank 1, takes the bytes, and never says that it has them.
  strangers.emplace_back([&] {
    for (int i = 0; i < 3; ++i) {
      const detail::Socket s = connect();
      const detail::RendezvousGreeting as{3, 1, static_cast<std::uint32_t>(secret.size()),
                                          detail::RendezvousGreeting::asks};
      std::string heard;
      if (s.open() && detail::send_all(s, as.packed(), soon())) (void)detail::receive_all(s, heard, 40, soon());
    }
  });
  std::vector<std::string> results;
  std::thread job([&] { results = meet_all({at(0, 3, port), at(2, 3, port)}); });
  std::this_thread::sleep_for(milliseconds(300));
  const std::vector<std::string> late = meet_all({at(1, 3, port)});
  job.join();
  over = true;
  for (std::thread& t : strangers) t.join();
  CHECK(late == std::vector<std::string>(1, secret));
  CHECK(results == std::vector<std::string>(2, secret));
}

TEST_CASE("A rank that never comes is named, with those that were refused") {
  const int port = free_port();
  const auto results = meet_all({at(0, 4, port, 400), at(2, 4, port, 400), at(1, 5, port, 400)});
  CHECK(contains(results[0], "RendezvousError: of 4 ranks, these did not come to port"));
  CHECK(contains(results[0], "1, 3; one came as rank 1 of 5 and was refused"));
  CHECK(results[1] == secret);
  CHECK(contains(results[2], "whose job has 4 ranks; give all the same WORLD_SIZE"));
}

TEST_CASE("One rank twice: the second is told, or finds nobody") {
  const int port = free_port();
  const auto results = meet_all({at(0, 3, port, 600), at(1, 3, port, 600), at(1, 3, port, 600)});
  CHECK(contains(results[0], "did not come"));
  CHECK((results[1] == secret) != (results[2] == secret));
  const std::string& other = results[1] == secret ? results[2] : results[1];
  CHECK(contains(other, "where that rank has been already; give each its own RANK"));
}

TEST_CASE("Nobody listens, or somebody else: told at the deadline, with the place that was asked") {
  const int port = free_port();
  const auto alone = meet_all({at(1, 2, port, 200)});
  CHECK(contains(alone[0], "RendezvousError: rank 1 did not reach rank 0 at localhost:" + std::to_string(port)));
  CHECK(contains(alone[0], "refused"));
  std::string error;
  CHECK(!detail::connect_to("127.0.0.1", port, detail::SocketClock::now(), error).open());
  CHECK(contains(error, "refused"));  // not that it is in progress
  const detail::Socket mute = detail::listen_on(port, error);
  REQUIRE(mute.open());
  const auto unheard = meet_all({at(1, 2, port, 200)});
  CHECK(contains(unheard[0], "who listens there is not rank 0 of this job"));
  const auto taken = meet_all({at(0, 2, port, 200)});
  CHECK(contains(taken[0], "rank 0 cannot listen on port"));
  Rendezvous nowhere = at(1, 2, port, 200);
  nowhere.host = "no.such.host.invalid";
  CHECK(contains(meet_all({nowhere})[0], "no.such.host.invalid"));
}

TEST_CASE("Ranks, sizes and ports out of range are refused; another length is another program") {
  CHECK_THROWS_AS(static_cast<void>(meet(at(2, 2, 5000), "x")), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(meet(at(0, 0, 5000), "x")), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(meet(at(0, 2, 0), "x")), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(meet(at(1, 2, 65536), "x")), ArgumentError);
  const int port = free_port();
  std::thread host([&] { CHECK_THROWS_AS(static_cast<void>(meet(at(0, 2, port, 300), secret)), RendezvousError); });
  CHECK_THROWS_AS(static_cast<void>(meet(at(1, 2, port, 300), "short")), RendezvousError);
  host.join();
}

std::map<std::string, std::string, std::less<>>& variables() {
  static std::map<std::string, std::string, std::less<>> all;
  return all;
}
const char* look_up(const char* name) {
  const auto found = variables().find(name);
  return found == variables().end() ? nullptr : found->second.c_str();
}
void set_torchrun() {
  variables() = {
      {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
}

TEST_CASE("torchrun's variables tell the place; the port is the one after its own, or PARTITA_PORT") {
  set_torchrun();
  const JobPlace job = job_from_environment(look_up);
  CHECK(job.rank == 5);
  CHECK(job.size == 8);
  CHECK(job.local_rank == 1);
  CHECK(job.host == "n0");
  CHECK(job.port == 29501);
  variables()["PARTITA_PORT"] = "7000";
  CHECK(job_from_environment(look_up).port == 7000);
  variables().erase("MASTER_PORT");
  CHECK(job_from_environment(look_up).port == 7000);
}

TEST_CASE("A variable that is missing or wrong is named, with what it was and what it may be") {
  for (const std::string name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    set_torchrun();
    variables().erase(name);
    std::string text;
    try {
      static_cast<void>(job_from_environment(look_up));
    } catch (const ArgumentError& error) {
      text = error.what();
    }
    CHECK(contains(text, "the environment variable " + name + " is not set; torchrun sets"));
    if (name == "MASTER_ADDR") continue;
    for (const std::string wrong : {"-1", "8x", "x", "3.5", "99999999999", " 1"}) {
      set_torchrun();
      variables()[name] = wrong;
      CHECK_THROWS_AS(static_cast<void>(job_from_environment(look_up)), ArgumentError);
    }
  }
  set_torchrun();
  variables()["RANK"] = "8";
  CHECK_THROWS_WITH_AS(static_cast<void>(job_from_environment(look_up)),
                       "ArgumentError: the environment variable RANK is '8', it must be a number from 0 to 7",
                       ArgumentError);
}

TEST_CASE("Processes meet") {
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        ::_exit(meet(at(rank, 4, port), std::string(secret.size(), ' ')) == secret ? 0 : 1);
      } catch (...) {
        ::_exit(2);
      }
    }
    children.push_back(child);
  }
  CHECK(meet(at(0, 4, port), secret) == secret);
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

}  // namespace
}  // namespace partita

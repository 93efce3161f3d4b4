// SPDX-License-Identifier: Apache-2.0
// How ranks without MPI get the same few bytes: rank 0 listens, the others ask it. Plain TCP, no CUDA.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "partita/base/error.hpp"
#include "partita/comm/nccl/socket.hpp"

namespace partita {

/// The ranks of a job could not meet: an address that cannot be used, ranks that disagree, or one that did not come.
struct RendezvousError : Error {
  explicit RendezvousError(const std::string& text) : Error("RendezvousError: " + text) {}
};

/// Where the ranks of a job meet.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string host;  // of rank 0, as the others find it
  int port = 0;
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
};

namespace detail {

/// What a rank says first, and what it hears before the bytes: numbers in network order.
struct RendezvousGreeting {
  static constexpr std::uint32_t magic = 0x50524e56;
  static constexpr std::size_t bytes = 20;
  enum Verdict : std::uint32_t { asks, welcome, wrong_size, wrong_rank, taken, wrong_length };

  std::uint32_t size = 0;
  std::uint32_t rank = 0;
  std::uint32_t length = 0;  // of what is to be had
  std::uint32_t verdict = asks;

  [[nodiscard]] std::string packed() const {
    std::string text;
    for (const std::uint32_t word : {magic, size, rank, length, verdict}) {
      const std::uint32_t ordered = htonl(word);
      text.append(reinterpret_cast<const char*>(&ordered), sizeof ordered);
    }
    return text;
  }
  /// False where it is no greeting of ours.
  [[nodiscard]] bool unpack(const std::string& text) {
    if (text.size() != bytes) return false;
    std::uint32_t words[5];
    std::memcpy(words, text.data(), bytes);
    for (std::uint32_t& word : words) word = ntohl(word);
    size = words[1];
    rank = words[2];
    length = words[3];
    verdict = words[4];
    return words[0] == magic;
  }
};

/// One that has connected: it says who it is, gets its bytes, and says that it has them.
struct RendezvousGuest {
  Socket socket;
  SocketClock::time_point until;
  std::string heard;
  std::uint32_t rank = 0;  // once it has been sent its bytes
};

/// Rank 0's side: answers guests until every rank has its bytes. Strangers, and guests that do not speak, are shut out,
/// and hold up nobody.
class RendezvousHost {
 public:
  RendezvousHost(const Rendezvous& where, std::string_view bytes)
      : where_(where), bytes_(bytes), served_(static_cast<std::size_t>(where.size)) {
    served_[0] = true;
  }

  void run() {
    const auto until = SocketClock::now() + where_.deadline;
    std::string error;
    const Socket listener = listen_on(where_.port, error);
    if (!listener.open()) {
      throw RendezvousError("rank 0 cannot listen on port " + std::to_string(where_.port) + ": " + error +
                            "; choose a free one by PARTITA_PORT");
    }
    while (std::count(served_.begin(), served_.end(), false) > 0) {
      if (SocketClock::now() >= until) throw_missing();
      wait_for_any(listener, until);
      for (Socket guest = accept_from(listener); guest.open(); guest = accept_from(listener)) {
        guests_.push_back({std::move(guest), SocketClock::now() + std::chrono::seconds(5), {}, 0});
      }
      for (RendezvousGuest& guest : guests_) hear(guest);
      std::erase_if(guests_, [](const RendezvousGuest& g) { return !g.socket.open(); });
    }
  }

 private:
  [[noreturn]] void throw_missing() const {
    std::string ranks;
    for (std::size_t r = 0; r < served_.size(); ++r) {
      if (!served_[r]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
    }
    throw RendezvousError("of " + std::to_string(where_.size) + " ranks, these did not come to port " +
                          std::to_string(where_.port) + " of rank 0 within " + std::to_string(where_.deadline.count()) +
                          " ms: " + ranks + refused_ + "; start all with the same WORLD_SIZE, MASTER_ADDR and port");
  }
  void wait_for_any(const Socket& listener, SocketClock::time_point until) {
    std::vector<pollfd> polled{{listener.get(), POLLIN, 0}};
    for (const RendezvousGuest& guest : guests_) polled.push_back({guest.socket.get(), POLLIN, 0});
    poll_until(polled, std::min(until, SocketClock::now() + std::chrono::milliseconds(100)));
  }

  void hear(RendezvousGuest& guest) {
    const std::size_t wanted = RendezvousGreeting::bytes + (guest.rank > 0 ? 1 : 0);
    const bool goes_on = receive_some(guest.socket, guest.heard, wanted) && SocketClock::now() < guest.until;
    if (guest.heard.size() < wanted) {
      if (!goes_on) guest.socket.close();
    } else if (guest.rank > 0) {
      served_[guest.rank] = true;
      guest.socket.close();
    } else {
      RendezvousGreeting asked;
      if (!asked.unpack(guest.heard) || !answer(guest, asked)) guest.socket.close();
    }
  }

  /// False where nothing more is to be said to the guest.
  [[nodiscard]] bool answer(RendezvousGuest& guest, const RendezvousGreeting& asked) {
    using enum RendezvousGreeting::Verdict;
    RendezvousGreeting reply{static_cast<std::uint32_t>(where_.size), asked.rank,
                             static_cast<std::uint32_t>(bytes_.size()), welcome};
    if (asked.size != reply.size) {
      reply.verdict = wrong_size;
    } else if (asked.rank == 0 || asked.rank >= reply.size) {
      reply.verdict = wrong_rank;
    } else if (asked.length != reply.length) {
      reply.verdict = wrong_length;
    } else if (served_[asked.rank]) {
      reply.verdict = taken;
    } else if (std::any_of(guests_.begin(), guests_.end(), [&](const auto& g) { return g.rank == asked.rank; })) {
      return false;  // one of that rank is being served: if that breaks off, this one asks again
    }
    if (reply.verdict != welcome) {
      refused_ =
          "; one came as rank " + std::to_string(asked.rank) + " of " + std::to_string(asked.size) + " and was refused";
      (void)send_all(guest.socket, reply.packed(), SocketClock::now());
      return false;
    }
    guest.rank = asked.rank;
    return send_all(guest.socket, reply.packed() + std::string(bytes_), SocketClock::now());
  }

  const Rendezvous& where_;
  std::string_view bytes_;
  std::vector<bool> served_;
  std::vector<RendezvousGuest> guests_;
  std::string refused_;
};

/// The other ranks' side: asks again until rank 0 listens.
[[nodiscard]] inline std::string ask_rendezvous(const Rendezvous& where, std::size_t length) {
  using enum RendezvousGreeting::Verdict;
  const auto until = SocketClock::now() + where.deadline;
  const std::string place = where.host + ":" + std::to_string(where.port);
  const RendezvousGreeting asks_for{static_cast<std::uint32_t>(where.size), static_cast<std::uint32_t>(where.rank),
                                    static_cast<std::uint32_t>(length), asks};
  std::string error = "nobody listens";
  do {
    const auto patience = std::min(until, SocketClock::now() + std::chrono::seconds(5));
    const Socket socket = connect_to(where.host, where.port, patience, error);
    std::string text;
    RendezvousGreeting reply;
    const bool heard = socket.open() && send_all(socket, asks_for.packed(), patience) &&
                       receive_all(socket, text, RendezvousGreeting::bytes, patience) && reply.unpack(text);
    if (heard && reply.verdict == welcome) {
      text.clear();
      if (receive_all(socket, text, length, patience)) {
        (void)send_all(socket, "!", patience);
        return text;
      }
    }
    const std::string who = "rank " + std::to_string(where.rank) + " of " + std::to_string(where.size);
    if (heard && reply.verdict == wrong_size) {
      throw RendezvousError(who + " asked " + place + ", whose job has " + std::to_string(reply.size) +
                            " ranks; give all the same WORLD_SIZE");
    }
    if (heard && reply.verdict == taken) {
      throw RendezvousError(who + " asked " + place + ", where that rank has been already; give each its own RANK");
    }
    if (heard && reply.verdict == wrong_rank) {
      throw RendezvousError(who + " asked " + place + ", which knows no such rank; RANK goes from 0 to WORLD_SIZE - 1");
    }
    if (heard && reply.verdict == wrong_length) {
      throw RendezvousError(who + " asked " + place + " for " + std::to_string(length) + " bytes, it has " +
                            std::to_string(reply.length) + "; give all ranks the same version of this program");
    }
    if (socket.open()) error = "who listens there is not rank 0 of this job, or went away";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (SocketClock::now() < until);
  throw RendezvousError("rank " + std::to_string(where.rank) + " did not reach rank 0 at " + place + " within " +
                        std::to_string(where.deadline.count()) + " ms: " + error +
                        "; check MASTER_ADDR, MASTER_PORT and PARTITA_PORT");
}

}  // namespace detail

/// Rank 0's `bytes` on all ranks; those of the others only tell how many are wanted. Waits for all ranks, against the
/// deadline. Connections of others than the job's ranks are ignored. Errors: ArgumentError for a rank, size or port
/// out of range, RendezvousError.
[[nodiscard]] inline std::string meet(const Rendezvous& where, const std::string& bytes) {
  if (where.size < 1 || where.rank < 0 || where.rank >= where.size) {
    throw ArgumentError("ArgumentError: a rendezvous as rank " + std::to_string(where.rank) + " of " +
                        std::to_string(where.size) + "; ranks go from 0 to the size - 1");
  }
  if (where.size == 1) return bytes;
  if (where.port < 1 || where.port > 65535) {
    throw ArgumentError("ArgumentError: a rendezvous at port " + std::to_string(where.port) +
                        "; ports go from 1 to 65535");
  }
  if (where.rank > 0) return detail::ask_rendezvous(where, bytes.size());
  detail::RendezvousHost(where, bytes).run();
  return bytes;
}

}  // namespace partita

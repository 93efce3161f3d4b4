#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fault_test.sh PROGRAM RANKS MPIRUN...: one rank fails in each of several ways; the job must end within 15 seconds with
# an exit code that is not 0, text that names the rank, and no process left.
set -u
program=$1 ranks=$2
shift 2
limit=15
failures=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

complain() {
  echo "FAILED: $*"
  sed 's/^/    /' "$log" | head -n 40
  failures=$((failures + 1))
}

now() { date +%s%N; }

# pids of this run's ranks: the program's processes whose command line holds our token.
orphans() { pgrep -f -- "$program $1 $2 $3" || true; }

# check HOW RANK TEXT [STARTER]: TEXT is an extended regular expression that the output must match.
check() {
  local how=$1 rank=$2 text=$3 token=token.$$.$RANDOM start took code left
  start=$(now)
  if [ "$how" = wait ]; then
    # Killed from outside, as by an operator or the kernel for want of memory.
    timeout -k 5 60 "${mpirun[@]}" -n "$ranks" "$program" "$how" "$rank" "$token" > "$log" 2>&1 &
    local job=$! pid=
    for _ in $(seq 300); do
      pid=$(sed -n "s/^rank $rank has pid \([0-9]*\)\$/\1/p" "$log")
      [ -z "$pid" ] || break
      sleep 0.1
    done
    start=$(now)
    [ -z "$pid" ] || kill -9 "$pid"
    wait "$job"
    code=$?
  else
    timeout -k 5 60 "${mpirun[@]}" -n "$ranks" "$program" "$how" "$rank" "$token" > "$log" 2>&1
    code=$?
  fi
  took=$((($(now) - start) / 1000000))
  echo "$how of rank $rank: $took ms, exit code $code"
  [ "$code" -ne 0 ] || complain "$how of rank $rank: exit code 0"
  [ "$took" -le $((limit * 1000)) ] || complain "$how of rank $rank: the job took $took ms to end"
  grep -qE -- "$text" "$log" || complain "$how of rank $rank: the output does not match $text"
  if [ "$how" = throw ] || [ "$how" = comm_abort ]; then
    [ "$(grep -c '^partita: rank' "$log")" -eq 1 ] || complain "$how of rank $rank: not one line of ours"
  fi
  sleep 0.2
  left=$(orphans "$how" "$rank" "$token")
  if [ -n "$left" ]; then
    sleep 2
    left=$(orphans "$how" "$rank" "$token")
  fi
  if [ -n "$left" ]; then
    complain "$how of rank $rank: processes are left: $left"
    kill -9 $left
  fi
}

mpirun=("$@")
last=$((ranks - 1))
# What mpirun says about a rank that is gone: Open MPI "process rank 1 with PID", "Process name: [[1,1],1]"; MPICH's
# hydra names the rank only in its exit codes.
gone="rank $last|\],$last\]|BAD TERMINATION"

timeout 60 "${mpirun[@]}" -n "$ranks" "$program" work > "$log" 2>&1 || complain "the program does not work"
check throw "$last" "^partita: rank $last failed: thrown on purpose"
check throw 0 "^partita: rank 0 failed: thrown on purpose"
check comm_abort "$last" "^partita: rank $last failed: .*abort\(\) was called"
check exit "$last" "^partita: rank $last failed: it called exit\(\)"
check quit "$last" "^partita: rank $last failed: it called exit\(\)"
check _exit "$last" "$gone|partita: rank"
check abort "$last" "$gone"
check terminate "$last" "$gone"
check segv "$last" "$gone"
check kill "$last" "$gone"
check kill 0 "rank 0|\],0\]|BAD TERMINATION"
check wait "$last" "$gone"
check stop "$last" "^partita: rank [0-9]* failed: TimeoutError"
check early_throw "$last" "^partita: rank $last failed: thrown on purpose"
check early_exit "$last" "^partita: rank $last failed: it called exit\(\)"
check early_stop "$last" "^partita: rank [0-9]* failed: TimeoutError"
check absent "$last" "^partita: rank [0-9]* failed: TimeoutError"
check leave "$last" "^partita: rank [0-9]* failed: TimeoutError"

[ "$failures" -eq 0 ] && echo "all faults ended their job"
exit "$((failures > 0))"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tool, demo and example with ranks that are MPI processes:
# tools_test.sh TOOL DEMO LEGACY FIXTURES DATA SCRATCH MPIRUN...
set -u
tool=$1 demo=$2 legacy=$3 fixtures=$4 data=$5 scratch=$6
shift 6
mpirun=("$@")

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
"$fixtures" . || exit 1

checks=0 failures=0
fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$*"
}

# start STATUS RANKS COMMAND...: the job ends with STATUS. mpirun's own lines about a status are none of ours.
start() {
  local status=$1 ranks=$2 found
  shift 2
  checks=$((checks + 1))
  timeout -k 5 180 "${mpirun[@]}" --quiet -n "$ranks" "$@" > stdout.txt 2> stderr.txt
  found=$?
  [ "$found" -eq "$status" ] || fail "$* on $ranks ends with $found, not $status: $(cat stderr.txt)"
}

# run STATUS RANKS ARGUMENTS...: the tool. An error is told in one line, and leaves no file.
run() {
  local status=$1 ranks=$2 lines
  shift 2
  rm -f out.npy
  start "$status" "$ranks" "$tool" "$@" --comm mpi
  lines=$(grep -c '^partita' stderr.txt)
  if [ "$status" -eq 0 ]; then
    [ "$lines" -eq 0 ] || fail "$* writes to the standard error: $(cat stderr.txt)"
    [ "$(grep -c '^written' stdout.txt)" -eq 1 ] || fail "$*: not one rank prints: $(cat stdout.txt)"
  else
    [ "$lines" -eq 1 ] || fail "$* tells its error in $lines lines: $(cat stderr.txt)"
    [ ! -e out.npy ] || fail "$* leaves an output file"
  fi
  compgen -G '*.partial-*' > /dev/null && fail "$* leaves a partial file" && rm -f ./*.partial-*
}

says() {
  grep -q -F -e "$1" "${2:-stdout.txt}" || fail "the last run does not say '$1': $(cat "${2:-stdout.txt}")"
}
explains() { says "$1" stderr.txt; }

# same RANKS ARGUMENTS...: with processes the tool writes what it writes with as many threads. Integers, so bit for bit.
same() {
  local ranks=$1 options=()
  shift
  run 0 "$ranks" "$@" -o out.npy --verify
  case " $* " in *' --q '* | *' --rows '*) ;; *) options=(--ranks "$ranks") ;; esac
  "$tool" "$@" "${options[@]}" -o threads.npy > threads.txt || fail "$* fails with threads"
  cmp -s out.npy threads.npy || fail "$* on $ranks: processes and threads differ"
  # What moves does not depend on what ranks are.
  cmp -s <(grep '^  rank' stdout.txt) <(grep '^  rank' threads.txt) || fail "$* on $ranks: the counts differ"
}

same 3 f8-a.npy f8-b.npy --policy replicated
same 5 f4-a.npy f4-bt.npy --policy column --transpose-b
same 4 c16-at.npy c16-b.npy --policy row --transpose-a
same 6 f8-a.npy f8-b.npy --policy summa2d --panel-width 3
same 8 f8-a.npy f8-b.npy --policy summa2d --rows 4 --cols 2 --all-gather
same 8 f8-at.npy f8-b.npy --policy summa25d --q 2 --d 2 --transpose-a
same 3 f8-a.npy f8-bt.npy --policy splitk --q 1 --d 3 --transpose-b --alpha 2 --beta -3 --c f8-c0.npy --repeat 3
same 4 nok-a.npy nok-b.npy --policy summa2d
same 1 tiny-a.npy tiny-b.npy --policy summa2d
run 0 8 f8-a.npy f8-b.npy -o out.npy --policy splitk # 2, 2 as with threads
says 'Depth 2 x Row 2 x Col 2, ranks 8'
run 0 6 f8-a.npy f8-b.npy -o out.npy --policy summa2d
says 'Row 2 x Col 3, ranks 6'

run 2 2 f8-a.npy -o out.npy --policy row
run 2 2 f8-a.npy f8-b.npy -o out.npy --policy row --unknown
run 2 3 f8-a.npy f8-b.npy -o out.npy --policy row --ranks 4
explains 'mpirun -n 4'
run 2 4 f8-a.npy f8-b.npy -o out.npy --policy summa2d --rows 2 --cols 3
explains 'mpirun -n 6'
run 2 4 f8-a.npy f8-b.npy -o out.npy --policy summa25d --q 2 --d 2
explains '--q 1 --d 4 or --q 2 --d 1'
run 2 6 f8-a.npy f8-b.npy -o out.npy --policy splitk
explains '--q 1 --d 6'
run 1 3 none.npy f8-b.npy -o out.npy --policy row
explains 'none.npy'
run 1 4 f8-a.npy f8-a.npy -o out.npy --policy summa2d
explains 'ShapeError'
run 1 4 f8-a.npy f8-b.npy -o no/directory/out.npy --policy summa2d
run 1 2 f8-a.npy f8-b.npy -o out.npy --policy row --beta 1 --c c16-c0.npy # complex to real
head -c 1000 f8-a.npy > short.npy
run 1 3 short.npy f8-b.npy -o out.npy --policy column
explains 'cut short'
# Two empty matrices whose product no address space holds.
for shape in "tall (2000000000, 0)" "wide (0, 2000000000)"; do
  header=$(printf "%-117s" "{'descr': '<f4', 'fortran_order': False, 'shape': ${shape#* }, }")
  printf '\x93NUMPY\x01\x00\x76\x00%s\n' "$header" > "${shape%% *}.npy"
done
run 1 4 tall.npy wide.npy -o out.npy --policy summa2d
explains 'CapacityError'
# Threads in each of several processes: refused, by one of them.
rm -f out.npy
start 2 3 "$tool" f8-a.npy f8-b.npy -o out.npy --policy row
[ "$(grep -c '^partita' stderr.txt)" -eq 1 ] || fail "not one process refuses: $(cat stderr.txt)"
explains 'mpirun has started 3 processes'
explains 'give --comm mpi'
[ ! -e out.npy ] || fail 'threads in several processes write a result'
start 0 1 "$tool" f8-a.npy f8-b.npy -o out.npy --policy row
[ -e out.npy ] || fail 'threads in one process under mpirun write no result'

cp f8-c0.npy older.npy
run 1 3 f8-a.npy f8-a.npy -o older.npy --policy row
cmp -s older.npy f8-c0.npy || fail 'an older output is lost'

for ranks in 1 2 5 7; do
  start 0 "$ranks" "$legacy"
  says ' 0 wrong'
  [ "$(wc -l < stdout.txt)" -eq 1 ] || fail "the legacy program prints more than a line: $(cat stdout.txt)"
done

start 0 8 "$demo" "$data"
[ "$(tail -n 1 stdout.txt)" = 'all results agree' ] || fail "the demo: $(cat stdout.txt stderr.txt)"
says '8 ranks, each a process under MPI'

echo "$checks runs, $failures failures"
[ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]

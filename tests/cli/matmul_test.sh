#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# partita-matmul from end to end: matmul_test.sh SECTION TOOL FIXTURES DATA SCRATCH [none|emulated|real]
# The last says which devices --comm nccl finds; the section `devices` is about them.
set -u
section=$1 tool=$2 fixtures=$3 data=$4 scratch=$5 found_devices=${6:-none}

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
"$fixtures" . || exit 1

checks=0 failures=0
fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$*"
}

# run STATUS ARGUMENTS...: the tool ends with STATUS. An error is told in one line, and leaves no file.
run() {
  local status=$1 found lines
  shift
  checks=$((checks + 1))
  rm -f out.npy
  "$tool" "$@" > stdout.txt 2> stderr.txt
  found=$?
  [ "$found" -eq "$status" ] || fail "$* ends with $found, not $status: $(cat stderr.txt)"
  lines=$(wc -l < stderr.txt)
  if [ "$status" -eq 0 ]; then
    [ "$lines" -eq 0 ] || fail "$* writes to the standard error: $(cat stderr.txt)"
  else
    [ "$lines" -eq 1 ] || fail "$* tells its error in $lines lines: $(cat stderr.txt)"
    [ ! -e out.npy ] || fail "$* leaves an output file"
  fi
  compgen -G '*.partial-*' > /dev/null && fail "$* leaves a partial file" && rm -f ./*.partial-*
}

# says TEXT [FILE]: the last run told TEXT.
says() {
  grep -q -F -e "$1" "${2:-stdout.txt}" || fail "the last run does not say '$1': $(cat "${2:-stdout.txt}")"
}
explains() { says "$1" stderr.txt; }

# equals FILE: the last output is FILE, bit for bit.
equals() { cmp -s out.npy "$1" || fail "the last output differs from $1"; }

# Each policy with each of its grids.
grids=(
  'replicated' 'replicated --ranks 3' 'column' 'column --ranks 5' 'row --ranks 1' 'row' 'row --ranks 7'
  'summa2d' 'summa2d --ranks 6' 'summa2d --ranks 5' 'summa2d --rows 3 --cols 2' 'summa2d --rows 2 --cols 2 --ranks 4'
  'summa25d' 'summa25d --q 2 --d 3' 'summa25d --q 1 --d 2 --ranks 2' 'summa25d --q 3 --d 2'
  'splitk' 'splitk --q 2 --d 3' 'splitk --q 1 --d 4' 'splitk --q 3 --d 1'
)

policies() {
  local grid set a b flags options
  for grid in "${grids[@]}"; do
    for set in f8 f4 c16 one tiny norows nok nocols; do
      for flags in '' '--transpose-a' '--transpose-b' '--transpose-a --transpose-b'; do
        a=$set-a.npy b=$set-b.npy
        case $flags in *-a*) a=$set-at.npy ;; esac
        case $flags in *-b*) b=$set-bt.npy ;; esac
        run 0 $a $b -o out.npy --policy $grid $flags --verify
        equals $set-ab.npy
        says 'verified  largest error / bound 0'
      done
    done
    for options in '' '--panel-width 1 --lookahead 1' '--panel-width 3 --lookahead 4' '--all-gather --panel-width 4'; do
      run 0 f8-a.npy f8-bt.npy -o out.npy --policy $grid --transpose-b $options \
        --alpha 2 --beta -3 --c f8-c0.npy --repeat 3 --verify
      equals f8-ab0.npy
      says 'of 3'
      run 0 rough.npy rough.npy -o out.npy --policy $grid --transpose-a $options --alpha 0.3 --verify
    done
  done
  # Real data: the references are NumPy's, compared as one policy with the next.
  rm -f first-*.npy
  for grid in replicated column row summa2d summa25d splitk; do
    run 0 "$data/digits.npy" "$data/digits.npy" -o out.npy --policy $grid --transpose-a --verify
    [ -e first-xtx.npy ] || cp out.npy first-xtx.npy
    equals first-xtx.npy
    run 0 "$data/digits.npy" "$data/digits_class_means.npy" -o out.npy --policy $grid --verify
  done
}

types() {
  local grid
  for grid in 'column --ranks 3' 'summa2d --rows 2 --cols 3' 'splitk'; do
    run 0 f4-a.npy f4-b.npy -o out.npy --policy $grid --verify
    equals f4-ab.npy
    run 0 f2-a.npy f4-b.npy -o out.npy --policy $grid --verify # float16 counts as float32
    equals f4-ab.npy
    run 0 f4-a.npy f8-b.npy -o out.npy --policy $grid --verify
    equals f8-ab.npy
    run 0 f4-a.npy i8-b.npy -o out.npy --policy $grid --verify
    equals f8-ab.npy
    run 0 f2-a.npy i8-b.npy -o out.npy --policy $grid --verify
    equals f8-ab.npy
    run 0 c8-a.npy c8-b.npy -o out.npy --policy $grid --verify
    equals c8-ab.npy
    run 0 c8-a.npy f4-b.npy -o out.npy --policy $grid --verify
    equals c8f4-ab.npy
    run 0 c8-a.npy c16-b.npy -o out.npy --policy $grid --verify
    equals c16-ab.npy
    run 0 f8-fa.npy f8-fbt.npy -o out.npy --policy $grid --transpose-b --verify # Fortran order
    equals f8-ab.npy
    run 0 c8-fa.npy c8-fbt.npy -o out.npy --policy $grid --transpose-b --verify
    equals c8-ab.npy
  done
  run 0 f8-a.npy f8-b.npy -o out.npy --policy row --beta -3 --alpha 2 --c f4-c0.npy --verify # C0 is converted
  equals f8-ab0.npy
}

options() {
  run 0 f8-a.npy f8-b.npy -o out.npy --policy row --explain
  says 'strategy  ColumnShard x RowShard -> Replicated, local: all_reduce along Tp'
  says 'grid      Tp 4, ranks 4'
  says 'schedule  1 panel: 1 gemm, 1 all_reduce on rank 0'
  says 'all_reduce C[0:13, 0:11] along Tp'
  says '  rank 3  '
  says 'written   out.npy'
  run 0 f8-a.npy f8-b.npy -o out.npy --policy summa2d --panel-width 2
  says 'panels:'
  says 'Summa2D x Summa2D -> Summa2D, stationary C'
  run 0 f8-at.npy f8-b.npy -o out.npy --policy summa25d --transpose-a
  says 'transposed(Summa25D) x Summa25D -> Summa25DWeight, stationary B'
  run 0 f8-a.npy f8-b.npy -o out.npy --policy replicated
  says 'rank 0  0 = 0  0 = 0'
  run 0 f8-a.npy f8-b.npy -o out.npy --policy summa2d --repeat 4
  says 'minimum'
  says 'of 4'
  # beta = 0 does not read C0, alpha = 0 moves nothing.
  run 0 f8-a.npy f8-b.npy -o out.npy --policy splitk --beta 0 --c f8-nan.npy --verify --repeat 2
  equals f8-ab.npy
  run 0 f8-a.npy f8-b.npy -o out.npy --policy summa2d --alpha 0 --beta 1 --c f8-c0.npy --verify
  equals f8-c0.npy
  says 'rank 0  0 = 0  0 = 0'
  run 0 f8-a.npy f8-b.npy -o out.npy --policy row --beta 0
  equals f8-ab.npy
  # The output may be an input.
  cp f8-a.npy square.npy
  run 0 square.npy f8-b.npy -o square.npy --policy summa2d --verify
  mv square.npy out.npy
  equals f8-ab.npy
  run 0 --help
  says '--policy'
}

usage() {
  local grid
  run 2
  run 2 f8-a.npy -o out.npy --policy row
  run 2 f8-a.npy f8-b.npy --policy row
  run 2 f8-a.npy f8-b.npy -o out.npy
  run 2 f8-a.npy f8-b.npy -o out.npy --policy none
  explains 'summa25d'
  run 2 f8-a.npy f8-b.npy f8-b.npy -o out.npy --policy row
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --unknown
  for grid in 'row --rows 2 --cols 2' 'column --q 2 --d 2' 'replicated --ranks 0' 'row --ranks -1' 'row --ranks two' \
    'row --ranks 5000' 'summa2d --rows 2' 'summa2d --cols 2' 'summa2d --q 2 --d 2' 'summa2d --rows 64 --cols 64' \
    'summa2d --rows 0 --cols 2' 'summa25d --q 2' 'splitk --d 2' 'splitk --rows 2 --cols 2' 'splitk --q 100 --d 100'; do
    run 2 f8-a.npy f8-b.npy -o out.npy --policy $grid
  done
  run 2 f8-a.npy f8-b.npy -o out.npy --policy summa2d --rows 2 --cols 3 --ranks 8
  explains 'give --ranks 6'
  run 2 f8-a.npy f8-b.npy -o out.npy --policy summa25d --q 2 --d 2 --ranks 6
  explains 'needs 8 ranks'
  run 2 f8-a.npy f8-b.npy -o out.npy --policy splitk --ranks 8
  explains '--q 2 --d 2'
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --beta 1
  explains '--c C0.npy'
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --c f8-c0.npy
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --repeat 0
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --repeat -3
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --alpha x
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --alpha nan
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --panel-width 0
  run 2 f8-a.npy f8-b.npy -o out.npy --policy row --lookahead 0
  # Several processes of mpirun, each with threads of its own: the first tells the error, the others nothing.
  for grid in 'OMPI_COMM_WORLD' 'PMI'; do
    export "${grid}_SIZE=3" "${grid}_RANK=0"
    run 2 f8-a.npy f8-b.npy -o out.npy --policy row
    explains '3 processes'
    explains '--comm mpi'
    run 2 f8-a.npy f8-b.npy -o out.npy --policy row --comm threads
    explains '--comm threads'
    export "${grid}_RANK=1"
    run 0 f8-a.npy f8-b.npy -o out.npy --policy row
    [ ! -e out.npy ] || fail 'another process than the first does the work'
    export "${grid}_SIZE=1" "${grid}_RANK=0"
    run 0 f8-a.npy f8-b.npy -o out.npy --policy row
    [ -e out.npy ] || fail 'one process under mpirun does no work'
    unset "${grid}_SIZE" "${grid}_RANK"
  done
}

devices() {
  local grid set flags
  if [ "$found_devices" = none ]; then
    run 2 f8-a.npy f8-b.npy -o out.npy --policy row --comm nccl
    explains 'PARTITA_CUDA=ON'
    return
  fi
  if [ "$found_devices" = real ] && ! "$tool" f8-a.npy f8-b.npy -o out.npy --policy row --ranks 1 --comm nccl; then
    run 1 f8-a.npy f8-b.npy -o out.npy --policy row --ranks 1 --comm nccl
    explains 'NoDeviceError'
    echo 'SKIPPED: products on devices, there is none'
    return
  fi
  run 1 f8-a.npy f8-b.npy -o out.npy --policy row --ranks 99 --comm nccl
  explains '99 ranks'
  for grid in "${grids[@]}"; do
    [ "$found_devices" = emulated ] || grid="${grid%% *} --ranks 1"
    case $grid in summa25d*'--d 3'* | summa25d*'--q 3'* | splitk*'--d 3'* | splitk*'--q 3'*) continue ;; esac # > 8
    [ "$found_devices" = emulated ] || case $grid in summa25d* | splitk*) grid="${grid%% *} --q 1 --d 1" ;; esac
    for set in f4 c16; do
      run 0 $set-a.npy $set-b.npy -o out.npy --policy $grid --comm nccl --verify
      equals $set-ab.npy
      says 'verified  largest error / bound 0'
    done
    for set in one norows nok; do
      run 0 $set-a.npy $set-b.npy -o out.npy --policy $grid --comm nccl
      equals $set-ab.npy
    done
    for flags in '--panel-width 3 --lookahead 1' '--all-gather --panel-width 4'; do
      run 0 f8-a.npy f8-bt.npy -o out.npy --policy $grid --comm nccl --transpose-b $flags \
        --alpha 2 --beta -3 --c f8-c0.npy --repeat 3 --verify
      equals f8-ab0.npy
      run 0 f8-at.npy f8-bt.npy -o out.npy --policy $grid --comm nccl --transpose-a --transpose-b $flags
      equals f8-ab.npy
    done
  done
}

errors() {
  run 1 none.npy f8-b.npy -o out.npy --policy row
  explains 'none.npy'
  run 1 f8-a.npy none.npy -o out.npy --policy row
  run 1 broken.npy f8-b.npy -o out.npy --policy row
  explains 'not a .npy file'
  run 1 . f8-b.npy -o out.npy --policy row
  run 1 f8-a.npy f8-b.npy -o out.npy --policy row --beta 1 --c none.npy
  run 1 f8-a.npy f8-a.npy -o out.npy --policy summa2d # 13×17 by 13×17
  explains 'ShapeError'
  run 1 f8-a.npy f8-b.npy -o out.npy --policy row --transpose-a
  run 1 f8-a.npy f8-b.npy -o out.npy --policy row --beta 1 --c f8-a.npy
  explains 'ShapeError'
  run 1 f8-a.npy f8-b.npy -o out.npy --policy row --beta 1 --c c16-c0.npy # complex to real
  run 1 f8-a.npy f8-b.npy -o no/directory/out.npy --policy row
  run 1 f8-a.npy f8-b.npy -o . --policy row
  run 1 f8-a.npy f8-b.npy -o /dev/full --policy row
  head -c 1000 f8-a.npy > short.npy
  run 1 short.npy f8-b.npy -o out.npy --policy summa2d
  explains 'cut short'

  # A disk that is full: files may not grow beyond 4 KiB.
  run 0 rough.npy rough.npy -o big.npy --policy summa2d --transpose-a
  (
    trap '' XFSZ
    ulimit -f 4
    run 1 rough.npy rough.npy -o out.npy --policy summa2d --transpose-a
    explains 'cannot be written'
    exit "$failures"
  ) || fail 'the disk that is full'
  # An older output stays as it was.
  cp f8-c0.npy older.npy
  run 1 f8-a.npy f8-a.npy -o older.npy --policy row
  cmp -s older.npy f8-c0.npy || fail 'an older output is lost'
  # A report that cannot be printed: then there is no output either.
  if [ -e /dev/full ]; then
    rm -f out.npy
    "$tool" f8-a.npy f8-b.npy -o out.npy --policy row > /dev/full 2> stderr.txt
    [ $? -eq 1 ] || fail 'a report that cannot be printed is no error'
    [ ! -e out.npy ] || fail 'a report that cannot be printed leaves an output'
  fi
}

case $section in
  policies | types | options | usage | devices | errors) "$section" ;;
  *) echo "unknown section $section" && exit 2 ;;
esac
echo "$section: $checks runs, $failures failures"
[ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_digits_test.sh SECTION PROGRAM DIRECTORY [ARGUMENTS...]: the program train_digits from end to end; files go to DIRECTORY.
#   policies  in double, 200 losses of every policy are those of the serial run to 1e-10
#   files     the table, the picture, the accuracy that is printed, and progress
#   usage     what is refused, and with which text
#   mpi       the same losses where ranks are processes, which the arguments start
#   devices   the same losses in single precision where ranks have devices; none, emulated or real, the argument tells
set -u
section=$1 program=$2 directory=$3
shift 3
arguments=("$@")
rm -rf "$directory" && mkdir -p "$directory" && cd "$directory" || exit 1
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

# same_losses A B STEPS [LIMIT]: two tables have so many steps, and losses that agree to 1e-10, or to the limit.
same_losses() {
  paste -d, "$1" "$2" | awk -F, -v steps="$3" -v limit="${4:-1e-10}" 'NR == 1 { half = NF / 2; next }
    { d = $2 - $(half + 2); if (d < 0) d = -d
      if ($1 != $(half + 1) || !(d <= limit * $2)) { print "step " $1 ": " $2 " and " $(half + 2); bad = 1 } }
    END { exit bad || NR != steps + 1 }'
}

# refused TEXT ARGUMENTS...: status 2, one line on the standard error, and the text in it.
refused() {
  local text=$1
  shift
  "$program" "$@" >out.txt 2>err.txt
  local status=$?
  [ $status -eq 2 ] || fail "status $status of: $*"
  [ "$(wc -l <err.txt)" -eq 1 ] || fail "not one line of: $*: $(cat err.txt)"
  grep -qF -- "$text" err.txt || fail "no '$text' from: $*: $(cat err.txt)"
}

case $section in
  policies)
    train() { "$program" --quiet --type double --steps 200 --batch 10 --csv "$1.csv" "${@:2}" || fail "$*"; }
    train serial
    while read -r name options; do
      # shellcheck disable=SC2086
      train "$name" $options
      same_losses serial.csv "$name.csv" 200 || fail "the losses of $name are not the serial ones"
    done <<'POLICIES'
column-row2 --policy column-row --ranks 2
column-row4 --policy column-row --ranks 4
sequence2 --policy sequence --ranks 2
sequence4 --policy sequence --ranks 4
summa2d --policy summa2d --ranks 4
summa2d1x2 --policy summa2d --rows 1 --cols 2
summa25d --policy summa25d --ranks 8
summa25d1x3 --policy summa25d --q 1 --d 3
POLICIES
    ;;
  files)
    "$program" --steps 40 --batch 32 --csv curve.csv --picture curve.svg >out.txt 2>err.txt || fail "a short run"
    [ "$(wc -l <curve.csv)" -eq 41 ] || fail "the table has not a line for each step"
    accuracy=$(awk -F, 'END { print $5 }' curve.csv)
    [ "$(awk -v a="$accuracy" 'BEGIN { printf "%.2f", 100 * a }')" = "$(sed -n 's/.*images: \([0-9.]*\) %.*/\1/p' out.txt)" ] ||
      fail "the table's last accuracy, $accuracy, is not the one that is printed: $(cat out.txt)"
    grep -q '^<svg.*xmlns' curve.svg && [ "$(grep -c '<polyline' curve.svg)" -eq 3 ] || fail "the picture has not three lines"
    grep -q 'step 40 of 40, loss [0-9.]*, held out [0-9.]* %, [0-9]* rows/s, 0:00 left' err.txt ||
      fail "no progress: $(cat err.txt)"
    "$program" --steps 2 --csv missing/curve.csv >out.txt 2>err.txt
    [ $? -eq 1 ] || fail "status of a table in a directory that does not exist"
    grep -q 'missing/curve.csv cannot be written; its directory must exist' err.txt || fail "$(cat err.txt)"
    "$program" --steps 2 --data missing >out.txt 2>err.txt
    [ $? -eq 1 ] || fail "status of data that does not exist"
    ;;
  usage)
    refused "policy serial has one rank, not 4" --ranks 4
    refused "give --q 1 --d 6" --policy summa25d --q 2 --d 2 --ranks 6
    refused "give --ranks P alone" --policy sequence --rows 2 --cols 2
    refused "takes --rows and --cols together" --policy summa2d --rows 2
    refused "not in {serial,column-row,sequence,summa2d,summa25d}" --policy megatron
    refused "--steps excludes --epochs" --steps 5 --epochs 1
    refused "not in range" --batch 0
    "$program" --help >out.txt || fail "status of --help"
    grep -q -- '--policy' out.txt || fail "--help does not tell of --policy"
    ;;
  mpi)
    "$program" --quiet --type double --steps 30 --batch 10 --csv serial.csv || fail "serial"
    start() { timeout -k 5 300 "${arguments[@]}" --quiet -n "$1" "$program" --comm mpi --quiet "${@:2}" >out.txt 2>err.txt; }
    while read -r ranks policy; do
      start "$ranks" --policy "$policy" --type double --steps 30 --batch 10 --csv mpi.csv || fail "$policy: $(cat err.txt)"
      same_losses serial.csv mpi.csv 30 || fail "the losses of $policy on $ranks processes are not the serial ones"
      [ "$(grep -c accuracy out.txt)" -eq 1 ] || fail "not one rank prints: $(cat out.txt)"
    done <<'POLICIES'
3 column-row
2 sequence
4 summa2d
8 summa25d
POLICIES
    start 4 --policy summa25d --q 2 --d 2
    grep -q '8 ranks are asked for, and MPI has 4 processes' err.txt || fail "a grid that does not fit: $(cat err.txt)"
    start 2 --policy sequence --type bf16
    grep -q 'bf16 is for ranks that are threads' err.txt || fail "bf16 among processes: $(cat err.txt)"
    timeout 180 "${arguments[@]}" --quiet -n 2 "$program" --steps 1 >out.txt 2>err.txt
    grep -q 'give --comm mpi, or start it without mpirun' err.txt || fail "threads under mpirun: $(cat err.txt)"
    ;;
  devices)
    if [ "${arguments[0]}" = none ]; then
      refused 'built with CUDA: configure with -DPARTITA_CUDA=ON' --comm nccl
    elif [ "${arguments[0]}" = real ] && ! "$program" --comm nccl --quiet --steps 1 2>err.txt; then
      grep -q NoDeviceError err.txt || fail "no device: $(cat err.txt)"
      [ "$failures" -eq 0 ] && echo 'SKIPPED: training on devices, there is none'
    else
      refused 'give --type float or bf16 with --comm nccl' --comm nccl --type double
      "$program" --comm nccl --policy sequence --ranks 99 --quiet 2>err.txt && fail "99 devices"
      grep -q '99 ranks' err.txt || fail "99 devices: $(cat err.txt)"
      "$program" --quiet --steps 30 --batch 10 --csv serial.csv || fail "serial"
      while read -r name options; do
        [ "${arguments[0]}" = emulated ] || [ "$name" = one ] || continue
        # shellcheck disable=SC2086
        "$program" --comm nccl --quiet --steps 30 --batch 10 --csv "$name.csv" $options >out.txt || fail "$name"
        same_losses serial.csv "$name.csv" 30 1e-4 || fail "the losses of $name are not the serial ones"
      done <<'POLICIES'
one --policy serial
column-row --policy column-row --ranks 3
sequence --policy sequence --ranks 2
summa2d --policy summa2d --ranks 4
summa25d --policy summa25d --ranks 8
POLICIES
      "$program" --comm nccl --quiet --type bf16 --steps 30 --batch 10 --csv bf16.csv >out.txt || fail "bf16"
      same_losses serial.csv bf16.csv 30 0.05 || fail "the losses in bf16 are far from those in single precision"
    fi
    ;;
  *) fail "no section $section" ;;
esac
[ "$failures" -eq 0 ] && echo "all right"
exit "$((failures > 0))"

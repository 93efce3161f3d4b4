#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the fuzz target: run.sh SECONDS SCRATCH. Needs clang++-19 with its runtime (libclang-rt-19-dev). The
# files of examples/data and a few headers are the first inputs.
set -eu
seconds=$1 scratch=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v clang++-19 > /dev/null || { echo "SKIPPED: no clang++-19 to fuzz with"; exit 77; }
mkdir -p "$scratch/corpus"
clang++-19 -std=c++20 -O1 -g1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I"$root/include" \
  "$root/tests/fuzz/npy_fuzz.cpp" -o "$scratch/npy_fuzz"
cp "$root"/examples/data/digits_labels.npy "$root"/examples/data/digits_class_means.npy "$scratch/corpus"
# Headers of all versions, orders and ranks, with a little data.
for descr in "'<f2'" "'<f4'" "'<f8'" "'<c8'" "'<c16'" "'|i1'" "'<u8'" "'|b1'"; do
  for shape in "(3, 2)" "(4,)" "()"; do
    header="{'descr': $descr, 'fortran_order': False, 'shape': $shape, }"
    name=$(printf '%s' "$descr$shape" | tr -c 'a-z0-9' '_')
    { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header"; head -c 96 /dev/zero; } > "$scratch/corpus/$name"
  done
done
"$scratch/npy_fuzz" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=512 -timeout=5 -print_final_stats=1 \
  -artifact_prefix="$scratch/" "$scratch/corpus" 2>&1 | tail -n 12
exit "${PIPESTATUS[0]}"

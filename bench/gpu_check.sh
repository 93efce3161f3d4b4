#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the library on the GPU of this machine, and measures it: bench/gpu_check.sh [BUILD], build/gpu unless given.
# Builds for this GPU and runs, in under five minutes with 16 cores,
#   (a) one rank with NCCL, (b) 4 and 8 ranks that share the GPU: every pair of named partitions on exact data, twenty
#       repeats with the same bits, and the tests of the backend and the communicators;
#   (c) a reduced set under the memory checker of CUDA, if it is there;
#   (d) the digits, trained on the GPU;
#   (e) speed: one rank beside plain cuBLAS, 4 ranks that share the GPU beside one product.
# Prints one table, leaves BUILD/gpu_check.json. Exit status: 0 where all is right, 77 without a device.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/gpu}
cuda=${CUDAToolkit_ROOT:-${CUDA_HOME:-/usr/local/cuda}}

if ! capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 2> /dev/null); then
  echo "gpu_check: SKIPPED, nvidia-smi finds no GPU on this machine" >&2
  exit 77
fi
architecture=${capability//[^0-9]/}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader -i 0

mkdir -p "$build"
SECONDS=0
{
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DPARTITA_CUDA=ON -DCUDAToolkit_ROOT="$cuda" \
    -DPARTITA_CUDA_ARCHITECTURES="$architecture" -DPARTITA_BUILD_TESTS=ON -DPARTITA_BUILD_EXAMPLES=ON &&
    cmake --build "$build" --parallel "$(nproc)" --target gpu_check cuda_tests train_digits
} > "$build/gpu_check.log" 2>&1 || { tail -n 40 "$build/gpu_check.log" >&2; exit 1; }
echo "built     in $SECONDS s"

SECONDS=0
status=0
line() { printf '%-9s %-58s %5d  %s\n' "$@"; }
verdict() { # SECTION WHAT RANKS COMMAND...: one line of the table, and on failure what the command told
  local section=$1 what=$2 ranks=$3 log="$build/gpu_check.$1.log" result=right
  shift 3
  timeout 100 "$@" > "$log" 2>&1 || { result="WRONG, see $log"; status=1; }
  line "$section" "$what" "$ranks" "$result"
  [ "$result" = right ] || tail -n 20 "$log"
}

"$build/gpu_check" --json "$build/gpu_check.json" || status=1
verdict tests "backend, kernels and communicators" 1 "$build/tests/cuda_tests"
if checker=$(command -v compute-sanitizer || ls "$cuda/bin/compute-sanitizer" 2> /dev/null); then
  verdict memory "the products under compute-sanitizer" 8 "$checker" --error-exitcode 9 "$build/gpu_check" --quick
else
  line memory "the products under compute-sanitizer" 8 "SKIPPED, there is no compute-sanitizer"
fi
verdict digits "a vision transformer trained on the GPU" 1 \
  "$build/train_digits" --comm nccl --policy column-row --ranks 1
[ ! -e "$build/gpu_check.digits.log" ] || tail -n 3 "$build/gpu_check.digits.log"
echo "checked   in $SECONDS s; $build/gpu_check.json"
exit "$status"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the side-by-side set of a build tree: bench/side_by_side/run.sh BUILD [--full] [--only TEXT]...
# Leaves BUILD/results.txt, results.json and speed.svg. Fails where a result is wrong, never for a time.
set -euo pipefail

build=$1
shift
bin=$build/bench
samples=$build/samples
mkdir -p "$samples"
rm -f "$samples"/*.tsv

# OpenBLAS's idle threads give up their core after 2^20 cycles instead of 2^26, so that they are not in the way of the
# next contestant; and its kernels are those which are fastest here, for it may not know the processor.
export OPENBLAS_THREAD_TIMEOUT=20
type=$("$bin/blas_core_type")
[ -z "$type" ] || export OPENBLAS_CORETYPE=$type

mpi() {
  local ranks=$1 run=(mpirun.openmpi --oversubscribe --bind-to none)
  shift
  if [ "$(id -u)" -eq 0 ]; then run+=(--allow-run-as-root); fi
  "${run[@]}" -n "$ranks" "$bin/side_by_side_mpi" "$@"
}

# Copies from process to process make MPI faster, and need a right that some containers withhold.
if ! timeout 60 bash -c "$(declare -f mpi); bin='$bin'; mpi 4 /dev/null --only 'all_reduce 1 MiB'" > "$samples/probe.txt" 2>&1 ||
  grep -q -i errno "$samples/probe.txt"; then
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
fi

status=0
"$bin/side_by_side_threads" "$samples/threads.tsv" "$@" || status=1
for ranks in 4 8; do
  mpi "$ranks" "$samples/mpi_$ranks.tsv" "$@" || status=1
done
"$bin/side_by_side_report" "$build/results.json" "$build/speed.svg" "$samples"/*.tsv > "$build/results.txt" || status=1
printf 'measured in %d s; %s/results.txt, results.json and speed.svg\n\n' "$SECONDS" "$build"
cat "$build/results.txt"
exit $status

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs all tests: cmake/run_tests.sh [gcc] [mpi] [cuda] [clang] [asan] [tsan], without arguments all stages.
# It installs nothing (cmake/bootstrap.sh does). The last line is `N passed, N failed`.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

jobs=$(nproc)
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja > /dev/null; then
  export CMAKE_GENERATOR=Ninja
fi

passed=0 failed=0 skipped=0
report=()

# stage NAME PRESET [configure arguments] -- [targets] -- [ctest arguments]
stage() {
  local name=$1 preset=$2 dir=${directory:-build/ci-$1} log start built tested ok=1 configure=() targets=() tests=()
  shift 2
  while [ "$1" != -- ]; do configure+=("$1"); shift; done
  shift
  while [ "$1" != -- ]; do targets+=("$1"); shift; done
  shift
  tests=("$@")

  echo "=== $name"
  start=$SECONDS
  if ! { cmake --preset "$preset" -B "$dir" "${configure[@]}" > "$dir.log" 2>&1 || { cat "$dir.log"; false; }; } ||
     ! cmake --build "$dir" --parallel "$jobs" --target "${targets[@]}"; then
    failed=$((failed + 1))
    report+=("$name: does not build ($((SECONDS - start)) s)")
    return
  fi
  built=$((SECONDS - start))

  log=$dir/ctest.log
  ctest --test-dir "$dir" --output-on-failure --no-tests=error --parallel "$jobs" "${tests[@]}" 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || ok=0
  tested=$((SECONDS - start - built))

  local total=0 bad=0 skip line
  line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1)
  if [[ $line =~ passed,\ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    bad=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
  fi
  skip=$(grep -c -E '\*\*\*Skipped' "$log")
  [ "$ok" -eq 1 ] || [ "$bad" -gt 0 ] || bad=1
  passed=$((passed + (total > bad + skip ? total - bad - skip : 0)))
  failed=$((failed + bad))
  skipped=$((skipped + skip))
  report+=("$name: build $built s, tests $tested s, $bad of $total failed, $skip skipped")
}

# The executables of these layers, as far as they exist.
layers() {
  local layer
  for layer in "$@"; do
    if compgen -G "tests/unit/$layer/*_test.cpp" > /dev/null; then echo "${layer}_tests"; fi
  done
}

# The host stand-ins for CUDA need NVIDIA's headers and no device.
cuda_headers() { [ -e "${CUDAToolkit_ROOT:-/usr/local/cuda}/include/nccl.h" ]; }

# Sanitizers run a part of each sweep: its configurations are drawn evenly.
export PARTITA_SWEEP_SHARE

# The MPI, the BLAS and oneDNN with which examples and tools are built; the tests under MPI name theirs.
mpi=(-DPARTITA_MPI=ON -DMPI_CXX_COMPILER=mpicxx.openmpi)
blas=(-DPARTITA_BLAS=ON -DBLA_VENDOR=OpenBLAS -DPARTITA_ONEDNN=ON)

mkdir -p build
for name in "${@:-all}"; do
  case $name in
    gcc | mpi | cuda | clang | asan | tsan | all) ;;
    *) echo "usage: $0 [gcc] [mpi] [cuda] [clang] [asan] [tsan]" >&2; exit 2 ;;
  esac
done
for name in gcc mpi cuda clang asan tsan; do
  case " ${*:-all} " in *" $name "* | *" all "*) ;; *) continue ;; esac
  PARTITA_SWEEP_SHARE=1
  case $name in
    gcc)
      stage gcc release -DCMAKE_CXX_COMPILER=g++ "${mpi[@]}" "${blas[@]}" -DPARTITA_TEST_PCH=ON -DPARTITA_FUZZ_SECONDS=120 \
        -DPARTITA_BUILD_MPI_TESTS=OFF -- all check_headers -- ;;
    mpi)
      # The tree of the gcc stage, whose kernels are built already.
      directory=build/ci-gcc stage mpi release -DCMAKE_CXX_COMPILER=g++ "${mpi[@]}" "${blas[@]}" -DPARTITA_TEST_PCH=ON \
        -DPARTITA_BUILD_MPI_TESTS=ON -- mpi_tests -- -L '^mpi$' ;;
    cuda)
      # The CUDA backend on host stand-ins, in the tree of the gcc stage.
      if ! cuda_headers; then
        echo "=== cuda: SKIPPED, the headers of CUDA and NCCL are not in ${CUDAToolkit_ROOT:-/usr/local/cuda}"
        report+=("cuda: skipped, no headers of CUDA and NCCL")
        skipped=$((skipped + 1))
        continue
      fi
      mapfile -t targets < <(layers cuda cuda_emulation)
      targets+=(nn_ncclranks_tests nn_cudathreadranks_tests partita-matmul train_digits cli_fixtures example_gpu_summa25d gpu_check)
      under_mpi=OFF
      if command -v mpicxx.openmpi > /dev/null; then
        under_mpi=ON
        targets+=(mpi_nccl_openmpi)
      fi
      directory=build/ci-gcc stage cuda cuda-emulate -DCMAKE_CXX_COMPILER=g++ "${mpi[@]}" "${blas[@]}" \
        -DPARTITA_TEST_PCH=ON -DPARTITA_BUILD_MPI_TESTS=$under_mpi -- "${targets[@]}" -- -L '^cuda'
      # The same tests with the real libraries and kernels, which are skipped where there is no device.
      if ! compgen -G "${CUDAToolkit_ROOT:-/usr/local/cuda}/bin/nvcc" > /dev/null; then
        echo "=== nvcc: SKIPPED, no nvcc in ${CUDAToolkit_ROOT:-/usr/local/cuda}/bin"
        report+=("nvcc: skipped, no nvcc")
        skipped=$((skipped + 1))
        continue
      fi
      directory=build/ci-gcc stage nvcc cuda -DCMAKE_CXX_COMPILER=g++ "${mpi[@]}" "${blas[@]}" \
        -DPARTITA_TEST_PCH=OFF -DPARTITA_BUILD_MPI_TESTS=OFF -- cuda_tests partita-matmul cli_fixtures -- \
        -L '^cuda' -E '^(cli.train_digits|bench.gpu_check)' ;;
    clang)
      # -O1: this stage is about another compiler's reading of the same text. It reads the sweeps for the sanitizers.
      stage clang clang -DPARTITA_TEST_PCH=OFF -DPARTITA_FUZZ_SECONDS=0 -DCMAKE_CXX_FLAGS_RELEASE=-O1 -- \
        unit_tests examples -- --label-exclude 'sweep|lint|cli|package' ;;
    asan)
      PARTITA_SWEEP_SHARE=0.05
      stage asan asan -DPARTITA_TEST_PCH=ON -DPARTITA_BUILD_EXAMPLES=OFF -- unit_tests sweep_tests -- -L 'unit|sweep' ;;
    tsan)
      PARTITA_SWEEP_SHARE=0.05
      threaded=(comm grid tensor redistribute matmul custom)
      emulate=OFF
      if cuda_headers; then  # the stand-ins too: they show the sanitizer the order that CUDA promises, and no more
        emulate=EMULATE
        threaded+=(cuda cuda_emulation)
      fi
      mapfile -t targets < <(layers "${threaded[@]}")
      if [ "$emulate" != OFF ]; then
        threaded+=(cuda_waits)
        targets+=(cuda_waits)
      fi
      labels=$(IFS='|'; echo "${threaded[*]}")
      stage tsan tsan -DPARTITA_TEST_PCH=ON -DPARTITA_BUILD_EXAMPLES=OFF -DPARTITA_CUDA=$emulate -- "${targets[@]}" sweep_tests -- \
        -L "^($labels|sweep)\$" -E '^(unit.nn_.*ranks|bench.gpu_check)' ;;
  esac
done

echo "=== all stages: $SECONDS s"
printf '%s\n' "${report[@]}"
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

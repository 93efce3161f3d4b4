# SPDX-License-Identifier: Apache-2.0
# partita_build_options(TARGET): the flags of what is built here (kernels, tests, examples). None of them reaches a
# user: partita::partita carries only the language level, its include directory and what it links.

set(partita_warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++'s stable_sort calls what libstdc++ itself deprecates, and clang reports it as ours.
  list(APPEND partita_warnings -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in libstdc++'s own concatenation of strings.
  list(APPEND partita_warnings -Wno-restrict)
endif()
if(PARTITA_WERROR)
  list(APPEND partita_warnings -Werror)
endif()

if(PARTITA_SANITIZE STREQUAL "address")
  set(partita_sanitizer -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(PARTITA_SANITIZE STREQUAL "thread")
  set(partita_sanitizer -fsanitize=thread -fno-omit-frame-pointer)
elseif(PARTITA_SANITIZE STREQUAL "")
  set(partita_sanitizer "")
else()
  message(FATAL_ERROR "PARTITA_SANITIZE is '${PARTITA_SANITIZE}'; it can be empty, 'address' or 'thread'")
endif()

# The instruction set. x86-64-v3 (AVX2, FMA) where the machine has it; as a part of another project, that project's
# choice. Not -march=native: g++ 12 then tunes some machines for another family, and products are a quarter slower.
if(NOT DEFINED CACHE{PARTITA_ARCH})
  set(default_arch "")
  if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CROSSCOMPILING)
    include(CheckCXXSourceRuns)
    check_cxx_source_runs([[
      int main() {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? 0 : 1;
      }]] PARTITA_HOST_HAS_X86_64_V3)
    if(PARTITA_HOST_HAS_X86_64_V3)
      set(default_arch "x86-64-v3")
    endif()
  endif()
  set(PARTITA_ARCH "${default_arch}" CACHE STRING "Instruction set (-march) of our own units; empty: the compiler's")
endif()

function(partita_build_options target)
  target_compile_options(${target} PRIVATE ${partita_warnings} ${partita_sanitizer})
  target_link_options(${target} PRIVATE ${partita_sanitizer})
  if(PARTITA_ARCH)
    target_compile_options(${target} PRIVATE "-march=${PARTITA_ARCH}")
  endif()
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
endfunction()

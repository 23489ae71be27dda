#!/usr/bin/env bash
# Build and run the tests of the native kernels.
#
#     tests/engine/native/run.sh PART...
#
# Parts: plain; asan (with UBSan) and tsan; standard (standard C++, as MSVC compiles it, by GCC and, if there is one,
# Clang); arm (NEON, cross-compiled, with qemu); python-asan and python-tsan (the Python tests that call native code;
# PYTHON is the interpreter). ROUNDS sets the number of random cases of each kernel.
set -euo pipefail
cd "$(dirname "$0")/../../.."

ENGINE=src/elmore/engine/native
TRAINING=src/elmore/nn/native
TESTS=tests/engine/native
FLAGS="-std=c++20 -ffp-contract=off -fwrapv -pthread -I$ENGINE -I$TRAINING"
# GCC reports undefined operands of the AVX-512 intrinsics themselves.
WARNINGS="-Wall -Wextra -Werror -Wno-maybe-uninitialized -Wno-uninitialized"
ASAN="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
TSAN="-O1 -g -fsanitize=thread"
ROUNDS=${ROUNDS:-50}
LIMIT=1200  # seconds for one run of the test program, so that a deadlock is a failure
PYTHON=${PYTHON:-python3}
export TSAN_OPTIONS="halt_on_error=1 die_after_fork=0 ${TSAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"

# compile FOLDER COMPILER FLAGS SOURCE...: one object for each source, two at a time.
compile() {
    local folder=build/native/$1 compiler=$2 flags=$3 source
    shift 3
    mkdir -p "$folder"
    for source in "$@"; do
        printf '%s\0' "$compiler $FLAGS $flags -c $source -o $folder/$(basename "$source" .cpp).o"
    done | xargs -0 -P "$(nproc)" -I{} bash -c '{}'
}

# build_test FOLDER COMPILER FLAGS [LINK FLAGS]: the test program.
build_test() {
    local sources
    sources=$(ls "$ENGINE"/*.cpp "$TRAINING"/*.cpp "$TESTS"/*.cpp | grep -v "^$ENGINE/memory.cpp$")
    # shellcheck disable=SC2086
    compile "$1" "$2" "$3 $WARNINGS" $sources
    # shellcheck disable=SC2086
    "$2" $FLAGS $3 "build/native/$1"/*.o -o "build/native/$1/native_test" ${4:-}
}

# build_library FOLDER FLAGS: the library, for Python.
build_library() {
    compile "$1" g++ "$2 -fPIC -fvisibility=hidden" "$ENGINE"/*.cpp "$TRAINING"/*.cpp
    # shellcheck disable=SC2086
    g++ $FLAGS $2 -shared "build/native/$1"/*.o -o "build/native/$1/_native.so"
}

# python_tests FOLDER RUNTIME INSTRUCTIONS TEST...: with a library that has a sanitizer.
python_tests() {
    local library=$PWD/build/native/$1/_native.so runtime
    runtime=$(g++ -print-file-name="$2")
    echo "python tests with $2, ELMORE_ISA=$3"
    ELMORE_NATIVE_LIBRARY=$library ELMORE_ISA=$3 LD_PRELOAD=$runtime OMP_NUM_THREADS=1 \
        ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$PWD/src "$PYTHON" -m pytest --quiet -p no:cacheprovider "${@:4}"
}

install_cross_compiler() {
    command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null && return
    apt-get update -qq && apt-get install -qq -y --no-install-recommends g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
}

NATIVE_TESTS=(tests/engine tests/nn/test_native_recurrence.py tests/nn/test_native_training.py tests/nn/test_cross_entropy.py)

for part in "$@"; do
    echo "== $part"
    case $part in
        plain)
            build_test plain g++ -O2
            timeout $LIMIT build/native/plain/native_test "$ROUNDS"
            ;;
        asan)
            build_test asan g++ "$ASAN"
            timeout $LIMIT build/native/asan/native_test "$ROUNDS"
            ;;
        tsan)
            build_test tsan g++ "$TSAN"
            # TSan does not support threads in a forked child: "dup thread with used id".
            timeout $LIMIT build/native/tsan/native_test "$((ROUNDS / 5))" 1 no-fork
            ;;
        standard)
            build_test standard g++ "-O2 -pedantic-errors -DELMORE_STANDARD_CPP"
            timeout $LIMIT build/native/standard/native_test "$((ROUNDS / 5))"
            if command -v clang++ >/dev/null; then
                build_test clang clang++ -O2
                timeout $LIMIT build/native/clang/native_test "$((ROUNDS / 5))"
            fi
            ;;
        arm)
            install_cross_compiler
            build_test arm aarch64-linux-gnu-g++ -O2 -static
            for cpu in cortex-a53 max; do  # without dot products, and with them
                timeout $LIMIT qemu-aarch64 -cpu "$cpu" build/native/arm/native_test "$((ROUNDS / 10))" 1 no-fork
            done
            ;;
        python-asan)
            build_library asan-library "$ASAN"
            for instructions in portable avx2 avx512; do
                python_tests asan-library libasan.so "$instructions" "${NATIVE_TESTS[@]}"
            done
            ;;
        python-tsan)
            build_library tsan-library "$TSAN"
            python_tests tsan-library libtsan.so avx512 tests/engine
            ;;
        *)
            echo "unknown part: $part" >&2
            exit 2
            ;;
    esac
done

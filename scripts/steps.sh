# Sourced by the scripts that do several things in a row: named and timed steps, and the builds.

# step NAME COMMAND…: runs it, says how long it took; ends the script where it fails.
step() {
  local name="$1" started=$SECONDS code=0
  shift
  printf '== %s\n' "$name"
  "$@" || code=$?
  if [ "$code" != 0 ]; then
    printf '== %s FAILED after %d s (exit code %d)\n' "$name" $((SECONDS - started)) "$code" >&2
    exit "$code"
  fi
  printf '== %s: %d s\n' "$name" $((SECONDS - started))
}

# build FOLDER [-DOPTION=VALUE…] -- [TARGET…]: configures, and builds the targets (default all).
build() {
  local folder="$1" options=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift || true
  if command -v ccache > /dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  mkdir -p "$folder"
  cmake -S . -B "$folder" -G Ninja "${options[@]}" > "$folder/configure.log" 2>&1 \
    || { cat "$folder/configure.log" >&2; return 3; }
  cmake --build "$folder" ${1:+--target "$@"} || return 3
}

# build_release [TARGET…]
build_release() { build build/release -DCMAKE_BUILD_TYPE=Release -- "$@"; }

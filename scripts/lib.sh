# Sourced by the other scripts: `need_tools` makes a bare Debian 12 ready, `build PRESET` configures and builds.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

packages=(cmake ninja-build gcc g++ libc6-dev clang libclang-rt-14-dev clang-format clang-tidy llvm-14-tools
    flex bison pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libcmocka-dev libdnnl-dev libopenmpi-dev openmpi-bin python3 locales)

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

# Elsewhere than on Debian and its kin we cannot know the packages' names; CMake then says what it does not find.
need_tools() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 0
    local missing as_root=()
    mapfile -t missing < <(missing_packages)
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "missing, and there is no sudo to install them: ${missing[*]}" >&2; return 1; }
        as_root=(sudo)
    fi
    echo "installing ${missing[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# build PRESET [--target T]: quiet while all is well, everything when it is not.
build() {
    local log
    log=$(mktemp)
    if ! { cmake --preset "$1" && cmake --build --preset "$@"; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        echo "the $1 preset does not build" >&2
        return 1
    fi
    rm -f "$log"
}

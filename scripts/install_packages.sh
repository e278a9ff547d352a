#!/usr/bin/env bash
# Installs what is missing of scripts/packages.txt (as root, or with sudo). Lines marked "# optional"
# may fail: what needs them is skipped. Does nothing on systems without dpkg.
set -euo pipefail

list=$(dirname "${BASH_SOURCE[0]}")/packages.txt
missing=()
optional=()
as_root=()

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

command -v dpkg-query >/dev/null || exit 0
while read -r line; do
    name=${line%%#*}
    name=${name//[[:space:]]/}
    [ -n "$name" ] || continue
    installed "$name" && continue
    case $line in *'# optional'*) optional+=("$name") ;; *) missing+=("$name") ;; esac
done <"$list"
[ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || exit 0

printf '\n== installing %s %s\n' "${missing[*]}" "${optional[*]}"
[ "$(id -u)" = 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q || echo "apt-get update failed; going on with what is known" >&2
if [ ${#missing[@]} -gt 0 ]; then
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
for name in "${optional[@]}"; do
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "$name" ||
        echo "$name is not available; what needs it is skipped" >&2
done

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs wick from this folder, the unpacked archive of a release, after verifying its checksums. `wick uninstall` removes it.
set -eu
usage() {
    cat <<'TEXT'
usage: ./install.sh [--prefix DIR] [--user] [--no-verify]

  --prefix DIR   install below DIR (default /usr/local)
  --user         install below ~/.local, with a unit for `systemctl --user`; root is not needed
  --no-verify    do not compare the files with SHA256SUMS
  --help         show this help
TEXT
}
die() {
    echo "install.sh: $1" >&2
    exit "${2:-1}"
}

prefix= user= verify=1
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) [ $# -gt 1 ] || die "--prefix needs a directory" 2; prefix=$2; shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --user) user=1 ;;
    --no-verify) verify= ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unexpected argument '$1'" 2 ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    prefix=/usr/local
    [ -z "$user" ] || prefix=${HOME:?}/.local
fi
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
case $prefix in *[!A-Za-z0-9/._+@-]*) die "the units of systemd cannot name '$prefix': choose a directory without spaces and quotes" 2 ;; esac
from=$(cd "$(dirname "$0")" && pwd)
cd "$from"

if [ -n "$verify" ]; then
    command -v sha256sum >/dev/null || die "sha256sum is missing; --no-verify installs without verifying"
    sha256sum --check --quiet --strict SHA256SUMS || die "these files are not those of the release: nothing was installed"
fi
./bin/wick --version >/dev/null || die "bin/wick does not run here (it needs Linux on $(cat ARCHITECTURE) with glibc 2.31 or later): nothing was installed"
mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] || die "cannot write to '$prefix': run as root, or choose --user or --prefix DIR"

# copy FILE: a new file takes the place of the old one, which running programs keep.
copy() {
    mkdir -p "$prefix/$(dirname "$1")"
    if [ -L "$1" ]; then
        ln -sfn "$(readlink "$1")" "$prefix/$1"
    else
        case $1 in
        *.service) sed "s|/usr/local/|$prefix/|g" "$1" >"$prefix/$1.new" ;;
        *) cp "$1" "$prefix/$1.new" ;;
        esac
        if [ -x "$1" ]; then chmod 755 "$prefix/$1.new"; else chmod 644 "$prefix/$1.new"; fi
        mv -f "$prefix/$1.new" "$prefix/$1"
    fi
}

mkdir -p "$prefix/lib/wick"
: >"$prefix/lib/wick/manifest.new"
find bin etc include lib share -type f -o -type l | LC_ALL=C sort | while read -r file; do
    case $file in
    lib/systemd/system/* | lib/sysusers.d/* | etc/*) [ -z "$user" ] || continue ;;
    lib/wick/manifest) continue ;;
    esac
    if [ "${file#etc/}" != "$file" ] && [ -e "$prefix/$file" ]; then
        cmp -s "$file" "$prefix/$file" || echo "kept your $prefix/$file; the release's is in $from/$file"
    else
        copy "$file"
    fi
    echo "$file" >>"$prefix/lib/wick/manifest.new"
done
echo lib/wick/manifest >>"$prefix/lib/wick/manifest.new"
mv "$prefix/lib/wick/manifest.new" "$prefix/lib/wick/manifest"

echo "installed $("$prefix/bin/wick" --version) below $prefix"
systemd=
[ ! -d /run/systemd/system ] || systemd=1
if [ -n "$user" ]; then
    case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to your PATH" ;; esac
    [ -z "$systemd" ] || echo "start it: systemctl --user daemon-reload && systemctl --user enable --now wick"
    echo "or run it in this terminal: $prefix/bin/wick serve"
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers "$prefix/lib/sysusers.d/wick.conf"
fi
if [ "$(id -u)" = 0 ] && [ -n "$systemd" ]; then
    systemctl daemon-reload
    echo "start it: systemctl enable --now wick"
else
    echo "start it: $prefix/bin/wick serve"
fi

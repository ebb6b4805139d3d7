#!/usr/bin/env bash
# Installs HAProxy and nginx from the packages of Debian or Ubuntu for test/system/balancers.test.ts. Does nothing if both
# are there. They are not started as services, and nothing else is changed.
set -euo pipefail

PATH="$PATH:/usr/local/sbin:/usr/sbin"
if command -v haproxy >/dev/null && command -v nginx >/dev/null; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo 'HAProxy or nginx is missing: run this as root on Debian or Ubuntu, or install the packages haproxy and nginx.' >&2
  exit 1
fi

# While a package is being set up, this file tells that no service may be started.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi

install() {
  # A package source that fails may be one that has nothing to do with these two.
  apt-get update -q || true
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 haproxy nginx
}

install || {
  echo 'The installation failed; it is tried once more in 5 s.' >&2
  sleep 5
  install
}

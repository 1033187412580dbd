#!/bin/sh
# Sees to it that Chromium and its driver are there: installs them on Debian, and says what to do elsewhere.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }
ready() { have chromedriver && { have chromium || have chromium-browser || have google-chrome; }; }
fail() {
    echo "test-browser: $1" >&2
    exit 1
}

if ready; then exit 0; fi
have apt-get || fail "chromium and chromedriver are not there, and neither is apt-get; install both and try again"
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    have sudo && sudo -n true 2>/dev/null ||
        fail "chromium and chromedriver are not there, and installing them needs root; run: apt-get install chromium chromium-driver"
    as_root="sudo -n"
fi
echo "test-browser: installing chromium and chromium-driver"
$as_root apt-get update -q >/dev/null || fail "apt-get update failed; install chromium and chromium-driver and try again"
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -qy --no-install-recommends chromium chromium-driver >/dev/null ||
    fail "apt-get could not install chromium and chromium-driver"
ready || fail "apt-get has run, but chromium or chromedriver is still not on the PATH"

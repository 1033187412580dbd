#!/bin/sh
# Installs the wheel in dist/ in a new environment, and runs `bp` and the default method: nothing may be compiled.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check dist/anytimebp-*.whl
cp tests/heavy/count_compilations.py "$folder"
cd "$folder"
NUMBA_CACHE_DIR="$folder/cache" venv/bin/python count_compilations.py

#!/bin/sh
# Plays the example, and writes compare.csv and attackers.svg into this folder:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
# FEDPACE is the program and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
case ${1:-} in
small) set -- --seeds 1 --set stop.virtual_seconds=5 ;;
*) set -- --seeds 3 ;;
esac
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/attackers}
# A fleet of 32 honest clients and 8 that make an attack.
with() { echo "[{name: honest, count: 32}, {name: liar, count: 8, attack: $1}]"; }
"$fedpace" compare --config attackers.yaml --schedules fixed,rounds,error --grid "fleet=[],\
$(with '{kind: sign_flip, factor: 3}'),$(with label_flip),$(with min_max)" \
    --out "$out" --figure attackers.svg "$@"
cp "$out/compare.csv" .

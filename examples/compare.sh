#!/bin/sh
# Plays an example whose table is one comparison, and writes compare.csv and NAME.svg into its
# folder. The run.sh there gives the example's name, the virtual seconds of its small form, the
# form (small, or nothing for all of it) and what is compared.
# FEDPACE is the program and OUT the folder of the runs.
set -eu
name=$1 seconds=$2 form=$3
shift 3
cd "$(dirname "$0")/$name"
case $form in
small) set -- "$@" --seeds 1 --set stop.virtual_seconds="$seconds" ;;
*) set -- "$@" --seeds 3 ;;
esac
out=${OUT:-../../runs/examples/$name}
"${FEDPACE:-../../fedpace}" compare --config "$name.yaml" --schedules fixed,rounds --out "$out" --figure "$name.svg" "$@"
cp "$out/compare.csv" .

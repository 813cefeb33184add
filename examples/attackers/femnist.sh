#!/bin/sh
# Plays femnist.yaml with each attack and each rule that combines updates, and writes
# femnist.csv into this folder. A run that is complete is not played again.
#   fedpace data prepare femnist.parquet --out femnist.fedpace
#   sh femnist.sh
# FEDPACE is the program, DATA the prepared file and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
data=${DATA:-femnist.fedpace}
out=${OUT:-../../runs/examples/attackers-femnist}
echo attack,combine,validation_accuracy >femnist.csv
for attack in none '{kind: sign_flip, factor: 3}' '{kind: scale, factor: 40}' min_max label_flip \
    '{kind: noise, size: 1000}'; do
    for rule in null multi_krum trimmed_mean median '{rule: nnm, then: trimmed_mean}' '{rule: nnm, then: median}'; do
        attacks=", attack: $attack"
        [ "$attack" = none ] && attacks=
        run="$out/$(echo "$attack-$rule" | tr -dc 'a-z0-9_-')"
        [ -f "$run/model.safetensors" ] || "$fedpace" run --quiet --force --config femnist.yaml --out "$run" --set "data=$data" \
            --set "fleet=[{name: honest, count: 32}, {name: liar, count: 8$attacks}]" --set "aggregate.combine=$rule" ||
            echo "$attack with $rule ended early" >&2
        echo "\"$attack\",\"$rule\",$(sed -n 's/^  "validation_accuracy": \(.*\),$/\1/p' "$run/summary.json")" >>femnist.csv
    done
done

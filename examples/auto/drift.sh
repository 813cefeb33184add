#!/bin/sh
# Plays runs whose labels change at half or at eight tenths of their time, and prints what they come to:
#   sh drift.sh SEED...
# FEDPACE is the program, and OUT the folder of the runs. Runs that are there are not played again. A cell is
# the speed of the links in Mbit/s and the part of the time after which labels change; "line" is auto without
# the rise, as a formula of the time.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/auto-drift}

# play MBPS PART SEED plays one cell with one seed, for the time of 200 rounds of K = 60.
play() {
	folder=$out/$1-$2/$3
	[ ! -e "$folder/runs.csv" ] || return 0
	seconds=$(awk "BEGIN { print 200 * (0.64 / $1 + 60 * 0.0052) }")
	top=$(awk "BEGIN { top = 4 * 0.64 / $1 / 0.0052; print top < 60 ? top : 60 }")
	rows=$out/rows-$1-$2-$3.csv
	mkdir -p "$out/$1-$2"
	python3 drift.py make "$3" "$seconds" "$2" "$rows"
	data="{path: $rows, client: client, features: [x*], label: label, split: part, scale: standard, arrival: at"
	"$fedpace" compare --config cell.yaml --set task=custom \
		--set "data=$data, arrival_window: $(awk "BEGIN { print $seconds / 20 }")}" \
		--set 'model={mlp: [6, 16, 4]}' --set clients=all --set cohort=10 --set schedule.eta0=0.05 \
		--set stop.rounds=null --set "stop.virtual_seconds=$seconds" \
		--set evaluate.every=null --set "evaluate.every_seconds=$(awk "BEGIN { print $seconds / 50 }")" \
		--set network.model_megabits=0.32 --set "network.download_mbps=$1" --set "network.upload_mbps=$1" \
		--set "seed=$3" --seeds 1 --out "$folder" --force \
		--schedules "k1=1,k3=3,k10=10,k20=20,k60=60,auto,line=max(1, ceil($top * (1 - t/(0.9*$seconds))))" \
		>"$folder.log" 2>&1 || { tail -n 3 "$folder.log" >&2; exit 1; }
	rm "$rows"
}

for seed; do
	for part in 0.5 0.8; do
		play 10 $part "$seed"
		play 1 $part "$seed"
	done
done
mkdir -p "$out"
find "$out" -maxdepth 2 -name '*.log' -delete
python3 drift.py judge "$out"

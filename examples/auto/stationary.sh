#!/bin/sh
# Plays auto on tasks that do not change, and counts the runs in which a change is noticed all the same:
#   sh stationary.sh [SEEDS]
# FEDPACE is the program, DATA the folder with wine.csv, and OUT the folder of the runs, each of which is
# removed once it is counted. Without wine.csv its lines are left out.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
data=${DATA:-.}
out=${OUT:-../../runs/examples/auto-stationary}
seeds=${1:-30}

# count NAME ROUNDS [ARGUMENT...] plays a task with each seed.
count() {
	name=$1 rounds=$2
	shift 2
	runs=0 alarms=0
	while [ $runs -lt "$seeds" ]; do
		runs=$((runs + 1))
		"$fedpace" run -q "$@" --set schedule.k=auto --set "stop.rounds=$rounds" --set "seed=$runs" \
			--set nats.url=none --set events.sample=off --set checkpoint.seconds=null \
			--set "evaluate.every=$rounds" --out "$out" --force >"$out.log" 2>&1 || { tail -n 3 "$out.log" >&2; exit 1; }
		alarms=$((alarms + $(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "change_round") c = i }
			NR > 1 && $c > 0 { found = 1 } END { print found + 0 }' "$out/rounds.csv")))
	done
	echo "$name: $alarms of $runs runs of $rounds rounds with an alarm"
	rm -r "$out" "$out.log"
}

links="--set network.download_mbps=10 --set network.upload_mbps=10 --set network.model_megabits=0.32"
mkdir -p "$out"
for heterogeneity in 0 2 4; do
	count "logistic, heterogeneity $heterogeneity" 400 --config logistic.yaml --config cell.yaml \
		--set synthetic.heterogeneity=$heterogeneity
done
count "logistic, uneven devices" 400 --config logistic.yaml --config cell.yaml --config uneven.yaml \
	--set synthetic.heterogeneity=2
count "logistic, cohorts of two" 400 --config logistic.yaml --config cell.yaml \
	--set synthetic.heterogeneity=4 --set cohort=2
count "logistic, a rate of 2" 400 --config logistic.yaml --config cell.yaml \
	--set synthetic.heterogeneity=4 --set schedule.eta0=2
count "flowers" 400 --config flowers.yaml --config cell.yaml $links
count "tweets, synthetic" 200 --set task=sent140 --set clients=200 --set cohort=10 --set schedule.k0=30
if [ -e "$data/wine.csv" ]; then
	count "wine" 400 --config wine.yaml --config cell.yaml $links --set "data.path=$data/wine.csv"
	count "wine, cohorts of two" 400 --config wine.yaml --config cell.yaml $links --set "data.path=$data/wine.csv" \
		--set cohort=2
fi

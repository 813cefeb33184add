#!/bin/sh
# Plays cells of the protocol of README.md, and prints what they come to:
#   sh run.sh dev        those by which the rule was chosen
#   sh run.sh judged     those by which it is judged
#   sh run.sh            one cell with one seed, some seconds
# FEDPACE is the program, DATA the folder with tweets_with_users.csv.gz and wine.csv,
# and OUT the folder of the runs. Runs that are there are not played again.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
data=${DATA:-.}
out=${OUT:-../../runs/examples/auto}
seeds=${SEEDS:-2}

# cell NAME TASK MBPS FLEET ROUNDS MEGABITS [ARGUMENT...] compares the schedules for the virtual time
# of so many rounds of K = 60 on equal devices, with a model of so many megabits.
cell() {
	name=$1 task=$2 mbps=$3 fleet=$4 rounds=$5 megabits=$6
	shift 6
	seconds=$(awk "BEGIN { print $rounds * (2 * $megabits / $mbps + 60 * 0.0052) }")
	step=$(awk "BEGIN { print $seconds / 50 }")
	interval=$(awk "BEGIN { print $seconds / 20 }")
	adacomm="adacomm={k: {rule: adacomm, seconds: $interval}}"
	[ "$fleet" = even ] || set -- --config uneven.yaml "$@"
	mkdir -p "$out"
	nice -n 19 "$fedpace" compare --config "$task.yaml" --config cell.yaml "$@" \
		--set stop.rounds=null --set "stop.virtual_seconds=$seconds" \
		--set evaluate.every=null --set "evaluate.every_seconds=$step" \
		--set "network.model_megabits=$megabits" \
		--set "network.download_mbps=$mbps" --set "network.upload_mbps=$mbps" \
		--seeds "$seeds" --set "seed=$seed" --out "$out/$name" --schedules "$constants,rounds,step,error,$adacomm,auto" \
		>"$out/$name.log" 2>&1 || { tail -n 3 "$out/$name.log" >&2; exit 1; }
}
constants=k1=1,k3=3,k5=5,k10=10,k20=20,k60=60

# deal KIND NAME [ARGUMENT...] deals the users' tweets to 2,500 made clients.
deal() {
	kind=$1 file=$out/$2.fedpace
	shift 2
	mkdir -p "$out"
	[ -e "$file" ] || "$fedpace" data partition "$data/tweets_with_users.csv.gz" --kind "$kind" "$@" \
		--min-tweets 3 --clients 2500 --out "$file"
}

seed=1
case ${1:-small} in
dev)
	for mbps in 1 10 100; do
		cell "users-$mbps" tweets $mbps even 250 0.32 --set "data=$data/tweets_with_users.csv.gz"
	done
	cell logistic0-10 logistic 10 even 100 0.32 --set synthetic.heterogeneity=0
	cell logistic2-10 logistic 10 even 100 0.32 --set synthetic.heterogeneity=2
	;;
judged)
	seed=101
	deal iid alike
	deal dirichlet skewed --alpha 0.05
	cell alike-1 tweets 1 even 250 0.32 --set "data=$out/alike.fedpace"
	cell alike-10-uneven tweets 10 uneven 250 0.32 --set "data=$out/alike.fedpace"
	cell alike-100 tweets 100 even 250 0.32 --set "data=$out/alike.fedpace"
	cell skewed-1-uneven tweets 1 uneven 250 0.32 --set "data=$out/skewed.fedpace"
	cell skewed-10 tweets 10 even 250 0.32 --set "data=$out/skewed.fedpace"
	cell wine-1 wine 1 even 200 0.32 --set "data.path=$data/wine.csv"
	cell wine-10-uneven wine 10 uneven 200 0.32 --set "data.path=$data/wine.csv"
	cell wine-100 wine 100 even 200 0.32 --set "data.path=$data/wine.csv"
	cell flowers-1-uneven flowers 1 uneven 200 0.32
	cell flowers-10 flowers 10 even 200 0.32
	cell logistic4-1 logistic 1 even 100 0.32 --set synthetic.heterogeneity=4
	cell logistic4-100-uneven logistic 100 uneven 100 0.32 --set synthetic.heterogeneity=4
	;;
small)
	seeds=1
	cell flowers-small flowers 10 even 20 0.32
	cat "$out/flowers-small.log"
	exit
	;;
*)
	echo "want dev, judged or small" >&2
	exit 2
	;;
esac
python3 judge.py "$out" "$1"

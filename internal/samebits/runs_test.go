//go:build unix

package samebits

// run is one experiment: the keys that differ from its task's own.
type run struct {
	name string
	sets string   // as key=value, separated by spaces
	args []string // further arguments of fedpace run
}

// What the runs of a group share.
const (
	logistic = "task=logistic clients=20 cohort=5 schedule.k0=6 stop.rounds=12 evaluate.every=3 "
	convex   = "task=quadratic clients=20 cohort=5 schedule.k0=6 stop.rounds=12 evaluate.every=3 "
	tweets   = "task=sent140 clients=30 cohort=6 schedule.k0=6 schedule.window=3 stop.rounds=12 evaluate.every=3 "
	images   = "task=femnist clients=24 cohort=4 batch=8 schedule.k0=3 stop.rounds=2 evaluate.every=1 "
	heavy    = "clients=4 cohort=2 batch=2 schedule.k0=2 stop.rounds=2 evaluate.every=1 evaluate.samples=10 "
	timing   = "task=femnist train=false clients=60 cohort=12 schedule.k0=20 stop.rounds=20 events.sample=1000 "
	spread   = "compute.std=0.01 fleet=[{name:any,seconds_per_step:{dist:lognormal,mean:0.05,sigma:0.8}}] "
)

// What the demonstration gave to custom data before there was task custom.
const custom = "task=custom schedule.eta0=0.3 compute.seconds_per_step=0.017 network.download_mbps=20 network.upload_mbps=5 "

// runs is in the order of testdata/digests.csv. Files are those of
// testdata/inputs and those that makeInputs writes.
var runs = []run{
	// Tasks and models.
	{name: "task-femnist", sets: images},
	{name: "task-cifar100", sets: "task=cifar100 " + heavy},
	{name: "task-shakespeare", sets: "task=shakespeare " + heavy},
	{name: "task-sent140", sets: tweets},
	{name: "task-quadratic", sets: convex},
	{name: "task-logistic", sets: logistic},
	{name: "task-quadratic-keys", sets: convex + "quadratic.dimension=7 quadratic.samples=9 quadratic.mu=0.3 quadratic.l=2 quadratic.noise=0.5 synthetic.heterogeneity=0"},
	{name: "task-logistic-keys", sets: logistic + "logistic.features=6 logistic.classes=3 logistic.samples=12 logistic.mu=0.2 batch=3"},
	{name: "synthetic-seed", sets: tweets + "synthetic.seed=5 synthetic.heterogeneity=4"},
	{name: "cifar100-plain", sets: "task=cifar100 augment=none " + heavy},
	{name: "init", sets: logistic + "init=init.safetensors"},

	// Data from files: readers, partitions, own models.
	{name: "own-linear", sets: custom + "data=own.parquet model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=6 evaluate.every=2"},
	{name: "own-mlp", sets: custom + "data=own.parquet model={mlp:[5,8,3]} clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=6 evaluate.every=2 aggregate.weights=samples"},
	{name: "own-prepared", sets: custom + "data=prepared.fedpace model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=6 evaluate.every=2"},
	{name: "tweets-csv", sets: "task=sent140 data=tweets.csv sent140.min_tweets=3 clients=all cohort=3 batch=2 schedule.k0=4 stop.rounds=6 evaluate.every=2"},
	{name: "cifar100-binary", sets: "task=cifar100 data=cifar100 augment=flip_crop clients=all cohort=2 batch=2 schedule.k0=2 stop.rounds=1 evaluate.every=1"},
	{name: "partition-iid", sets: custom + "data=iid.fedpace model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=4 evaluate.every=2"},
	{name: "partition-dirichlet", sets: custom + "data=dirichlet.fedpace model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=4 evaluate.every=2"},
	{name: "partition-shards", sets: custom + "data=shards.fedpace model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=4 evaluate.every=2"},
	{name: "partition-quantity", sets: custom + "data=quantity.fedpace model=linear clients=all cohort=3 batch=4 schedule.k0=4 stop.rounds=4 evaluate.every=2"},
	{name: "partition-pachinko", sets: "task=cifar100 data=pachinko.fedpace clients=all cohort=2 batch=2 schedule.k0=2 stop.rounds=1 evaluate.every=1"},

	// Schedules of K and of the learning rate.
	{name: "dsgd", sets: tweets + "schedule.k=dsgd"},
	{name: "fixed", sets: tweets + "schedule.k=fixed"},
	{name: "rounds", sets: tweets + "schedule.k=rounds"},
	{name: "error", sets: tweets + "schedule.k=error"},
	{name: "error-first", sets: tweets + "schedule.k=error schedule.f0=first"},
	{name: "step", sets: tweets + "schedule.k=step schedule.decay_round=5"},
	{name: "step-plateau", sets: tweets + "schedule.k=step schedule.patience=1 schedule.min_delta=0.05 evaluate.every=1"},
	{name: "eta-rounds", sets: tweets + "schedule.k=fixed schedule.eta=rounds"},
	{name: "eta-error", sets: tweets + "schedule.k=fixed schedule.eta=error"},
	{name: "eta-step", sets: tweets + "schedule.k=fixed schedule.eta=step schedule.decay_round=4"},
	{name: "eta-step-plateau", sets: tweets + "schedule.k=fixed schedule.eta=step schedule.patience=1 schedule.min_delta=0.05 evaluate.every=1"},
	{name: "theory", sets: convex + "schedule.k=theory schedule.k0=30"},
	{name: "theory-ahead", sets: logistic + "schedule.k=theory schedule.k0=30 theory.time=ahead stop.virtual_seconds=20"},
	{name: "theory-given", sets: tweets + "schedule.k=theory schedule.k0=30 theory.l=0.5 theory.mu=0.1 theory.g=1.4 theory.f_star=0.1"},

	// Closing rules, with dropouts.
	{name: "close-all", sets: logistic + spread + "dropout.probability=0.1"},
	{name: "close-deadline", sets: logistic + spread + "close={rule:deadline,seconds:0.5} dropout.probability=0.1"},
	{name: "close-first", sets: logistic + spread + "cohort=8 close={rule:first,n:5}"},
	{name: "close-buffered", sets: logistic + spread + "cohort=8 close={rule:buffered,n:3}"},
	{name: "close-buffered-limit", sets: logistic + spread + "cohort=10 close={rule:buffered,n:2,staleness_limit:3} dropout.probability=0.1 aggregate.staleness_exponent=1"},
	{name: "close-buffered-fedadam", sets: logistic + spread + "cohort=8 close={rule:buffered,n:3,staleness_limit:4} aggregate={algorithm:fedadam,server_rate:0.05}"},
	{name: "close-buffered-femnist", sets: images + spread + "stop.rounds=4 close={rule:buffered,n:2}"},

	// How clients are chosen.
	{name: "select-power-of-choice", sets: tweets + spread + "select={rule:power_of_choice,candidates:12}"},
	{name: "select-power-of-choice-in-turn", sets: tweets + spread + "select={rule:power_of_choice,candidates:12,from:round_robin} close={rule:first,n:4}"},
	{name: "select-fit", sets: logistic + spread + "select=fit close={rule:deadline,seconds:0.5}"},
	{name: "select-oort", sets: tweets + spread + "select={rule:oort,seconds:1,window:3}"},
	{name: "select-tifl", sets: tweets + spread + "select={rule:tifl,tiers:3,interval:4}"},
	{name: "select-flanp", sets: logistic + spread + "cohort=8 select={rule:flanp,begin:3,patience:2}"},
	{name: "select-least-available", sets: logistic + spread + "availability={model:markov,on_seconds:20,off_seconds:20} select={rule:least_available,seconds:2,error:0.2}"},
	{name: "select-round-robin", sets: logistic + spread + "select=round_robin"},
	{name: "select-fit-in-turn", sets: logistic + spread + "select={rule:fit,from:round_robin} close={rule:deadline,seconds:0.5} aggregate.algorithm=fednova"},

	// Algorithms.
	{name: "fedavg-rate", sets: logistic + "aggregate={algorithm:fedavg,server_rate:0.5}"},
	{name: "fedavgm", sets: logistic + "aggregate={algorithm:fedavgm,momentum:0.7}"},
	{name: "fedadagrad", sets: logistic + "aggregate={algorithm:fedadagrad,server_rate:0.1,beta1:0.2,tau:0.01}"},
	{name: "fedadam", sets: logistic + "aggregate={algorithm:fedadam,server_rate:0.05,beta2:0.9}"},
	{name: "fedyogi", sets: logistic + "aggregate={algorithm:fedyogi,server_rate:0.05}"},
	{name: "fedprox", sets: logistic + "aggregate={algorithm:fedprox,mu:0.4}"},
	{name: "fedprox-femnist", sets: images + "aggregate={algorithm:fedprox,mu:0.4}"},
	{name: "scaffold", sets: logistic + "aggregate.algorithm=scaffold"},
	{name: "scaffold-femnist", sets: images + "clients=6 stop.rounds=3 aggregate.algorithm=scaffold"},
	{name: "scaffold-deadline", sets: tweets + spread + "aggregate.algorithm=scaffold close={rule:deadline,seconds:0.35}"},
	{name: "fednova", sets: logistic + spread + "cohort=8 close={rule:buffered,n:3} aggregate.algorithm=fednova aggregate.weights=samples"},

	// Few strong workers: what they keep, outer steps, fragments, fewer bits, and K that rises.
	{name: "diloco", sets: tweets + spread + "local={optimizer:adamw,keep:true} aggregate={algorithm:fedavgm,server_rate:0.7,momentum:0.9,nesterov:true,weights:taken} " +
		"schedule.k={rule:quadratic,alpha:0.003} schedule.eta0=0.001 schedule.eta={rule:cosine,to:1e-4,rounds:12} compress=four_bit select=fit close={rule:deadline,seconds:0.5}"},
	{name: "streaming", sets: tweets + spread + "local={optimizer:adamw,keep:true} aggregate={algorithm:streaming,fragments:3,overlap:2,mix:0.3} compress={method:four_bit,format:int4} schedule.eta0=0.001"},
	{name: "decoupled", sets: tweets + spread + "cohort=8 close={rule:buffered,n:3,grace:0.05} select=fit local={optimizer:adamw,keep:true} aggregate={algorithm:decoupled,weights:taken,fragments:3,overlap:2,mix:0.3} schedule.eta0=0.001"},
	{name: "minibatch-formula", sets: tweets + spread + "schedule.batch=ceil(8*k/k0)"},
	{name: "sparseloco", sets: tweets + spread + "local={optimizer:adamw,keep:true} aggregate.algorithm=fedavg compress={method:sparseloco,share:0.05,chunk:64} schedule.eta0=0.001"},
	{name: "frozen", sets: images + "model=[flatten,{dense:{width:20,frozen:true}},relu,dense] schedule.k=fixed network.model_megabits=exact"},
	{name: "personal", sets: images + "clients=6 stop.rounds=3 personal={names:[4],head_steps:1}"},

	// Single updates: rules that combine them, and bounds.
	{name: "combine-trimmed-mean", sets: logistic + "aggregate={algorithm:fedadam,server_rate:0.05,combine:{rule:trimmed_mean,liars:0.3},clip:{bound:median,times:1.2}}"},
	{name: "combine-multi-krum", sets: logistic + "cohort=8 aggregate={combine:multi_krum}"},
	{name: "combine-geometric-median", sets: logistic + spread + "cohort=8 close={rule:buffered,n:4} aggregate={algorithm:fedasync,combine:geometric_median,clip:{bound:quantile,initial:1}}"},
	{name: "combine-nnm", sets: logistic + "cohort=8 aggregate={combine:{rule:nnm,liars:0.25,then:median}}"},
	{name: "privacy", sets: logistic + spread + "cohort=8 aggregate={algorithm:fedadam,server_rate:0.05} privacy={clip:0.5,noise_multiplier:1.5}"},
	{name: "local-noise", sets: logistic + "cohort=8 privacy={local:{clip:0.5,noise_multiplier:0.2}}"},

	// Devices: when they are there, how fast they are, what they share.
	{name: "timing-paper", sets: "task=shakespeare train=false stop.rounds=50"},
	{name: "timing-table1-table2", sets: timing + "network.model_megabits=6.71 compute.std=5.1e-4"},
	{name: "timing-exact", sets: timing + "network.model_megabits=exact"},
	{name: "bernoulli", sets: timing + spread + "cohort=25 availability={model:bernoulli,probability:0.3,period_seconds:7}"},
	{name: "markov", sets: timing + spread + "availability={model:markov,on_seconds:30,off_seconds:200} dropout.when_unavailable=true"},
	{name: "daily", sets: timing + spread + "cohort=40 stop.rounds=40 availability={model:daily,from_hour:22,to_hour:6,jitter_hours:1,probability:0.8,start_hour:5,zones:[{hours:1,weight:2},{hours:-5,weight:1}]}"},
	{name: "sessions", sets: timing + spread + "cohort=40 availability={model:trace,sessions:sessions.csv,period_seconds:60,spread:true}"},
	{name: "distributions", sets: timing + "dropout.probability=0.05 fleet=[{name:a,weight:2,download_mbps:{dist:lognormal,median:20,sigma:0.5},upload_mbps:{dist:uniform,min:1,max:9},seconds_per_step:{dist:pareto,min:0.01,shape:2,at_most:1},step_cv:0.1}," +
		"{name:b,weight:1,download_mbps:{dist:normal,mean:20,std:5,at_least:2},upload_mbps:{dist:weibull,scale:5,shape:1.5,at_least:0.5},seconds_per_step:{dist:shifted_exponential,mean:0.05,shift:0.01}}," +
		"{name:c,weight:1,upload_mbps:{dist:empirical,values:[1,2,8]},seconds_per_step:{dist:constant,value:0.02},vary:{download:{dist:lognormal,mean:1,sigma:0.3},upload:{dist:uniform,min:0.5,max:2},compute:{dist:pareto,mean:1,shape:3}}}]"},
	{name: "classes", sets: timing + "fleet=[{name:phone,weight:3,availability:{model:markov,on_seconds:60,off_seconds:60},watts:{download:1,compute:4,upload:1.5}},{name:board,weight:1,upload_mbps:2,seconds_per_step:0.1,slowdown:{every_seconds:20,for_seconds:6,factor:5},dropout:{probability:0.2},watts:6}]"},
	{name: "slowdown", sets: timing + "slowdown={every_seconds:30,for_seconds:10,factor:{dist:uniform,min:2,max:9},links:true}"},
	{name: "links", sets: timing + "network.links=links.csv"},
	{name: "links-by-class", sets: timing + "fleet=[{name:car,links:{file:links.csv,traces:[car]}},{name:train,links:{file:links.csv,traces:[train]}}]"},
	{name: "measured", sets: timing + "compute.measured=devices.csv compute.reference=board"},
	{name: "shared-server", sets: timing + spread + "network.server_download_mbps=60 network.server_upload_mbps=9"},
	{name: "shared-sites", sets: timing + spread + "network={server_upload_mbps:9,sites:{count:7,download_mbps:30,upload_mbps:4}}"},
	{name: "sites-add-up", sets: tweets + "clients=30 cohort=10 network={server_upload_mbps:8,sites:{count:4,download_mbps:30,upload_mbps:5}} aggregate={site_rounds:2,weights:samples} dropout.probability=0.1"},
	{name: "shared-server-buffered", sets: timing + spread + "network.server_download_mbps=60 network.server_upload_mbps=9 close={rule:buffered,n:4} dropout.probability=0.05"},
	{name: "all-at-once", sets: tweets + "cohort=10 compute.std=0.01 close={rule:first,n:6} availability={model:markov,on_seconds:20,off_seconds:20} dropout={probability:0.05,when_unavailable:true} network.server_upload_mbps=8 aggregate.algorithm=fedyogi aggregate.server_rate=0.01 schedule.k=error"},

	// Clients that attack.
	{name: "attackers", sets: tweets + "clients=12 cohort=12 schedule.k=error fleet=[{name:a,count:5},{name:b,count:1,attack:sign_flip},{name:c,count:1,attack:noise},{name:d,count:1,attack:label_flip},{name:e,count:1},{name:f,count:3,attack:min_max}]"},

	// What training would be without it, and when a run ends.
	{name: "trained", sets: logistic + spread},
	{name: "untrained", sets: logistic + spread + "train=false"},
	{name: "untrained-buffered", sets: timing + spread + "close={rule:buffered,n:5,staleness_limit:3}"},
	{name: "stop-virtual-seconds", sets: tweets + spread + "stop.virtual_seconds=9"},
	{name: "stop-equal-runtime", sets: tweets + "stop.rounds=null stop.equal_runtime_rounds=12"},
	{name: "stop-equal-runtime-played", sets: tweets + spread + "stop.rounds=null stop.equal_runtime_rounds=12 close={rule:deadline,seconds:0.35}"},
	{name: "stop-accuracy", sets: logistic + "stop.rounds=60 stop.validation_accuracy=0.7 evaluate.every=1 evaluate.target=0.6"},
	{name: "evaluate-every-seconds", sets: tweets + spread + "evaluate.every_seconds=1.5 schedule.k=step schedule.patience=1 schedule.min_delta=0.05"},
	{name: "evaluate-every-seconds-fixed", sets: tweets + "evaluate.every_seconds=fixed schedule.k=step schedule.patience=1 schedule.min_delta=0.05"},
	{name: "many-rounds", sets: timing + "stop.rounds=2500 events.sample=3"},
	{name: "no-timeline", sets: logistic + "events.sample=off seed=18446744073709551615"},

	// Runs that others are compared with: played by hosts in other processes, stopped, killed.
	{name: "two-hosts", sets: images + "compute.std=0.005 aggregate.algorithm=scaffold stop.rounds=3 name=two"},
	{name: "long", sets: tweets + spread + "close={rule:deadline,seconds:0.3} dropout.probability=0.1 aggregate.algorithm=fedadam aggregate.server_rate=0.01 stop.rounds=400"},
	{name: "long-buffered", sets: tweets + spread + "close={rule:buffered,n:3,staleness_limit:3} dropout.when_unavailable=true availability={model:markov,on_seconds:30,off_seconds:10} stop.rounds=400"},

	// What real devices said, played again.
	{name: "devices-replayed", args: []string{"--replay", "devices"}},
	{name: "devices-lost-replayed", args: []string{"--replay", "devices-lost", "--set", "pace=0"}},
	{name: "devices-sampled-replayed", args: []string{"--replay", "devices-sampled"}},
}

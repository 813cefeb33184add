package keyed

// Purpose separates streams that otherwise share a key: a client's durations
// never reuse the numbers of its permutations. The values are part of what one
// seed means: they may be added to, never changed or reused.
type Purpose uint64

// The purposes in use.
const (
	Cohort      Purpose = 1 // (round, draw)
	Compute     Purpose = 2 // (client, task): minibatch times
	Link        Purpose = 3 // (client, task): link speeds
	Permutation Purpose = 4 // (client, epoch): order of a client's samples
	Weights     Purpose = 5 // (tensor): initial parameters
	Split       Purpose = 6 // (client): training against held-out samples
	Synthetic   Purpose = 7 // (client, part): made data
	Augment     Purpose = 8 // (client, step): random flips and crops
	Partition   Purpose = 9 // samples to clients

	Device       Purpose = 10 // (client): class, own speeds, places in traces
	Vary         Purpose = 11 // (client, task): a task's factors on its client's speeds
	Slowdown     Purpose = 12 // (client, window, ...): when a client is slow
	Availability Purpose = 13 // (client, window, ...): when a client can be asked
	Dropout      Purpose = 14 // (client, task): whether and where a task ends early

	Charging               Purpose = 15 // a seed: when batteries are charged
	CorrelatedSpeed        Purpose = 16 // (client, part): which client has which device
	CorrelatedAvailability Purpose = 17 // (client, part): which client has whose availability

	Replacement Purpose = 20 // (task, try): who gets the place of a task that ended
	Explore     Purpose = 21 // (round, draw): which new clients are tried
	Tier        Purpose = 22 // (round, draw): which tier of clients is asked

	Forecast Purpose = 24 // (round, client): wrong forecasts of availability, and the order of equal ones

	Compression Purpose = 25 // (client, task): what of an update is rounded, and which way

	LocalStep  Purpose = 26 // (client, step): seed of what a model draws in a local step
	DropValues Purpose = 27 // (layer) of such a seed: which values a dropout leaves out
	External   Purpose = 28 // (client, task): the seed of a task in an external trainer
	Attack     Purpose = 29 // (client, task): what an attacker draws
	LocalNoise Purpose = 35 // (client, task, part): the key of the noise that a client adds to its update

	Timeline Purpose = 30 // (client): which clients' tasks are shown
	Draw     Purpose = 32 // (draw): a seed of the fleet in one draw of a prediction
	Pace     Purpose = 33 // (device, phase) of such a seed: how far a device is from what its class says
	Dealt    Purpose = 34 // (device, phase): measured times, dealt anew among rounds

	Together      Purpose = 37 // (virtual time): the factors of all tasks that start then
	Control       Purpose = 38 // the order of a schedule's values of K in its control
	Heterogeneity Purpose = 39 // a seed: who is drawn in the rounds that say how unlike clients are
)

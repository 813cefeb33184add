// Package outlook says how long a run will still take, in wall time.
//
// It learns from the rounds so far what a round costs beside its local steps, what a step
// costs, and how long rounds of K steps are on the virtual clock. Then it walks through
// the rounds that are left, with the K that the schedule foresees for them: where K decays,
// they are cheaper than those before. A schedule that follows what the run measures is
// taken to keep its last K. How long a round is expected to be before any has ended
// follows from what its clients are expected to take ([Rounds]).
//
// It reads no clock: whoever asks it tells it how long rounds took.
package outlook

// Package selection says how a round's clients are chosen among those that are
// available, by a [Rule] with its options. A rule is one file that registers itself in
// [Rules].
//
//	selection.go        what a rule is, and may know and do
//	draw.go             a single client for the next task, where rounds overlap
//	uniform.go          uniformly, the default
//	by_size.go          in proportion to the clients' samples
//	round_robin.go      in turn
//	least_available.go  those that are soon away
//	power_of_choice.go  those with the highest losses of several candidates
//	last_losses.go      those of several candidates that told the highest losses
//	fit.go              fewer local steps for slow clients
//	tifl.go             tiers of equally fast clients
//	flanp.go            the fastest clients first, then more
//	oort.go             by utility; oort_order.go: a round's draw and what is remembered
package selection

// Package selection has the ways to choose a round's clients, one file each. An
// entry registers a struct of its options in [choice.Selections], so importing this
// package for that alone gives a program all of them; the default, [choice.Uniform],
// is always there.
//
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

// Package schedule holds the schedules of the paper's Table 3 and others: how many
// local steps K_r, and which learning rate eta_r, a round uses.
//
// A schedule for K and one for eta are chosen independently of each other, by
// name, in the tables [Ks] and [Etas]; the paper's named schedules decay one and
// keep the other fixed ([Parse]). A schedule is one file that registers a struct
// of its options. Each is a pure function of a [Progress], which says all that it
// may depend on, such as the training loss relative to the start ([Window], Eq.
// 15) and whether the validation error has stopped to improve ([Plateau]).
//
// Equal progress gives equal steps on every architecture: K_r is decided in
// integers, by a comparison of singly rounded values, or by functions that are
// rounded once (exact.go), never by those of package math that may differ. The
// package knows nothing of clients or models.
package schedule

// Package placement decides where the work of a run goes: a [Table] which host answers
// for a client, and [Jobs] which jobs are queued a second time. No result depends on
// either: every host gives the same plan, and a sum counts once whoever sends it.
//
// The hosts of a table take tasks in turn. One whose answers stay out while another has
// answered all of its own ([Table.Stalled]), or which took several times as long for its
// share as the quickest, gets none for a while, and each time that it fails again for
// twice as long: a host that stops and goes on all the time, or crawls, costs next to
// nothing. Plans are little work, so hosts that keep up share it equally.
//
// The table keeps nothing of single tasks: a task carries a token, which its plan
// repeats, and the table counts tokens.
//
// A job is free to be taken by any worker. It is queued again at once when only a host
// that is gone held it, and beside its first message, for an idle worker, when it
// takes much longer than others or nobody has taken it for a while.
package placement

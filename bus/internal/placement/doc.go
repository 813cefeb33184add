// Package placement decides which hosts do the work of a run: a [Table] which host answers
// for a client, and [Jobs] which jobs are queued a second time. No result depends on
// either: every host gives the same plan, and only one sum of a job counts.
//
// The hosts of a table take tasks in turn. A host that has not answered while another has
// answered all of its own tasks ([Table.Stalled]), or that took several times as long for its
// share as the quickest, gets no tasks for a while, and each time that it fails again for
// twice as long. So a host that stops again and again, or is very slow, costs next to
// nothing. Plans are little work, so hosts that keep up share it equally.
//
// The table keeps no single tasks: a task carries a token, which its plan repeats, and
// the table counts tokens.
//
// A job may be taken by any worker. It is queued again at once when the only host that
// held it is gone. While its first message stays, it is queued a second time for an idle
// worker when it takes much longer than others or no worker has taken it for a while.
package placement

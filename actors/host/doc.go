// Package host is where simulated actors are at home: a [Host] subscribes once for all of
// them and answers each task at once with its plan, which the device model draws from
// (seed, client, task). Its workers, each an [actors.Trainer], take jobs off the work queue
// one at a time and return one exact partial sum for each.
package host

// Command watch measures what it costs a run to be watched: pairs of runs, one
// with everything on (the server, a scrape each second, 20 viewers of the page
// and one that never reads, the event log) and one with everything off.
//
//	go run ./bench/watch                 seven pairs of each kind of run
//	go run ./bench/watch --pairs 3 --binary ./fedpace
//
// Each run is a process of its own, the two of a pair follow each other, and
// which comes first alternates. Reported are medians, and by the medians it
// fails: processor time of a run that trains may grow by 3 %, of one that is
// timed only by 10 %, peak memory by 64 MB; fingerprints and models must be the
// same. It needs a machine with nothing else to do.
package main

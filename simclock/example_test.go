package simclock_test

import (
	"fmt"

	"fedpace/simclock"
)

// Events come out in the order (time, priority, sequence), in whatever order
// they were scheduled.
func Example() {
	clock := simclock.New()
	at := func(seconds float64) simclock.Time { return simclock.Time(seconds * 1e9) }
	clock.Schedule(simclock.Event{At: at(10), Seq: 3, Priority: 1, Kind: 2}) // a deadline
	clock.Schedule(simclock.Event{At: at(10), Seq: 2, Kind: 1, Task: 2})     // an upload that just makes it
	clock.Schedule(simclock.Event{At: at(2.5), Seq: 1, Kind: 1, Task: 1})
	clock.Schedule(simclock.Event{At: at(30), Seq: 4, Kind: 1, Task: 3})
	clock.Cancel(4)
	for {
		e, ok := clock.Pop()
		if !ok {
			break
		}
		fmt.Printf("%5.1f s: event %d\n", clock.Now().Seconds(), e.Seq)
	}
	// Output:
	//   2.5 s: event 1
	//  10.0 s: event 2
	//  10.0 s: event 3
}

// A clock continues from its state exactly as the original does.
func ExampleRestore() {
	clock := simclock.New()
	for seq := range uint64(4) {
		clock.Schedule(simclock.Event{At: simclock.Time(seq * 1e9), Seq: seq})
	}
	clock.Pop()
	copied := simclock.Restore(clock.State())
	for left := true; left; _, left = clock.Pop() {
		copied.Pop()
	}
	fmt.Println(copied.Now().Seconds(), "s,", copied.Fingerprint() == clock.Fingerprint())
	// Output: 3 s, true
}

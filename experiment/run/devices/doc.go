// Package devices holds tests of whole runs with real devices: what they tell, how they fail, what
// hostile ones can do over many rounds (the attacks of a single task are in the attack suite of
// package cmd), and how secure aggregation hides their updates. The code that they test is in
// coordinator/realdevices, coordinator/aggregate and experiment/run.
package devices

// Package devices holds tests of whole runs with real devices: what they tell, how they fail, what
// hostile ones can do, and how secure aggregation hides their updates. The code that they test is in
// coordinator/realdevices, coordinator/aggregate and experiment/run.
package devices

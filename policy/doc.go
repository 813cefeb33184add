// Package policy is what the plug points share whose components may be written in Python: a
// schedule, a closing rule, a selection, a combining rule, an algorithm's weights and step.
//
// A component with [Python] among its options names a file of the user's. It puts its
// questions to an [Asker], which [Bind] hands to each such component of a configuration
// before a run. Package experiment/policies has the asker that keeps a process.
//
// A policy is a function: equal questions have equal answers. What it remembers is a part of
// its questions. The package does not know how a question reaches the user's code.
package policy

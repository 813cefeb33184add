// Package closing says when a round of federated learning closes, and what becomes of
// the tasks that are under way then.
//
// [Rules] are the closing rules by name and [Lates] the treatments of late updates. Both
// are pure: a rule is told how its round stands and answers. The round machine asks them
// (package round).
package closing

// Package attack says what simulated clients do that attack a run: they lie about what
// they have learned or about their loss, learn what is wrong, or dawdle.
//
// Each [Attack] is one file, but for the two that send a multiple. A class of the fleet names it,
// and all clients of the class do it in every task. What a client sends stays a pure function of
// its task: random numbers come from the task's own key, and where colluders need each other's honest
// updates, the host that does the task trains those again. So any host can do any task, and no honest
// client computes anything else because others attack.
//
// The package is pure. Package fleet asks it for durations, package actors for the rest.
package attack

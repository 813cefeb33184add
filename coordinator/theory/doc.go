// Package theory is the paper's analysis as functions: the runtime model
// (Eq. 5, 7), Theorem 1's bound on the gradient, the bound at a time (Eq. 8),
// and the numbers of local steps and the learning rates that minimise it
// (Theorem 2, Corollary 2.1; Eq. 9 to 12).
//
// Several of the paper's formulas are printed wrong. Each function here is the
// corrected form, says how the printed one differs, and has it beside it under
// a name that begins with Printed; [Errata] lists them all.
//
// Quantities carry units: F and Gamma are losses, the model's parameters
// lengths, times seconds. Then L and mu are loss/length², a learning rate is
// length²/loss, G and sigma are loss/length and every bound on ‖∇F‖² is
// loss²/length². A formula that does not keep to them is wrong, which is how two
// of the errata were found.
//
// The package is pure and stands on the standard library alone. It knows no
// run: where constants come from is for others to say.
package theory

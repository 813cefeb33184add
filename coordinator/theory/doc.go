// Package theory has the paper's analysis as functions: the runtime model (Eq. 5,
// 7), Theorem 1's bound on the gradient, the bound at a time (Eq. 8), and the
// numbers of local steps and the learning rates that minimise it (Theorem 2,
// Corollary 2.1; Eq. 9 to 12).
//
// The paper prints several formulas wrong. Each function here is the corrected
// form, and its comment says how the printed form differs. The printed form is a
// function, too; its name begins with Printed. [Errata] lists all of them.
// Formulas that no program needs stand in formulas_test.go.
//
// Quantities carry units. F and Gamma are losses, the model's parameters are
// lengths, and times are seconds. Then L and mu are loss/length², a learning rate
// is length²/loss, G and sigma are loss/length, and every bound on ‖∇F‖² is
// loss²/length². A formula that breaks these units is wrong; two of the errata
// were found in this way.
//
// The package knows no run: its callers provide the constants.
package theory

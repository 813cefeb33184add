// Package fairness is the output of evaluations by client, as tables in CSV:
// client_evaluations.csv has a row for each client and evaluation, and fairness.csv
// a row for each evaluation and, where clients have classes, for each class.
//
// Both files only grow. There are columns for each of the model's metrics.
package fairness

// Command regression prints the synthetic homes of this example as CSV:
//
//	go run ./examples/regression > examples/regression/synthetic_homes.csv
package main

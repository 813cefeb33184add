package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "town,rooms,area,age,distance,price")
	draw := rand.New(rand.NewPCG(15, 5))
	for town := range 10 {
		premium := 6 * draw.NormFloat64() // what a home costs more in this town
		for range 25 + draw.IntN(35) {
			rooms := 1 + draw.IntN(6)
			area := 12 + 23*float64(rooms) + 6*draw.NormFloat64()
			age := draw.IntN(81)
			distance := 0.5 + 19.5*draw.Float64() // km to the centre
			price := 60 + 2*area + 10*float64(rooms) - 0.7*float64(age) - 3*distance + premium + 8*draw.NormFloat64()
			fmt.Fprintf(out, "t%d,%d,%.1f,%d,%.2f,%.1f\n", town, rooms, area, age, distance, price)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

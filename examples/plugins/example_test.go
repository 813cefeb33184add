package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"

	"fedpace/algorithm/combine"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/examples/plugins"
	"fedpace/learn"
	"fedpace/learn/network"
	"fedpace/metrics"
)

const second = 1_000_000_000 // nanoseconds

// A schedule decides K from what is known when a round opens.
func ExampleProportional() {
	k := plugins.Proportional{Least: 2}
	now := schedule.Progress{HasLoss: true, LossRatio: 0.25}
	now.K0 = 40
	fmt.Println(k.LocalSteps(now))
	// Output: 10
}

// A closing rule is asked after each task that completes.
func ExampleShare() {
	rule := plugins.Share{Of: 0.7}
	for _, accepted := range []int{6, 7} {
		fmt.Println(accepted, rule.Close(closing.Standing{Cohort: 10, Accepted: accepted}))
	}
	// Output:
	// 6 false
	// 7 true
}

// A selection gives the order in which clients are asked in each round.
func ExampleInTurn() {
	order, err := plugins.InTurn{}.Order(selection.Setup{Clients: 5, Cohort: 2})
	if err != nil {
		panic(err)
	}
	for round := 1; round <= 2; round++ {
		order.Start(round, 0)
		first, _ := order.Next()
		second, _ := order.Next()
		fmt.Println("round", round, "asks", first, second)
	}
	// Output:
	// round 1 asks 0 1
	// round 2 asks 2 3
}

// The client half of an algorithm corrects each gradient before the step is taken.
func ExampleClipped() {
	client := plugins.Clipped{Rate: 1, Norm: 1}.Client(2)
	gradient := []float32{3, 4} // of norm 5
	client.Correct([]float32{0, 0}, gradient)
	fmt.Println(gradient)
	// Output: [0.6 0.8]
}

// An optimizer takes a client's local steps.
func ExampleSigns() {
	params := []float32{1, 1, 1}
	plugins.Signs{}.Stepper(len(params)).Step(params, []float32{0.001, -7, 0}, 0.25)
	fmt.Println(params)
	// Output: [0.75 1.25 1]
}

// A combining rule makes one update of a round's, in units of 2^-44.
func ExampleShortest() {
	mean := make([]int64, 2)
	plugins.Shortest{Drop: 0.4}.Combine(mean, [][]int64{{2, 3}, {900, 0}, {4, 1}, {6, -1}, {0, -800}}, nil)
	fmt.Println(mean)
	// Output: [4 1]
}

// A clipping bounds the norms of a round's updates and remembers numbers for the next round.
func ExampleFalling() {
	clip := plugins.Falling{First: 4, Factor: 0.5}
	var memory []float64
	for range 3 {
		var bound float64
		bound, memory = clip.Bound(memory, nil)
		fmt.Println(bound)
	}
	var _ combine.Clip = clip
	// Output:
	// 4
	// 2
	// 1
}

// A compression changes an update to what its fewer bits can say.
func ExampleShortFloats() {
	compress := plugins.ShortFloats{Fraction: 1}
	update := []float32{1, -1.75, 1.0001, 0}
	compress.Compressor(len(update)).Compress(update, nil)
	fmt.Println(update, compress.Bits(int64(len(update))), "bits")
	// Output: [1 -1.5 1 0] 40 bits
}

// A layer says its shape and parameters; a model names it among others.
func ExampleLeaky() {
	shape, err := plugins.Leaky{Slope: 0.25}.Shape(network.Shape{Channels: 4, Height: 1, Width: 1})
	if err != nil {
		panic(err)
	}
	model, err := learn.Parse("layers:values=4,targets=2;dense(5),leaky(0.25),dense(2)")
	if err != nil {
		panic(err)
	}
	fmt.Println(shape, model.Params(), "parameters")
	// Output: a vector of 4 values 37 parameters
}

// A model is made for the samples of a data set.
func ExampleScaled() {
	model, err := plugins.Scaled{Layers: []int{2, 3, 2}, Factor: 0.1}.Model(learn.Samples{Features: 2, Classes: 2})
	if err != nil {
		panic(err)
	}
	fmt.Println(model, model.Params(), "parameters")
	// Output: scaled:0.1,2,3,2 17 parameters
}

// A reader recognises its files, so that data.Open needs no name of it.
func ExamplePoints() {
	folder, err := os.MkdirTemp("", "points")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "points.csv")
	text := "client,label,x,y\nann,0,1,2\nbob,0,3,4\nann,1,5,6\nbob,1,7,8\nann,1,9,10\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
	set, err := data.Open(path, federated.Options{})
	if err != nil {
		panic(err)
	}
	for client := range set.Clients() {
		fmt.Println(set.Client(client), "trains on", set.Samples(client))
	}
	// Output:
	// ann trains on 2
	// bob trains on 1
}

// A distribution maps 64 random bits to a draw.
func ExampleTwoPoint() {
	speed, err := plugins.TwoPoint{Low: 1, High: 2, Share: 0.25}.Sampler()
	if err != nil {
		panic(err)
	}
	fmt.Println(speed.Quantile(0), speed.Quantile(1<<63), speed.Quantile(1<<64-1))
	// Output: 1 1 2
}

// A model of availability says when a client is there and when that changes.
func ExampleShifts() {
	presence, err := plugins.Shifts{Shifts: 2, Seconds: 60}.Presence(nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(presence.Present(1, 0, 30*second), presence.Present(1, 1, 30*second))
	fmt.Println(presence.Change(1, 0, 30*second)/second, "s")
	// Output:
	// true false
	// 60 s
}

// A slowdown stretches a client's work.
func ExampleThrottle() {
	slowing, err := plugins.Throttle{AfterSeconds: 10, Factor: 3}.Slowing()
	if err != nil {
		panic(err)
	}
	fmt.Println(slowing.Stretch(1, 0, 0, 15*second)/second, "s")
	// Output: 25 s
}

// An attack replaces what an honest client would send.
func ExampleStubborn() {
	behaviour := plugins.Stubborn{Part: 0.5}.Behaviour()
	update := []float32{1, -2}
	behaviour.Update(update, 1)
	fmt.Println(update, behaviour.Loss(7))
	// Output: [0.5 -1] 1
}

// An output takes tasks and rounds, and writes into the run's folder.
func ExampleReach() {
	run := &metrics.Run{Clients: 10, Slowest: 1}
	recorder, err := metrics.Open(run, []metrics.Sink{plugins.Reach{File: "reach.csv"}})
	if err != nil {
		panic(err)
	}
	folder := &onScreen{}
	if err := recorder.Start(&metrics.Start{Folder: folder}, nil); err != nil {
		panic(err)
	}
	recorder.Task(&round.TaskReport{Client: 3, Outcome: round.Accepted})
	recorder.Task(&round.TaskReport{Client: 7, Outcome: round.Late})
	if err := recorder.Round(&round.Report{Round: 1}); err != nil {
		panic(err)
	}
	// Output: reach.csv: 1,1
}

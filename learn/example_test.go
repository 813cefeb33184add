package learn_test

import (
	"fmt"

	"fedpace/learn"
)

// A small network learns whether exactly one of its two inputs is 1. All of its
// parameters are one slice.
func Example() {
	model, err := learn.Parse("mlp:2,8,2")
	if err != nil {
		panic(err)
	}
	params := make([]float32, model.Params())
	model.Init(params, 1)
	batch := &learn.Batch{N: 4, X: []float32{0, 0, 0, 1, 1, 0, 1, 1}, Labels: []int32{0, 1, 1, 0}}
	work := model.NewWorkspace(batch.N, learn.Kernel{})
	for range 2000 {
		if _, err := work.Step(params, batch, 0.3); err != nil {
			panic(err)
		}
	}
	scores := make([]learn.Score, len(model.Metrics()))
	if _, err := work.Evaluate(params, batch, scores); err != nil {
		panic(err)
	}
	for _, t := range model.Tensors() {
		fmt.Println(t.Name, t.Shape)
	}
	fmt.Println(model, "has", len(params), "parameters and classifies", scores[0].Sum, "of 4")
	// Output:
	// 0.weight [8 2]
	// 0.bias [8]
	// 2.weight [2 8]
	// 2.bias [2]
	// mlp:2,8,2 has 42 parameters and classifies 4 of 4
}

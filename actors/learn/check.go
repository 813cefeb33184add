package learn

import (
	"fmt"
	"math"
)

// checkBatch verifies what every kind of batch has in common.
func checkBatch(b *Batch, maxBatch, classes int) error {
	if b.N < 1 || b.N > maxBatch {
		return fmt.Errorf("batch of %d samples; the workspace takes 1 to %d", b.N, maxBatch)
	}
	if len(b.Labels) != b.N {
		return fmt.Errorf("batch of %d samples with %d labels", b.N, len(b.Labels))
	}
	for i, y := range b.Labels {
		if uint32(y) >= uint32(classes) {
			return fmt.Errorf("sample %d of the batch: label %d is not one of the classes 0 to %d", i, y, classes-1)
		}
	}
	return nil
}

func checkDense(b *Batch, features int) error {
	if len(b.X) != b.N*features {
		return fmt.Errorf("batch of %d samples with %d values; the model reads %d a sample", b.N, len(b.X), features)
	}
	return nil
}

func checkSparse(b *Batch, features int) error {
	if len(b.RowStart) != b.N+1 || b.RowStart[0] != 0 || int(b.RowStart[b.N]) != len(b.Index) || len(b.Value) != len(b.Index) {
		return fmt.Errorf("batch of %d samples: %d row starts, %d indices and %d values do not fit together",
			b.N, len(b.RowStart), len(b.Index), len(b.Value))
	}
	for i := range b.N {
		if b.RowStart[i] > b.RowStart[i+1] {
			return fmt.Errorf("sample %d of the batch ends before it starts", i)
		}
	}
	for _, x := range b.Index {
		if uint32(x) >= uint32(features) {
			return fmt.Errorf("index %d of the batch is not one of the features 0 to %d", x, features-1)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func checkTokens(b *Batch, length, vocabulary int) error {
	if len(b.Tokens) != b.N*length {
		return fmt.Errorf("batch of %d samples with %d tokens; the model reads %d a sample", b.N, len(b.Tokens), length)
	}
	for i, x := range b.Tokens {
		if int(x) >= vocabulary {
			return fmt.Errorf("sample %d of the batch: token %d is not one of the vocabulary's 0 to %d", i/length, x, vocabulary-1)
		}
	}
	return nil
}

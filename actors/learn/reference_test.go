package learn

import "math"

// The references recompute each model's loss in float64, one sample at a time,
// straight from its definition.

func denseReference(params []float64, widths []int, x []float64) []float64 {
	at := 0
	for l := 1; l < len(widths); l++ {
		in, out := widths[l-1], widths[l]
		w, bias := params[at:at+in*out], params[at+in*out:at+in*out+out]
		at += in*out + out
		y := make([]float64, out)
		for o := range y {
			y[o] = bias[o]
			for i, v := range x {
				y[o] += w[o*in+i] * v
			}
			if l < len(widths)-1 {
				y[o] = max(0, y[o])
			}
		}
		x = y
	}
	return x
}

func crossEntropy(z []float64, label int32) float64 {
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, v)
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(v - top)
	}
	return math.Log(sum) + top - z[label]
}

// referenceLogits returns each sample's logits.
func referenceLogits(m Model, params []float64, b *Batch) [][]float64 {
	var all [][]float64
	for s := range b.N {
		x := make([]float64, m.Features())
		switch m.Input() {
		case Sparse:
			for j := b.RowStart[s]; j < b.RowStart[s+1]; j++ {
				x[b.Index[j]] += float64(b.Value[j])
			}
		case Dense:
			for i := range x {
				x[i] = float64(b.X[s*len(x)+i])
			}
		}
		switch m := m.(type) {
		case *linear:
			all = append(all, denseReference(params, []int{m.features, m.classes}, x))
		case *mlp:
			all = append(all, denseReference(params, m.widths, x))
		}
	}
	return all
}

func referenceLoss(m Model, params []float64, b *Batch) float64 {
	var loss float64
	for s, z := range referenceLogits(m, params, b) {
		loss += crossEntropy(z, b.Labels[s])
	}
	return loss / float64(b.N)
}

package attack

// init registers the attack under the name by which a configuration chooses it.
func init() {
	Attacks.Register("label_flip", "learns from wrong labels", LabelFlip{})
}

// LabelFlip takes its local steps on samples whose labels are exchanged, and sends what it
// has learned: reverse is y -> C-1-y (Fang et al. 2020, Local model poisoning
// attacks), next is y -> y+1 mod C, and one takes a single class for another (Tolpegin et
// al. 2020, Data poisoning attacks against federated learning systems). A language model's
// labels are the tokens that come next. Its loss is that on the wrong labels.
type LabelFlip struct {
	Map    string  `key:"map" default:"reverse" words:"reverse,next,one" help:"labels of C classes: C-1-y, y+1, or one for another"`
	Source int     `key:"from" default:"0" range:"[0,1e9]" help:"map one: class"`
	Target int     `key:"to" default:"1" range:"[0,1e9]" help:"map one: class that it is learned as"`
	Factor float64 `key:"factor" default:"1" range:"[1,1e6]" help:"factor of the update"`
}

// Behaviour implements [Attack]: the client learns from the labels of Map instead of its own, and
// multiplies its update by Factor.
func (f LabelFlip) Behaviour() (a Behaviour) {
	if f.Factor != 1 {
		a.Update = times(f.Factor)
	}
	switch f.Map {
	case "reverse":
		a.Label = func(y, classes int32) int32 { return classes - 1 - y }
	case "next":
		a.Label = func(y, classes int32) int32 { return (y + 1) % classes }
	case "one":
		source := int32(f.Source)
		target := int32(f.Target)
		a.Label = func(y, _ int32) int32 {
			if y == source {
				return target
			}
			return y
		}
	}
	return a
}

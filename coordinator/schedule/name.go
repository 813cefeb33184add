package schedule

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/internal/registry"
)

// Fixed is the name of the pair of schedules that change nothing, with which the
// others are compared.
const Fixed = "fixed"

// Pair names a schedule of K and one of eta, by their names in [Ks] and [Etas].
type Pair struct{ K, Eta string }

// known are the rows of Table 3, and Eq. 9 itself: a schedule of K has its name alone, one of eta
// has "eta-" before it.
var known = []string{"dsgd", Fixed, "rounds", "error", "step", "eta-rounds", "eta-error", "eta-step", "theory"}

// Names lists what Parse understands: the rows of Table 3 in their order,
// theory, and the other schedules for which a name is enough, because no option of
// theirs is required.
func Names() []string {
	list := slices.Clone(known)
	for _, more := range []struct {
		prefix  string
		entries []registry.Entry
	}{{"", Ks.Entries}, {"eta-", Etas.Entries}} {
		for _, e := range more.entries {
			required := slices.ContainsFunc(registry.Options(e.Type()), func(o registry.Option) bool { return !o.Optional })
			if all := more.prefix + e.Name; !required && e.Name != Fixed && !slices.Contains(list, all) {
				list = append(list, all)
			}
		}
	}
	return list
}

// Renamed is the name of a schedule that is given another that it had: the paper's, or with "k-"
// before it.
func Renamed(old string) string {
	name := strings.TrimPrefix(strings.NewReplacer("K-eta-fixed", Fixed, "K_r-", "", "eta_r-", "eta-").Replace(old), "k-")
	if name == old || !slices.Contains(Names(), name) {
		return ""
	}
	return name
}

// Parse reads one of [Names]: a pair of which one is fixed.
func Parse(name string) (Pair, error) {
	if !slices.Contains(Names(), name) {
		return Pair{}, fmt.Errorf("schedule: %.40q is not known as a schedule, want one of %s", name, strings.Join(Names(), ", "))
	}
	if eta, ok := strings.CutPrefix(name, "eta-"); ok {
		return Pair{Fixed, eta}, nil
	}
	return Pair{name, Fixed}, nil
}

// String is the name that Parse reads. Pairs that decay both, which the paper
// leaves out, are written with both: "rounds+eta-step".
func (p Pair) String() string {
	eta := "eta-" + p.Eta
	switch {
	case p.Eta == Fixed:
		return p.K
	case p.K == Fixed:
		return eta
	}
	return p.K + "+" + eta
}

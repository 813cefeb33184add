package figure

import (
	"math"
	"strconv"
	"strings"

	"fedpace/internal/portable"
)

// tick is a value of an axis that has a mark, and its label; empty: only a mark.
type tick struct {
	value float64
	label string
}

// length is the length of the mark of a tick: one without a label has a shorter mark.
func (t tick) length() float64 {
	if t.label == "" {
		return tickLength / 2
	}
	return tickLength
}

// roundTicks returns about four to nine ticks within the range from low to high, at multiples of 1,
// 2 or 5 times a power of ten, which are minStep apart or more. An empty range has one tick, at low.
func roundTicks(low, high, minStep float64) []tick {
	minimum := max((high-low)/8, minStep)
	if !(minimum > 0) || math.IsInf(minimum, 0) {
		return []tick{{low, short(low)}}
	}
	unit := math.Pow10(portable.Decade(minimum))
	step := 10 * unit
	// The step is the least round number that is not below minimum.
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= minimum {
			step = m * unit
			break
		}
	}
	// The labels have as many decimal places as the step needs.
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9*step; i++ {
		// Adding 0 turns a negative zero into one without a sign.
		v := i*step + 0
		label := strconv.FormatFloat(v, 'f', digits, 64)
		if digits > 5 || math.Abs(v) >= 1e6 {
			label = short(v)
		}
		// A minus sign is as wide as a plus sign, which a hyphen is not.
		if digits, isNegative := strings.CutPrefix(label, "-"); isNegative {
			label = "−" + digits
		}
		ticks = append(ticks, tick{v, label})
	}
	return ticks
}

// decades returns the ticks of a logarithmic axis from low to high, both above 0: at 1 to 9 times
// each power of ten. Powers of ten have labels: where there are few, also twice and five times those;
// where there are many, only every second or third, and so on.
func decades(low, high float64) []tick {
	first := int(math.Ceil(math.Log10(low) - 1e-9))
	last := int(math.Floor(math.Log10(high) + 1e-9))
	// With one power of ten at most, 2 and 5 have labels, too.
	few := last-first < 1
	// Of very many powers of ten only each every-th has a label, so that seven or eight have one.
	every := max(1, (last-first+6)/7)
	var ticks []tick
	for exponent := first - 1; exponent <= last; exponent++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow10(exponent)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			isLabelledPower := m == 1 && (exponent-first)%every == 0
			isLabelledBetween := few && (m == 2 || m == 5)
			t := tick{value: v}
			if isLabelledPower || isLabelledBetween {
				t.label = short(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// exponents drops the signs and zeros that strconv writes in them.
var exponents = strings.NewReplacer("e+0", "e", "e-0", "e-", "e+", "e")

// short returns number x in a few characters: 0.01, 10000, 1e6. Very large and very small numbers
// have an exponent.
func short(x float64) string {
	if a := math.Abs(x); a == 0 || a >= 1e-3 && a < 1e5 {
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	text := strconv.FormatFloat(x, 'e', -1, 64)
	// Too many digits are cut to two behind the point.
	if strings.IndexByte(text, 'e') > 5 {
		text = strconv.FormatFloat(x, 'e', 2, 64)
	}
	return exponents.Replace(text)
}

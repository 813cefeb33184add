package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// VirtualTime writes virtual seconds: seconds below ten minutes, minutes above, as
// in the paper's figures.
func VirtualTime(seconds float64) string {
	if seconds < 600 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.2f min", seconds/60)
}

// Duration writes about how long something takes. Anything below a second is "a second".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// Size writes a number of bytes as 12.3 MB.
func Size(bytes int64) string {
	for _, unit := range []struct {
		bytes float64
		name  string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		// 999.95 of the unit below would be written as 1000.0.
		if v := float64(bytes) / unit.bytes; v >= 0.99995 {
			return fmt.Sprintf("%.1f %s", v, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Some returns the names with commas between them; of more than eight only the first eight, followed by
// "...".
func Some(names []string) string {
	const limit = 8
	if len(names) > limit {
		return strings.Join(names[:limit], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// Known writes a number by a layout of package fmt. A number that is not known, NaN, is "-".
func Known(layout string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(layout, v)
}

// Fixed writes a number with four decimals, or with four digits if it is too small or too large for that.
// NaN, which stands for a number that is not known, is "-".
func Fixed(v float64) string {
	if size := math.Abs(v); v != 0 && size < 1e-4 || size >= 1e6 {
		return fmt.Sprintf("%.4g", v)
	}
	return Known("%.4f", v)
}

// Plural returns a noun as it follows the number n: with an s unless n is 1.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// Thousands writes 12345678 as 12,345,678.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rate writes how often something is done: with three digits or, from 1000 on, as a whole number with
// separators.
func Rate(v float64) string {
	if v >= 999.5 {
		return Thousands(int64(math.Round(v)))
	}
	return fmt.Sprintf("%.3g", v)
}

// Seconds writes a wall time that is given in seconds.
func Seconds(seconds float64) string {
	switch {
	case seconds < 0.095:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 10:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return (time.Duration(seconds) * time.Second).String()
}

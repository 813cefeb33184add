package human

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestHuman_Figures(t *testing.T) {
	for got, want := range map[string]string{
		VirtualTime(599.94): "599.9 s", VirtualTime(600): "10.00 min",
		Duration(time.Millisecond): "a second", Duration(1100 * time.Millisecond): "2 s", Duration(3 * time.Minute): "3 min", Duration(5 * time.Hour): "5.0 h",
		Size(999): "999 bytes", Size(12_340): "12.3 kB", Size(5_000_000): "5.0 MB", Size(7_770_000_000): "7.8 GB",
		Seconds(0.0204): "20 ms", Seconds(0.1): "0.1 s", Seconds(9.94): "9.9 s", Rate(1480.2): "1,480", Rate(999.6): "1,000", Rate(1.8234): "1.82",
		Fixed(0.25): "0.2500", Fixed(0): "0.0000", Fixed(2.402e-8): "2.402e-08", Fixed(-0.5): "-0.5000", Fixed(1.5e12): "1.5e+12", Fixed(math.NaN()): "-",
		Size(0): "0 bytes", Size(1000): "1.0 kB", Size(999_949): "999.9 kB", Size(999_950): "1.0 MB", Size(1e9): "1.0 GB",
		fmt.Sprintln(1, Plural(1, "run"), 2, Plural(2, "run")): "1 run 2 runs\n",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

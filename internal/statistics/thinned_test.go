package statistics

import (
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

func TestThinning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		th := Thin[int](2 * rapid.IntRange(1, 8).Draw(t, "limit"))
		n := rapid.IntRange(0, 500).Draw(t, "n")
		for i := range n {
			th.Add(i)
		}
		got := th.All()
		if len(got) > th.limit+1 || n > 0 && (len(got) == 0 || got[0] != 0 || got[len(got)-1] != n-1) {
			t.Fatalf("%v of %d", got, n)
		}
		if n <= th.limit && len(got) != n {
			t.Fatalf("%d of %d", len(got), n)
		}
		for i := 2; i < len(got)-1; i++ {
			if got[i]-got[i-1] != got[1]-got[0] {
				t.Fatalf("%v", got)
			}
		}
	})
}

package external_test

import "testing"

// Memory that a trainer tries to take away stays.
func TestFile_ShrinkingMemory(t *testing.T) {
	t.Parallel()
	base, want := sound(t)
	p, err := open(t, &heard{}, 0, "-fault", "shrink")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := train(t.Context(), worker(t, p), base); err != nil || !equalModels(got, want) {
		t.Errorf("other models than without it, %v", err)
	}
}

package cmd

import (
	"testing"
	"time"
)

func TestFutureWarning_OnlyAheadOfNow(t *testing.T) {
	now := time.Unix(1000, 0)
	if text := futureWarning(now, now); text != "" {
		t.Errorf("a run that ends now: %q", text)
	}
	if futureWarning(now.Add(time.Second), now) == "" {
		t.Error("a run that ends in a second has no warning")
	}
}

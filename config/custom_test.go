package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCustom_LinkTracesReplaceSpeeds(t *testing.T) {
	const file = "task: custom\ntrain: false\nclients: 3\nschedule: {k0: 4, eta0: 0.1}\ncompute: {seconds_per_step: 0.1}\n" +
		"stop: {rounds: 2}\nnetwork: {model_megabits: 1%s}\n"
	path := filepath.Join(t.TempDir(), "c.yaml")
	for links, asked := range map[string]bool{"": true, ", links: links.csv": false} {
		if err := os.WriteFile(path, fmt.Appendf(nil, file, links), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, nil)
		if asksForSpeed := err != nil && strings.Contains(err.Error(), "network.download_mbps: is not set"); asksForSpeed != asked {
			t.Errorf("network: {model_megabits: 1%s}: %v", links, err)
		}
		if err != nil && !asked {
			t.Error(err)
		}
	}
}

// TestCustom_SpeedsOfFleet asks for the speeds of the network only where a class of the fleet has none of its own.
func TestCustom_SpeedsOfFleet(t *testing.T) {
	const file = "task: custom\ntrain: false\nclients: 3\nschedule: {k0: 4, eta0: 0.1}\ncompute: {seconds_per_step: 0.1}\n" +
		"stop: {rounds: 2}\nnetwork: {model_megabits: 1}\nfleet:\n"
	const speed = "{dist: constant, value: 5}"
	path := filepath.Join(t.TempDir(), "c.yaml")
	for name, c := range map[string]struct{ first, second, asked string }{
		"links":          {"links: links.csv", "links: links.csv", ""},
		"speeds":         {"download_mbps: " + speed + ", upload_mbps: " + speed, "links: links.csv", ""},
		"a class's none": {"links: links.csv", "watts: 2", "network.download_mbps"},
		"no upload":      {"links: links.csv", "download_mbps: " + speed, "network.upload_mbps"},
	} {
		text := file + "  - {name: a, weight: 1, " + c.first + "}\n  - {name: b, weight: 1, " + c.second + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, nil)
		if c.asked == "" && err != nil || c.asked != "" && (err == nil || !strings.Contains(err.Error(), c.asked+": is not set")) {
			t.Errorf("%s: %v, want to be asked for %q", name, err, c.asked)
		}
	}
}

func TestFleet_RemovedAttacks(t *testing.T) {
	for name, want := range map[string]string{"loss_lie": "plug-in", "slow": "seconds_per_step or slowdown"} {
		_, err := Load("", []string{"fleet=[{name: a}, {name: b, attack: " + name + "}]"})
		if err == nil || !strings.Contains(err.Error(), "was removed") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

package config

import (
	"strings"
	"testing"
)

// What counts on one cohort is refused beside a formula of it, by the key that does.
func TestFormulas_Refused(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"schedule: {cohort: cohort * kk}", "config.yaml:1: schedule.cohort: character 10: unknown name kk"},
		{"close: {rule: buffered, n: 3}\nschedule: {cohort: k}", "schedule.cohort: in rounds that overlap"},
		{"select: round_robin\nschedule: {cohort: k}", `config.yaml:1: select: "round_robin" counts on the same cohort`},
		{"privacy: {clip: 1, noise_multiplier: 1}\nschedule: {cohort: k}", "schedule.cohort: the noise is accounted"},
		{"secure_aggregation: {on: true}\nschedule: {cohort: k}", "schedule.cohort: who shares masks"},
		{"schedule: {k: theory, cohort: k}", "schedule.cohort: Eq. 9 is about one cohort"},
		{"aggregate: {combine: median}\nschedule: {cohort: k}", "schedule.cohort: a combining rule counts on"},
		{"clients: 0\ndevices: {names: [a, b]}\nschedule: {cohort: k}", "schedule.cohort: every device takes part"},
		{"close: {rule: first, n: 3}\nlate: {rule: formula}", "config.yaml:2: late.limit: is not set"},
		{"close: {rule: first, n: 3}\nlate: {rule: formula, limit: 5 /}", "config.yaml:2: late.limit: character 3"},
		{"late: {rule: formula, limit: k}", `config.yaml:1: late: "formula" is for rounds that close before`},
	} {
		_, err := fromText(t, test.file)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.file, err, test.want)
		}
	}
}

package policy_test

import (
	"reflect"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/policy"
)

// options stand for a configuration with a list, as runs side by side share it.
type options struct {
	Rules []closing.Rule `key:"rules"`
	Plain []closing.Rule `key:"plain"`
}

// Bind replaces a list with a policy by a copy, so that a run beside it keeps its own, and does not touch one
// without a policy.
func TestBind_SharedListsStay(t *testing.T) {
	mine := options{
		Rules: []closing.Rule{closing.All{}, closing.Python{Fewest: 1}},
		Plain: []closing.Rule{closing.All{}},
	}
	theirs := mine
	started := 0
	err := policy.Bind(reflect.ValueOf(&mine).Elem(), func(key string, _ policy.Policy) (policy.Asker, error) {
		started++
		if key != "rules[1]" {
			t.Errorf("a policy is started at %q, want rules[1]", key)
		}
		return nil, nil
	})
	if err != nil || started != 1 {
		t.Fatalf("%d policies are started, %v", started, err)
	}
	if &mine.Rules[0] == &theirs.Rules[0] {
		t.Error("the list with a policy is still shared")
	}
	if &mine.Plain[0] != &theirs.Plain[0] {
		t.Error("the list without a policy was copied")
	}
}

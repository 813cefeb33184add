package data

import (
	"reflect"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
)

// TestSourceKey_CoversEveryOption changes each option of reading, and those that a later version adds, too:
// a prepared file that was made with another value is stale.
func TestSourceKey_CoversEveryOption(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "own.csv", []byte("c,x,y\na,1,0\n"))
	key := func(opt federated.Options) string {
		k, err := sourceKey(nil, dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	begun := key(federated.Options{})
	for i := range reflect.TypeFor[federated.Options]().NumField() {
		var changed federated.Options
		name := reflect.TypeFor[federated.Options]().Field(i).Name
		inert := false
		switch field := reflect.ValueOf(&changed).Elem().Field(i); name {
		case "Reading": // it only shows the progress
			field.Set(reflect.ValueOf(new(federated.Reading)))
			inert = true
		case "Partition": // of whose fields TestPartition_IdentityCoversEveryField changes each
			changed.Partition.Kind = "iid"
		default:
			switch field.Kind() {
			case reflect.String:
				field.SetString("femnist")
			case reflect.Int:
				field.SetInt(3)
			case reflect.Uint64:
				field.SetUint(3)
			case reflect.Bool:
				field.SetBool(true)
			default:
				t.Fatalf("option %s is of a kind that this test does not change", name)
			}
		}
		if same := key(changed) == begun; same != inert {
			t.Errorf("option %s changed: the key is the same: %v", name, same)
		}
	}
}

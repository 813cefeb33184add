package federated_test

import (
	"reflect"
	"testing"

	. "fedpace/data/federated"
)

// TestPartition_IdentityCoversEveryField changes each field of a partition, and of one that a later
// version adds, too: the identity and the digest of a set have to change.
func TestPartition_IdentityCoversEveryField(t *testing.T) {
	base := Partition{
		Kind:    "dirichlet",
		Clients: 5,
		Alpha:   0.3,
		Beta:    3,
		Shards:  4,
		Min:     2,
	}
	for i := range reflect.TypeFor[Partition]().NumField() {
		changed := base
		field := reflect.ValueOf(&changed).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("iid")
		case reflect.Int:
			field.SetInt(field.Int() + 1)
		case reflect.Float64:
			field.SetFloat(field.Float() + 1)
		default:
			t.Fatalf("field %s is of a kind that this test does not change", reflect.TypeFor[Partition]().Field(i).Name)
		}
		name := reflect.TypeFor[Partition]().Field(i).Name
		if changed.Identity() == base.Identity() {
			t.Errorf("field %s is not in the identity %s", name, base.Identity())
		}
		digest := Options{Partition: base}.Digest("table")
		if (Options{Partition: changed}).Digest("table") == digest {
			t.Errorf("field %s is not in the digest", name)
		}
	}
}

func TestPartition_IdentityFillsInDefaults(t *testing.T) {
	short := Partition{Kind: "iid", Clients: 3}
	long := short
	long.Alpha = 0.5
	long.Beta = 10
	long.Shards = 2
	long.Min = 1
	if short.Identity() != long.Identity() {
		t.Errorf("%s and %s deal alike", short.Identity(), long.Identity())
	}
	if (Partition{}).Identity() != (Partition{Kind: "natural"}).Identity() {
		t.Error("the zero value is natural")
	}
}

package registry_test

import (
	"fmt"
	"reflect"

	"fedpace/registry"
)

// Discount is a kind of component; each entry of the table is one way to do it.
type Discount interface{ Price(full float64) float64 }

var discounts = registry.New[Discount]("discount", "rule")

// Percent is an entry with one option.
type Percent struct {
	Off float64 `key:"off" range:"[0,100]" unit:"%" help:"part of the price that is not paid"`
}

func (p Percent) Price(full float64) float64 { return full * (1 - p.Off/100) }

func init() { discounts.Register("percent", "a part of the price", Percent{}) }

// A table knows its entries by name, and their options from the tags.
func Example() {
	for _, name := range discounts.Names() {
		entry, help, _ := registry.For(reflect.TypeFor[Discount]()).Entry(name)
		fmt.Println(name+":", help)
		for _, o := range registry.Options(reflect.TypeOf(entry)) {
			fmt.Printf("  %s: %s (%v %s)\n", o.Key, o.Help, o.Range, o.Unit)
		}
	}
	fmt.Println(registry.Check(Percent{Off: 120}))
	// Output:
	// percent: a part of the price
	//   off: part of the price that is not paid (from 0 to 100 %)
	// off: 120 is out of range (from 0 to 100 %)
}

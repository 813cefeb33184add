package metric

import (
	"slices"
	"testing"
)

// A grid measures after the first round that ends at an instant or later, once however many
// instants the round holds; rounds end at the times of the list.
func TestTimetable_GridOfTime(t *testing.T) {
	for name, test := range map[string]struct {
		grid Timetable
		ends []int64
		want []int
	}{
		"rounds shorter than the grid":    {Timetable{Grid: 10}, []int64{4, 8, 12, 16, 20, 24, 31}, []int{3, 5, 7}},
		"an instant is a round's end":     {Timetable{Grid: 10}, []int64{10, 20, 30}, []int{1, 2, 3}},
		"rounds longer than the grid":     {Timetable{Grid: 10}, []int64{25, 26, 27, 55}, []int{1, 4}},
		"rounds without a time":           {Timetable{Grid: 10}, []int64{0, 10, 10, 10, 11}, []int{2}},
		"beside rounds by their number":   {Timetable{Grid: 10, Every: 3, Rounds: []int{1}}, []int64{4, 8, 9, 12}, []int{1, 3, 4}},
		"as often as rounds of the fixed": {Timetable{Grid: 3 * 7}, []int64{7, 14, 21, 28, 35, 42}, []int{3, 6}},
	} {
		var got []int
		before := int64(0)
		for i, end := range test.ends {
			if test.grid.Due(i+1, before, end) {
				got = append(got, i+1)
			}
			before = end
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: measured after rounds %v, want %v", name, got, test.want)
		}
	}
}

func TestTimetable_Empty(t *testing.T) {
	if x := (Timetable{}); x.Any() || x.Due(1, 0, 1) {
		t.Error("an empty timetable measures something")
	}
}

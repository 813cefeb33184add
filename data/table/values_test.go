package table_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
	. "fedpace/data/table"
)

// TestNames_OneAndOnePointZero has clients and classes that one program writes as 1 and another as
// 1.0.
func TestNames_OneAndOnePointZero(t *testing.T) {
	rows := "c,x,y\n" + strings.Repeat("1,1,-1\n1.0,2,1.0\n2,3,-1.0\n2.0,4,1\n", 5)
	s := mustOpenMapped(t, rows, "rows.csv", Table{Client: "c", Features: []string{"x"}, Label: "y"})
	if s.Clients() != 2 || s.Info().Classes != 2 {
		t.Errorf("%d clients and %d classes, want 2 and 2", s.Clients(), s.Info().Classes)
	}
	if want := []string{"-1", "1"}; !slices.Equal(s.Info().Labels, want) {
		t.Errorf("classes %q, want %q", s.Info().Labels, want)
	}
}

// TestLabels_NaNIsMissing has NaN in a label column of numbers, which is no class; among words it is.
func TestLabels_NaNIsMissing(t *testing.T) {
	rows := "c,x,y\n" + strings.Repeat("a,1,-1\na,2,1\nb,3,NaN\nb,4,-1\n", 5)
	mapping := Table{Client: "c", Features: []string{"x"}, Label: "y", Missing: "drop"}
	s := mustOpenMapped(t, rows, "rows.csv", mapping)
	if s.Info().Classes != 2 {
		t.Errorf("%d classes (%q), want 2", s.Info().Classes, s.Info().Labels)
	}
	if n := everything(t, s).N; n != 15 {
		t.Errorf("%d samples, want 15 of 20", n)
	}
	mapping.Missing = ""
	if _, err := openMapped(t, rows, "rows.csv", mapping); err == nil || !strings.Contains(err.Error(), "column y, row 3: no value") {
		t.Errorf("%v, want an error about row 3", err)
	}
	words := strings.NewReplacer("-1", "oak", "1\n", "elm\n").Replace("c,x,y\n" + strings.Repeat("a,5,-1\na,2,1\nb,3,none\nb,4,-1\n", 5))
	if s := mustOpenMapped(t, words, "rows.csv", mapping); s.Info().Classes != 3 {
		t.Errorf("%d classes (%q), want 3", s.Info().Classes, s.Info().Labels)
	}
}

// TestStandard_UnixTimes scales 300 times that differ by 40 seconds, to the mean and deviation that
// follow from their formula.
func TestStandard_UnixTimes(t *testing.T) {
	const n = 300
	var rows strings.Builder
	rows.WriteString("c,x,y,split\n")
	for i := range n {
		fmt.Fprintf(&rows, "a,%d,%d,train\n", 1_700_000_000+40*i, i%2)
	}
	rows.WriteString("a,1700000000,0,test\n")
	s := mustOpenMapped(t, rows.String(), "rows.csv", Table{
		Client:   "c",
		Features: []string{"x"},
		Label:    "y",
		Split:    "split",
		Scale:    "standard",
	})
	x := datatest.All(t, s, 0).X
	mean := float64(n-1) / 2
	deviation := math.Sqrt(float64(n*n-1) / 12) // of 0 to n-1
	for i := range n {
		want := (float64(i) - mean) / deviation
		if math.Abs(float64(x[i])-want) > 1e-6 {
			t.Fatalf("row %d is %v, want %v", i, x[i], want)
		}
	}
}

type tensorRow struct {
	Client string     `parquet:"client"`
	Image  []pixelRow `parquet:"image"`
	Label  int32      `parquet:"label"`
}

type pixelRow struct {
	Pixels []pixel `parquet:"pixels"`
}

type pixel struct {
	Colours []float32 `parquet:"colours"`
}

// TestNestedLists_ShapeHasToFit reads images of height 2, width 2 and 3 channels as NumPy nests them.
func TestNestedLists_ShapeHasToFit(t *testing.T) {
	var rows []tensorRow
	for i := range 10 {
		rows = append(rows, tensorRow{
			Client: "a",
			Image: []pixelRow{
				{Pixels: []pixel{{Colours: []float32{1, 2, 3}}, {Colours: []float32{4, 5, 6}}}},
				{Pixels: []pixel{{Colours: []float32{7, 8, 9}}, {Colours: []float32{10, 11, 12}}}},
			},
			Label: int32(i % 2),
		})
	}
	file := string(datatest.Parquet(t, rows))
	mapping := Table{Client: "client", Features: []string{"image"}, Label: "label", Shape: []int{3, 2, 2}}
	if _, err := openMapped(t, file, "x.parquet", mapping); err == nil || !strings.Contains(err.Error(), "channels: last") {
		t.Errorf("%v, want an error that names channels: last", err)
	}
	mapping.Channels = "last"
	s := mustOpenMapped(t, file, "x.parquet", mapping)
	want := []float32{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}
	if got := datatest.All(t, s, 0).X[:12]; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	path := datatest.Put(t, t.TempDir(), "x.parquet", []byte(file))
	p, err := Propose(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Table.Shape, []int{3, 2, 2}) || p.Table.Channels != "last" {
		t.Errorf("shape %v, channels %q are proposed, want [3 2 2], last", p.Table.Shape, p.Table.Channels)
	}
}

// TestPropose_FloatTargetIsRegression has a target of whole numbers that are written with a point, as
// pandas writes a column of floats, and a few classes that are.
func TestPropose_FloatTargetIsRegression(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("a,target\n")
	for i := range 200 {
		fmt.Fprintf(&rows, "%d.5,%d.0\n", i, 25+i*37%60)
	}
	p, err := Propose(datatest.Put(t, t.TempDir(), "x.csv", []byte(rows.String())), "")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Table.Target, []string{"target"}) || p.Table.Label != "" {
		t.Errorf("label %q and target %q are proposed, want a target", p.Table.Label, p.Table.Target)
	}
	few := "a,target\n" + strings.Repeat("0.5,0.0\n1.5,1.0\n2.5,2.0\n", 20)
	p, err = Propose(datatest.Put(t, t.TempDir(), "x.csv", []byte(few)), "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Table.Label != "target" {
		t.Errorf("label %q and target %q are proposed, want a label of three classes", p.Table.Label, p.Table.Target)
	}
}

type imageRow struct {
	Client string `parquet:"client"`
	Image  []byte `parquet:"image"`
	Label  int32  `parquet:"label"`
}

// openImages opens ten rows that all have one image.
func openImages(t *testing.T, encoded []byte) ([]float32, [3]int, error) {
	t.Helper()
	var rows []imageRow
	for i := range 10 {
		rows = append(rows, imageRow{Client: "a", Image: encoded, Label: int32(i % 2)})
	}
	s, err := openMapped(t, string(datatest.Parquet(t, rows, parquet.Compression(&parquet.Snappy))), "x.parquet",
		Table{Client: "client", Features: []string{"image"}, Label: "label"})
	if err != nil {
		return nil, [3]int{}, err
	}
	info := s.Info()
	return datatest.All(t, s, 0).X[:info.Features], info.Image, nil
}

func encodedPNG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImages_TransparencyChangesNoColour(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	m.SetNRGBA(0, 0, color.NRGBA{R: 200, G: 100, B: 50, A: 128})
	x, shape, err := openImages(t, encodedPNG(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{200. / 255, 100. / 255, 50. / 255}; !slices.Equal(x, want) || shape != [3]int{3, 1, 1} {
		t.Errorf("%v of shape %v, want %v", x, shape, want)
	}
}

func TestImages_SixteenBitsAreRefused(t *testing.T) {
	m := image.NewGray16(image.Rect(0, 0, 2, 2))
	m.SetGray16(0, 0, color.Gray16{Y: 0x1234})
	if _, _, err := openImages(t, encodedPNG(t, m)); err == nil || !strings.Contains(err.Error(), "16 bits") {
		t.Errorf("%v, want an error about 16 bits", err)
	}
}

func TestImages_JPEGIsRead(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range m.Pix {
		m.Pix[i] = 100
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	x, shape, err := openImages(t, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if shape != [3]int{1, 8, 8} || math.Abs(float64(x[0])*255-100) > 1 {
		t.Errorf("%v of shape %v, want grey of 100", x[0]*255, shape)
	}
}

func TestImages_OtherKindsAreRefused(t *testing.T) {
	for name, head := range map[string]string{
		"BMP":  "BM\x40\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00",
		"TIFF": "II*\x00",
		"WebP": "RIFF\x38\x00\x00\x00WEBPVP8 ",
	} {
		t.Run(name, func(t *testing.T) {
			encoded := append([]byte(head), make([]byte, 64-len(head))...)
			if _, _, err := openImages(t, encoded); err == nil || !strings.Contains(err.Error(), "a "+name+" image") {
				t.Errorf("%v, want an error that names %s", err, name)
			}
		})
	}
}

// TestNames_OfSeveralWriters has the same classes and clients as numpy's savetxt, pandas, DuckDB and R write
// them, and names that only look so.
func TestNames_OfSeveralWriters(t *testing.T) {
	for name, c := range map[string]struct {
		clients, labels []string
		want            []string
		wantClients     int
	}{
		"floats": {
			[]string{"2.000000000000000000e+00", "2", "2.0", "1e+01"},
			[]string{"0.000000000000000000e+00", "1.000000000000000000e+00", "1", "-0.0e+00"},
			[]string{"0", "1"},
			2,
		},
		"booleans":         {[]string{"a"}, []string{"True", "false", "TRUE", "False"}, []string{"false", "true"}, 1},
		"both spellings":   {[]string{"a"}, []string{"True", "0", "1", "FALSE"}, []string{"0", "1"}, 1},
		"truths and more":  {[]string{"a"}, []string{"True", "0", "1", "2"}, []string{"0", "1", "2", "true"}, 1},
		"hashes":           {[]string{"1e3", "1000", "12e4", "120000"}, []string{"0", "1"}, []string{"0", "1"}, 4},
		"fractions":        {[]string{"1.5e+00", "1"}, []string{"0", "1"}, []string{"0", "1"}, 2},
		"beyond float64":   {[]string{"9.007199254740993e+15", "9.007199254740992e+15"}, []string{"0", "1"}, []string{"0", "1"}, 2},
		"no number at all": {[]string{"e+0", "1.e+0", "--1e+0", "1e+"}, []string{"0", "1"}, []string{"0", "1"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			rows := "c,x,y\n"
			for i := range 16 {
				rows += fmt.Sprintf("%s,%d,%s\n", c.clients[i%len(c.clients)], i, c.labels[i%len(c.labels)])
			}
			s := mustOpenMapped(t, rows, "rows.csv", Table{Client: "c", Features: []string{"x"}, Label: "y"})
			labels := s.Info().Labels
			if labels == nil {
				for i := range s.Info().Classes {
					labels = append(labels, fmt.Sprint(i))
				}
			}
			if s.Clients() != c.wantClients || !slices.Equal(labels, c.want) {
				t.Errorf("%d clients and classes %q, want %d and %q", s.Clients(), labels, c.wantClients, c.want)
			}
		})
	}
}

// TestNames_LikeMissing has R's NA among words, which is a class and a client there, and says so.
func TestNames_LikeMissing(t *testing.T) {
	rows := "c,x,y\n" + strings.Repeat("ann,1,oak\nNA,2,elm\nbob,3,NA\nann,4,none\n", 5)
	note := mustOpenMapped(t, rows, "rows.csv", Table{Client: "c", Features: []string{"x"}, Label: "y"}).Info().Warnings
	for _, want := range []string{`column y: "NA" is a class`, `column c: "NA" is a client`} {
		if !strings.Contains(fmt.Sprint(note), want) {
			t.Errorf("%q lacks %q", note, want)
		}
	}
	listed := Table{Features: []string{"x"}, Label: "y", Classes: []string{"NA", "elm", "none", "oak"}}
	if note := mustOpenMapped(t, rows, "rows.csv", listed).Info().Warnings; len(note) != 0 {
		t.Errorf("%q about classes that are listed", note)
	}
}

// TestFeatures_OneNumberIsNoList has single features that are no lists: thousands with blanks, as in French,
// and negative numbers of accountants. Lists that look alike are read.
func TestFeatures_OneNumberIsNoList(t *testing.T) {
	for name, c := range map[string]struct {
		values [2]string
		want   string
		width  int
	}{
		"thousands":      {[2]string{"1 250", "2 050"}, `"2 050" has blanks between thousands`, 0},
		"millions":       {[2]string{"1 000 250", "2 050 375"}, `"1 000 250" has blanks between thousands`, 0},
		"accountants":    {[2]string{"5", "(5)"}, `"(5)" may be a negative number`, 0},
		"padded":         {[2]string{"255 000", "010 128"}, "", 2},
		"pixels":         {[2]string{"5 128", "12 255"}, "", 2},
		"small numbers":  {[2]string{"1 0", "2 5"}, "", 2},
		"tuples":         {[2]string{"(1; 0)", "(2; 5)"}, "", 2},
		"tuples of one":  {[2]string{"[5]", "[6]"}, "", 1},
		"four of digits": {[2]string{"1 0250", "2 0375"}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			rows := "c,x,y\n" + strings.Repeat(fmt.Sprintf("a,%s,0\na,%s,1\n", c.values[0], c.values[1]), 8)
			s, err := openMapped(t, rows, "rows.csv", Table{Client: "c", Features: []string{"x"}, Label: "y"})
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			case err != nil:
				t.Error(err)
			case s.Info().Features != c.width:
				t.Errorf("%d features, want %d", s.Info().Features, c.width)
			}
		})
	}
}

// TestFeatures_RoundingIsTold has two features from 2^24 on, where float32 knows even numbers alone: of the
// numbers 0 to 9 above it every second is off by 1, and their deviation is sqrt((10^2-1)/12) = 2.87.
func TestFeatures_RoundingIsTold(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("c,x,z,y\n")
	for i := range 40 {
		fmt.Fprintf(&rows, "a,%d,%d,%d\n", 1<<24+i%10, i%10, i%2)
	}
	mapping := Table{Client: "c", Features: []string{"x", "z"}, Label: "y"}
	const want = "features x are rounded to float32, by up to 0.35 of a deviation"
	if got := fmt.Sprint(mustOpenMapped(t, rows.String(), "rows.csv", mapping).Info().Warnings); !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	alone := Table{Client: "c", Features: []string{"x"}, Label: "y"}
	// Its first number, which is exact, is not looked at, so that the deviation is that of 39 numbers.
	if got := fmt.Sprint(mustOpenMapped(t, rows.String(), "rows.csv", alone).Info().Warnings); !strings.Contains(got, "features x are") {
		t.Errorf("alone: %q", got)
	}
	mapping.Scale = "standard"
	if got := mustOpenMapped(t, rows.String(), "rows.csv", mapping).Info().Warnings; len(got) != 0 {
		t.Errorf("%q, though they are scaled first", got)
	}
	equal := "c,x,z,y\n" + strings.Repeat("a,0.1,16777217,0\n", 20)
	mapping.Scale = ""
	if got := mustOpenMapped(t, equal, "rows.csv", mapping).Info().Warnings; len(got) != 0 {
		t.Errorf("%q, though all are equal", got)
	}
}

// TestFeatures_WholeNumbersBeyondFloat64 has whole numbers from 2^63 on, where float64 knows multiples of 2,048
// alone, in columns of their own, as the only feature, in a list and as a target. The numbers 1 to 9 times
// 1,000 above it are off by up to 952, and their deviation is 1000 sqrt((9^2-1)/12) = 2,582.
func TestFeatures_WholeNumbersBeyondFloat64(t *testing.T) {
	type row struct {
		Client string   `parquet:"c"`
		X      uint64   `parquet:"x"`
		Z      int32    `parquet:"z"`
		List   []uint64 `parquet:"list,list"`
		Y      int32    `parquet:"y"`
	}
	var rows []row
	text := "c,x,z,y\n"
	for i := range 45 {
		x := 1<<63 + 1000*uint64(1+i%9)
		rows = append(rows, row{"a", x, int32(i % 9), []uint64{uint64(i), x}, int32(i % 2)})
		text += fmt.Sprintf("a,%d,%d,%d\n", x, i%9, i%2)
	}
	file := string(datatest.Parquet(t, rows))
	// Without the first row, whose width nobody knew before, the deviation is 1.6 % smaller.
	const want = "are rounded to float64, by up to 0.3"
	for _, c := range []struct {
		features []string
		want     string
	}{
		{[]string{"x", "z"}, "features x " + want},
		{[]string{"x"}, "features x " + want},
		{[]string{"list"}, "features list " + want},
		{[]string{"z"}, "[]"},
	} {
		mapping := Table{Client: "c", Features: c.features, Label: "y", Scale: "standard"}
		if got := fmt.Sprint(mustOpenMapped(t, file, "own.parquet", mapping).Info().Warnings); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.features, got, c.want)
		}
		if c.features[0] == "list" {
			continue
		}
		if got := fmt.Sprint(mustOpenMapped(t, text, "own.csv", mapping).Info().Warnings); !strings.Contains(got, c.want) {
			t.Errorf("CSV, %v: %q, want %q", c.features, got, c.want)
		}
	}
	target := Table{Client: "c", Features: []string{"z"}, Target: []string{"x"}, TargetScale: "standard"}
	const wantTarget = "target x is rounded to float64, by up to 0.37 of its deviation"
	if got := fmt.Sprint(mustOpenMapped(t, file, "own.parquet", target).Info().Warnings); !strings.Contains(got, wantTarget) {
		t.Errorf("%q, want %q", got, wantTarget)
	}
	// Without a scale, numbers of a list are rounded to float32.
	list := Table{Client: "c", Features: []string{"list"}, Label: "y"}
	if got := fmt.Sprint(mustOpenMapped(t, file, "own.parquet", list).Info().Warnings); !strings.Contains(got, "features list are rounded to float32") {
		t.Errorf("%q", got)
	}
}

// TestFeatures_RoundingBesideMissing has a missing value in the only feature, whose rounding is told all the
// same.
func TestFeatures_RoundingBesideMissing(t *testing.T) {
	text := "c,x,y\n"
	for i := range 40 {
		text += fmt.Sprintf("a,%d,%d\n", 1<<24+i%10, i%2)
	}
	text += "a,,1\n"
	for _, missing := range []string{"drop", "mean"} {
		mapping := Table{Client: "c", Features: []string{"x"}, Label: "y", Missing: missing}
		if got := fmt.Sprint(mustOpenMapped(t, text, "own.csv", mapping).Info().Warnings); !strings.Contains(got, "features x are rounded to float32") {
			t.Errorf("%s: %q", missing, got)
		}
	}
}

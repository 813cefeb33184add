package data

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/text"
)

// cifarSheets reads img (a PNG in a struct), fine_label and coarse_label.
func cifarSheets(train, test *sheet, opt federated.Options) (*federated.Grouped, error) {
	if len(test.tables) == 0 {
		return nil, errors.New("no test file beside the training file; want a folder with train*.parquet and test*.parquet")
	}
	var parts [2][]byte
	for i, t := range []*sheet{train, test} {
		starts, err := t.rows(federated.CIFARRecord)
		if err != nil {
			return nil, err
		}
		total := starts[len(starts)-1]
		if total > federated.MaxCIFAR {
			return nil, fmt.Errorf("%d images, want at most %d", total, federated.MaxCIFAR)
		}
		parts[i] = make([]byte, total*federated.CIFARRecord)
		err = t.each(func(g int) error {
			n := starts[g+1] - starts[g]
			fine, coarse, records := make([]int32, n), make([]int32, n), make([][]byte, n)
			if err := t.labels(g, "fine_label", fine, federated.CIFARClasses); err != nil {
				return err
			}
			if err := t.labels(g, "coarse_label", coarse, federated.CIFARCoarse); err != nil {
				return err
			}
			for j := range records {
				at := (starts[g] + j) * federated.CIFARRecord
				records[j] = parts[i][at : at+federated.CIFARRecord]
				records[j][0], records[j][1] = byte(coarse[j]), byte(fine[j])
			}
			return column(t, g, "img", records, func(v parquet.Value, dst *[]byte) error {
				b, err := content(v)
				if err != nil {
					return err
				}
				return colours((*dst)[2:], b)
			})
		})
		if err != nil {
			return nil, err
		}
	}
	s, err := NewCIFAR(parts, opt)
	if err != nil {
		return nil, err
	}
	s.About.Name = "cifar100 (parquet)"
	return s, nil
}

// colours decodes a 32x32 PNG to bytes, colour by colour.
func colours(dst, encoded []byte) error {
	m, err := picture(encoded, federated.CIFARSide)
	if err != nil {
		return err
	}
	for i := range federated.CIFARPlane {
		r, g, b, _ := m.At(i%federated.CIFARSide, i/federated.CIFARSide).RGBA()
		dst[i], dst[federated.CIFARPlane+i], dst[2*federated.CIFARPlane+i] = uint8(r>>8), uint8(g>>8), uint8(b>>8)
	}
	return nil
}

// shakespeare reads LEAF's windows: character_id, x of 80 characters, y of one.
// The windows of a role are split in sequence, as those of the text are.
func (t *sheet) shakespeare() (*federated.Grouped, error) {
	starts, err := t.rows(federated.ShakespeareWindow)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, "character_id")
	if err != nil {
		return nil, err
	}
	total := starts[len(starts)-1]
	s := federated.Grouped{Task: "shakespeare", Labels: make([]int32, total), About: federated.ShakespeareInfo}
	tokens := make([]uint8, total*federated.ShakespeareWindow)
	s.Rows = &federated.TokenRows{Width: federated.ShakespeareWindow, Tokens: tokens}
	s.About.Name = "shakespeare (parquet)"
	index := func(dst []uint8, v parquet.Value) error {
		b, err := content(v)
		if err != nil {
			return err
		}
		if len(b) != len(dst) {
			return fmt.Errorf("a string of %d characters, want %d", len(b), len(dst))
		}
		for i, c := range b {
			if dst[i] = federated.ShakespeareIndex[c]; dst[i] == 0xff {
				return fmt.Errorf("character %q is not in the vocabulary", c)
			}
		}
		return nil
	}
	err = t.each(func(g int) error {
		row := starts[g]
		err := column(t, g, "y", s.Labels[starts[g]:starts[g+1]], func(v parquet.Value, dst *int32) error {
			var c [1]uint8
			err := index(c[:], v)
			*dst = int32(c[0])
			return err
		})
		if err != nil {
			return err
		}
		return column(t, g, "x", make([]struct{}, starts[g+1]-starts[g]), func(v parquet.Value, _ *struct{}) error {
			row++
			return index(tokens[(row-1)*federated.ShakespeareWindow:row*federated.ShakespeareWindow], v)
		})
	})
	if err != nil {
		return nil, err
	}
	g := new(federated.Grouping)
	for c, name := range names {
		train, held := text.InSequence(len(of[c]))
		if held < 1 {
			g.Without++
			continue
		}
		g.Add(name, of[c][:train], of[c][len(of[c])-held:])
	}
	return g.Set(s)
}

// sent140 reads sentiment (0 or 4, or 0 and 1), user and text.
func (t *sheet) sent140(opt federated.Options) (*federated.Grouped, error) {
	starts, err := t.rows(1)
	if err != nil {
		return nil, err
	}
	names, of, err := t.clients(starts, "user")
	if err != nil {
		return nil, err
	}
	owner := make([]string, starts[len(starts)-1])
	for u, rows := range of {
		for _, i := range rows {
			owner[i] = names[u]
		}
	}
	tweets := text.NewTweets()
	for g := range t.groups { // in order, for users in order of first appearance
		labels := make([]int32, starts[g+1]-starts[g])
		if err := column(t, g, "sentiment", labels, polarity); err != nil {
			return nil, err
		}
		row := 0
		err := column(t, g, "text", labels, func(v parquet.Value, label *int32) error {
			b, err := content(v)
			if err != nil {
				return err
			}
			row++
			return tweets.Add(owner[starts[g]+row-1], string(b), *label)
		})
		if err != nil {
			return nil, err
		}
	}
	s, err := tweets.Set(opt)
	if err != nil {
		return nil, err
	}
	s.About.Name = "sent140 (parquet)"
	return s, nil
}

func polarity(v parquet.Value, dst *int32) error {
	switch l, ok := integer(v); {
	case ok && l == 0:
		*dst = 0
	case ok && (l == 1 || l == 4):
		*dst = 1
	default:
		return fmt.Errorf("sentiment %.40v, want 0 or 4", v)
	}
	return nil
}

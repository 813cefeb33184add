package table

import (
	"encoding/json"
	"fmt"
	"slices"
)

// huggingFace is the part of Hugging Face's metadata that names the classes of a ClassLabel column.
// It is JSON, and a Parquet file holds it under the key "huggingface".
type huggingFace struct {
	Info struct {
		Features map[string]struct {
			Type  string   `json:"_type"`
			Names []string `json:"names"`
		} `json:"features"`
	} `json:"info"`
}

// namedClasses returns the names of the classes of a column by their numbers, as Hugging Face's
// datasets stores them for a ClassLabel in the metadata of Parquet files. It returns nil if a file
// is no Parquet file or has no such names, or if they could not be the names of a label. Where one
// file names more classes than another, the longer list counts. It is an error if a number is one
// class in a file and another in the next: the rows of both would be of one class.
func namedClasses(files []tableFile, column string) (classes []string, err error) {
	// source is the file that classes are from.
	source := ""
	for _, f := range files {
		// Columns that the folders give say nothing of the metadata of the file within.
		if p, ok := f.(*placedTable); ok {
			f = p.tableFile
		}
		p, ok := f.(*parquetTable)
		if !ok {
			return nil, nil
		}
		var noted huggingFace
		// Metadata that is none of Hugging Face's names no classes.
		if json.Unmarshal([]byte(p.Files[0].Metadata("huggingface")), &noted) != nil {
			return nil, nil
		}
		feature := noted.Info.Features[column]
		isUsable := feature.Type == "ClassLabel" && len(feature.Names) > 0 && areClassNames(feature.Names)
		if !isUsable {
			return nil, nil
		}
		for i := range min(len(classes), len(feature.Names)) {
			if classes[i] != feature.Names[i] {
				return nil, fmt.Errorf(
					"column %s: class %d is %q in %s and %q in %s (cast_column(%q, ClassLabel(names=[...])) of "+
						"Hugging Face's datasets gives them the same numbers)",
					column,
					i,
					classes[i],
					source,
					feature.Names[i],
					p.nameInFolder,
					column,
				)
			}
		}
		if len(feature.Names) > len(classes) {
			classes = feature.Names
			source = p.nameInFolder
		}
	}
	return classes, nil
}

// areClassNames reports whether names can be the names of classes: none is empty or longer than
// maxClassName bytes, and no two are equal.
func areClassNames(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name == "" || len(name) > maxClassName })
}

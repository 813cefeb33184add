package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"fedpace/internal/atomicfile"
)

func main() {
	for _, binary := range os.Args[1:] {
		if err := describe(binary); err != nil {
			fmt.Fprintln(os.Stderr, "sbom:", err)
			os.Exit(1)
		}
	}
}

// describe writes BINARY.cdx.json.
func describe(binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	b, err := bill(filepath.Base(binary), info)
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	return atomicfile.Write(binary+".cdx.json", func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(
			b,
			cyclonedx.SpecVersion1_6,
		)
	})
}

// bill is the document of a binary. It has neither a time nor a number of its own.
func bill(name string, info *debug.BuildInfo) (*cyclonedx.BOM, error) {
	b := cyclonedx.NewBOM()
	main := module(info.Main.Path, info.Main.Version)
	main.Type = cyclonedx.ComponentTypeApplication
	main.Name = name
	b.Metadata = &cyclonedx.Metadata{Component: &main}
	list := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		c := module(d.Path, d.Version)
		sum, ok := strings.CutPrefix(d.Sum, "h1:") // of the module's files, by go.sum
		hash, err := base64.StdEncoding.DecodeString(sum)
		if !ok || err != nil {
			return nil, errors.Join(fmt.Errorf("module %s has the sum %q", d.Path, d.Sum), err)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y cyclonedx.Component) int { return cmp.Compare(x.PackageURL, y.PackageURL) })
	needs := make([]string, len(list))
	for i := range list {
		needs[i] = list[i].BOMRef
	}
	b.Components = &list
	b.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return b, nil
}

// module is one as package URLs name it (purl-spec, type golang).
func module(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{
		Type:       cyclonedx.ComponentTypeLibrary,
		Name:       path,
		Version:    version,
		PackageURL: url,
		BOMRef:     url,
	}
}

package mlflow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"fedpace/internal/atomicfile"
	"fedpace/metrics"
)

// The states of a run, as MLflow's RunStatus numbers them.
const (
	running  = 1
	finished = 3
	failed   = 4
	killed   = 5
)

const (
	metaFile = "meta.yaml"
	active   = "active"
	local    = 4 // MLflow's SourceType for a process on this machine
	longest  = 6000
)

// experimentMeta is an experiment's meta.yaml. Times are milliseconds since 1970.
type experimentMeta struct {
	ArtifactLocation string `yaml:"artifact_location"`
	CreationTime     int64  `yaml:"creation_time"`
	ID               string `yaml:"experiment_id"`
	LastUpdateTime   int64  `yaml:"last_update_time"`
	LifecycleStage   string `yaml:"lifecycle_stage"`
	Name             string `yaml:"name"`
}

// runMeta is a run's meta.yaml, with the keys that earlier versions of MLflow read.
type runMeta struct {
	ArtifactURI    string   `yaml:"artifact_uri"`
	EndTime        *int64   `yaml:"end_time"`
	EntryPoint     string   `yaml:"entry_point_name"`
	ExperimentID   string   `yaml:"experiment_id"`
	LifecycleStage string   `yaml:"lifecycle_stage"`
	ID             string   `yaml:"run_id"`
	Name           string   `yaml:"run_name"`
	UUID           string   `yaml:"run_uuid"`
	SourceName     string   `yaml:"source_name"`
	SourceType     int      `yaml:"source_type"`
	SourceVersion  string   `yaml:"source_version"`
	StartTime      int64    `yaml:"start_time"`
	Status         int      `yaml:"status"`
	Tags           []string `yaml:"tags"`
	UserID         string   `yaml:"user_id"`
}

// entry is one run in a store.
type entry struct {
	dir    string // of the run in the store
	folder string // of the run, absolute
	start  time.Time
	meta   runMeta
}

// newEntry makes the run's entry, and its experiment's if there is none. What stood there of the
// same folder is removed.
func newEntry(s Sink, run *metrics.Run, folder string, start time.Time) (*entry, error) {
	store, err := filepath.Abs(s.Store)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	experiment, err := findExperiment(store, s.Experiment, start)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.Store, err)
	}
	id := sha256.Sum256([]byte(folder))
	e := &entry{folder: folder, start: start, meta: runMeta{
		ExperimentID: experiment, LifecycleStage: active, ID: hex.EncodeToString(id[:16]), Name: run.Name,
		SourceName: "fedpace", SourceType: local, SourceVersion: run.Version, StartTime: start.UnixMilli(), Status: running, Tags: []string{},
	}}
	e.dir = filepath.Join(store, experiment, e.meta.ID)
	e.meta.UUID, e.meta.ArtifactURI = e.meta.ID, uri(filepath.Join(e.dir, "artifacts"))
	if err := os.RemoveAll(e.dir); err != nil {
		return nil, fmt.Errorf("store %s: %w", s.Store, err)
	}
	for _, part := range []string{"artifacts", "metrics", "params", "tags"} {
		if err := os.MkdirAll(filepath.Join(e.dir, part), 0o755); err != nil {
			return nil, fmt.Errorf("store %s: %w", s.Store, err)
		}
	}
	return e, writeMeta(e.dir, e.meta)
}

// findExperiment returns the id of the experiment of a name. MLflow draws ids; where the store has
// none of the name, it is made with one that follows from the name, so that runs that begin at the
// same time agree.
func findExperiment(store, name string, now time.Time) (id string, err error) {
	list, err := filepath.Glob(filepath.Join(escape(store), "*", metaFile))
	if err != nil {
		return "", err
	}
	for _, path := range list {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		var meta experimentMeta
		if err := yaml.Unmarshal(text, &meta); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if meta.Name == name && meta.LifecycleStage == active {
			return filepath.Base(filepath.Dir(path)), nil
		}
	}
	sum := sha256.Sum256([]byte(name))
	id = strconv.FormatUint(1e17+binary.LittleEndian.Uint64(sum[:])%9e17, 10) // 18 digits, as MLflow's
	dir := filepath.Join(store, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return id, writeMeta(dir, experimentMeta{
		ArtifactLocation: uri(dir), CreationTime: now.UnixMilli(), ID: id, LastUpdateTime: now.UnixMilli(), LifecycleStage: active, Name: name,
	})
}

// escape makes a pattern of a path that stands for itself alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func uri(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func writeMeta(dir string, meta any) error {
	text, err := yaml.Marshal(meta)
	if err != nil {
		return fmt.Errorf("%s: %w", metaFile, err)
	}
	return atomicfile.Write(filepath.Join(dir, metaFile), func(w io.Writer) error { _, err := w.Write(text); return err })
}

// create makes the file of a metric, a parameter or a tag.
func (e *entry) create(kind, name string) (*os.File, error) {
	path := filepath.Join(e.dir, kind, filepath.FromSlash(clean(name)))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// clean puts "_" in the place of what MLflow refuses in names: all but letters, digits, "_", "-",
// ".", space and "/", which makes folders and may not lead out of them.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("_-. /", r)) {
			return r
		}
		return '_'
	}, name)
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == "" || part == "." || part == ".." {
			parts[i] = strings.Repeat("_", max(1, len(part)))
		}
	}
	return strings.Join(parts, "/")
}

// describe writes the parameters and tags of a run with this configuration.
func (e *entry) describe(config []byte) error {
	var tree yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(config, &tree, yaml.UseOrderedMap()); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	if err := e.params("", tree); err != nil {
		return err
	}
	for _, tag := range [][2]string{
		{"mlflow.runName", e.meta.Name}, {"mlflow.source.name", e.meta.SourceName}, {"mlflow.source.type", "LOCAL"}, {"fedpace.folder", e.folder},
	} {
		if err := e.write("tags", tag[0], tag[1]); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(e.dir, "artifacts", configFile), config, 0o644)
}

// params writes the keys of a mapping, those of mappings in it with a dot between them. A list is
// one parameter.
func (e *entry) params(prefix string, tree yaml.MapSlice) error {
	for _, item := range tree {
		key := prefix + fmt.Sprint(item.Key)
		if inner, ok := item.Value.(yaml.MapSlice); ok {
			if err := e.params(key+".", inner); err != nil {
				return err
			}
			continue
		}
		text, err := yaml.MarshalWithOptions(item.Value, yaml.Flow(true))
		if err != nil {
			return fmt.Errorf("%s: %s: %w", configFile, key, err)
		}
		value := strings.TrimSpace(string(text))
		if s, ok := item.Value.(string); ok {
			value = s
		}
		if err := e.write("params", key, value); err != nil {
			return err
		}
	}
	return nil
}

// write writes a parameter or a tag, whose file holds the value and nothing else. MLflow takes
// values of up to 6,000 characters; a longer one is cut.
func (e *entry) write(kind, name, value string) error {
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest-len("…")], "") + "…"
	}
	f, err := e.create(kind, name)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(value); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// end notes how the run ended.
func (e *entry) end(status int, elapsed time.Duration, summary []byte) error {
	at := e.start.Add(elapsed).UnixMilli()
	e.meta.Status, e.meta.EndTime = status, &at
	return errors.Join(os.WriteFile(filepath.Join(e.dir, "artifacts", "summary.json"), summary, 0o644), writeMeta(e.dir, e.meta))
}

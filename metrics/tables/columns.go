package tables

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Round is a row of rounds.parquet.
type Round struct {
	Round              int32    `parquet:"round" about:"number of the round, from 1"`
	StartSeconds       float64  `parquet:"start_seconds" about:"virtual time of its first task; rounds that overlap: of the close before" unit:"s"`
	VirtualSeconds     float64  `parquet:"virtual_seconds" about:"virtual time at its close" unit:"s"`
	RoundSeconds       float64  `parquet:"round_seconds" about:"its virtual duration" unit:"s"`
	LocalSteps         int32    `parquet:"local_steps" about:"local SGD steps a client, K_r" unit:"steps"`
	LearningRate       float64  `parquet:"learning_rate" about:"eta_r"`
	Cohort             int32    `parquet:"cohort" about:"tasks that ended in it" unit:"tasks"`
	Accepted           int32    `parquet:"accepted" about:"tasks whose update counts" unit:"tasks"`
	Late               int32    `parquet:"late" about:"tasks that would have ended after the deadline, or from too old a model" unit:"tasks"`
	Dropped            int32    `parquet:"dropped" about:"tasks whose client left" unit:"tasks"`
	Lost               int32    `parquet:"lost" about:"tasks of devices that fell silent" unit:"tasks"`
	Cancelled          int32    `parquet:"cancelled" about:"tasks that the close made needless" unit:"tasks"`
	Refused            int32    `parquet:"refused" about:"tasks whose update was not valid" unit:"tasks"`
	TrainingLoss       *float64 `parquet:"training_loss,optional" about:"mean first-step loss of the accepted clients"`
	ValidationLoss     *float64 `parquet:"validation_loss,optional" about:"mean cross-entropy on held-out samples"`
	ValidationAccuracy *float64 `parquet:"validation_accuracy,optional" about:"top-1 accuracy on held-out samples, 0 to 1"`
	SGDSteps           int64    `parquet:"sgd_steps" about:"sum of K_r up to here" unit:"steps"`
}

// Client is a row of clients.parquet. Useful is what went into updates that
// count, and wasted all else.
type Client struct {
	Client int32  `parquet:"client" about:"number of the client, from 0"`
	Class  string `parquet:"class,dict" about:"class of its device; empty where all are alike"`
	Real   bool   `parquet:"real" about:"whether it is a real device"`

	Tasks      int32 `parquet:"tasks" about:"tasks that ended" unit:"tasks"`
	Accepted   int32 `parquet:"accepted" about:"tasks whose update counts" unit:"tasks"`
	Late       int32 `parquet:"late" about:"tasks that would have ended after the deadline, or from too old a model" unit:"tasks"`
	Dropped    int32 `parquet:"dropped" about:"tasks that it left" unit:"tasks"`
	Lost       int32 `parquet:"lost" about:"tasks in which it fell silent" unit:"tasks"`
	Cancelled  int32 `parquet:"cancelled" about:"tasks that a round's close or the run's end made needless" unit:"tasks"`
	Refused    int32 `parquet:"refused" about:"tasks whose update was not valid" unit:"tasks"`
	Candidates int32 `parquet:"candidates" about:"times that it was asked for its loss" unit:"times"`

	StepsUseful int64 `parquet:"steps_useful" about:"local SGD steps in updates that count" unit:"steps"`
	StepsWasted int64 `parquet:"steps_wasted" about:"local SGD steps in vain" unit:"steps"`

	DownloadUseful float64 `parquet:"download_seconds_useful" about:"virtual time of downloads for updates that count" unit:"s"`
	DownloadWasted float64 `parquet:"download_seconds_wasted" about:"virtual time of downloads in vain" unit:"s"`
	ComputeUseful  float64 `parquet:"compute_seconds_useful" about:"virtual time of local steps in updates that count" unit:"s"`
	ComputeWasted  float64 `parquet:"compute_seconds_wasted" about:"virtual time of local steps in vain" unit:"s"`
	UploadUseful   float64 `parquet:"upload_seconds_useful" about:"virtual time of uploads that count" unit:"s"`
	UploadWasted   float64 `parquet:"upload_seconds_wasted" about:"virtual time of uploads in vain" unit:"s"`
	WaitingUseful  float64 `parquet:"waiting_seconds_useful" about:"virtual time of tasks that count in no known phase" unit:"s"`
	WaitingWasted  float64 `parquet:"waiting_seconds_wasted" about:"virtual time in vain in no known phase: silence" unit:"s"`
}

// about is a column in the metadata.
type about struct {
	Meaning string `json:"meaning"`
	Unit    string `json:"unit,omitempty"`
}

// columns is the metadata's JSON for a row's type.
func columns[T any]() string {
	list := map[string]about{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		list[name] = about{f.Tag.Get("about"), f.Tag.Get("unit")}
	}
	text, err := json.Marshal(list) // sorts by name
	if err != nil {
		panic("tables: a map of strings has no JSON")
	}
	return string(text)
}

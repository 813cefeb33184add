// Package mlflow is the output that writes a run into MLflow's file store, so that
//
//	mlflow ui --backend-store-uri mlruns
//
// shows it beside others. Any number of runs, one after another or at once, go to one store.
//
//	STORE/EXPERIMENT/meta.yaml            name and id of the experiment
//	STORE/EXPERIMENT/RUN/meta.yaml        the run's name, state, start and end in wall time
//	STORE/EXPERIMENT/RUN/metrics/NAME     a line a round: "milliseconds value round"
//	STORE/EXPERIMENT/RUN/params/KEY       each key of config.yaml, as in schedule.k.rule
//	STORE/EXPERIMENT/RUN/tags/NAME        where the run's folder is, and what MLflow itself asks for
//	STORE/EXPERIMENT/RUN/artifacts/       config.yaml and summary.json
//
// Metrics are those of [fedpace/metrics.Run.Scalars]; loss/training is the file metrics/loss/training,
// as MLflow has it. The time of a value is when the run started plus virtual time, so MLflow's axis
// "relative" is virtual time.
//
// The id of a run follows from the path of its folder, and that of an experiment from its name. A
// run that starts in the same folder takes the place of the one before; one that is resumed writes
// its lines again from rounds.csv, so it does not matter where it was killed. Between checkpoints
// lines wait in memory.
package mlflow

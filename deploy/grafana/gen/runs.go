package main

// each names a series by its run.
const each = "{{run}} {{schedule}}"

// runsOverview is all runs side by side.
func runsOverview() Dashboard {
	byRun := func(expr string) string { return "max by (run, schedule, task) (" + expr + ")" }
	return dashboard("fedpace-runs", "fedpace: runs", "All runs that Prometheus scrapes, side by side.", nil,
		row{height: 9, panels: []Panel{
			table("Runs", "The runs that go on now. A run's name leads to its own page.", []column{
				{"progress", "percentunit", byRun("fedpace_progress_ratio")},
				{"rounds", "none", byRun("fedpace_round")},
				{"virtual time", "s", byRun("fedpace_virtual_time_seconds")},
				{"K_r", "none", byRun("fedpace_local_steps")},
				{"training loss", "none", byRun("fedpace_training_loss")},
				{"accuracy", "percentunit", byRun("fedpace_validation_accuracy")},
				{"rounds a second", "none", byRun(rate("fedpace_round_duration_seconds_count"))},
				{"since its last round", "s", byRun("time() - fedpace_last_round_time_seconds")},
			}),
		}},
		row{title: "Learning", height: 8, panels: []Panel{
			series("Training loss", "Mean first-step loss of the accepted clients, against wall time. Each run's page has it against virtual time and rounds.", "none",
				query("fedpace_training_loss", each)),
			between(0, 1, series("Validation accuracy", "Top-1 accuracy on held-out samples at the last evaluation.", "percentunit",
				query("fedpace_validation_accuracy", each))),
			between(0, 1, series("Progress", "The part of each run that is done.", "percentunit", query("fedpace_progress_ratio", each))),
		}},
		row{title: "Pace", height: 8, panels: []Panel{
			series("Rounds a second", "Rounds completed in a second of wall time.", "none", query(rate("fedpace_round_duration_seconds_count"), each)),
			series("Virtual seconds a second", "How fast the simulated clock goes.", "none", query("deriv(fedpace_virtual_time_seconds[$__rate_interval])", each)),
			series("Mean round", "Virtual duration of a round.", "s",
				query(rate("fedpace_round_duration_seconds_sum")+" / "+rate("fedpace_round_duration_seconds_count"), each)),
		}},
		row{title: "Clients", height: 8, panels: []Panel{
			stacked(series("Tasks by how they end", "Of all runs, a second of wall time.", "none",
				query("sum by (outcome) ("+rate("fedpace_updates_total")+")", "{{outcome}}"))),
			between(0, 1, series("Wasted client time", "Part of the clients' virtual time that went into no model.", "percentunit",
				query(`sum by (run, schedule) (`+rate(`fedpace_client_time_seconds_total{use="wasted"}`)+`) / sum by (run, schedule) (`+rate("fedpace_client_time_seconds_total")+`)`, each))),
			series("Messages lost", "Messages that a slow consumer lost. A run in which one is lost fails.", "none", query("fedpace_bus_dropped_total", each)),
		}},
	)
}

package main

// oneRun is all that is known of one run.
func oneRun() Dashboard {
	virtual := query(of("fedpace_virtual_time_seconds"), "virtual time")
	rounds := query(of("fedpace_round"), "round")
	training := query(of("fedpace_training_loss"), "training loss")
	validation := query(of("fedpace_validation_loss"), "validation loss")
	accuracy := query(of("fedpace_validation_accuracy"), "validation accuracy")
	perRound := func(sum string) string {
		return "(" + sum + ") / on () group_left () sum(" + rate(of("fedpace_round_duration_seconds_count")) + ")"
	}
	return dashboard("fedpace-run", "fedpace: one run", "One run: what it learns, how long its rounds take and why.", theRun,
		row{height: 4, panels: []Panel{
			value("Progress", "", "percentunit", of("fedpace_progress_ratio")),
			value("Rounds completed", "", "none", of("fedpace_round")),
			value("Virtual time", "", "s", of("fedpace_virtual_time_seconds")),
			value("K_r", "Local SGD steps of the last round.", "none", of("fedpace_local_steps")),
			value("Training loss", "", "none", of("fedpace_training_loss")),
			value("Accuracy", "At the last evaluation.", "percentunit", of("fedpace_validation_accuracy")),
			value("SGD steps against fixed", "Against K-eta-fixed in the same virtual time. No data where rounds are not all alike.", "none",
				of("fedpace_sgd_steps_total")+" / "+of("fedpace_fixed_sgd_steps_total")),
			value("Since the last round", "In wall time.", "s", "time() - "+of("fedpace_last_round_time_seconds")),
		}},
		row{title: "Learning, against virtual time and against rounds", height: 9, panels: []Panel{
			against("Loss against virtual time", "What the run has come to after so many virtual seconds. A point for each scrape.", "none", "s", virtual, training, validation),
			against("Accuracy against virtual time", "", "percentunit", "s", virtual, accuracy),
		}},
		row{height: 9, panels: []Panel{
			against("Loss against rounds", "", "none", "none", rounds, training, validation),
			against("Accuracy against rounds", "", "percentunit", "none", rounds, accuracy),
		}},
		row{title: "Schedule", height: 8, panels: []Panel{
			rightAxis("eta_r", series("K_r and eta_r", "Local SGD steps a client, and the learning rate.", "none",
				query(of("fedpace_local_steps"), "K_r"), query(of("fedpace_learning_rate"), "eta_r"))),
			series("SGD steps", "Local steps of one client of each round, and what K-eta-fixed does in the same virtual time where rounds are all alike.", "none",
				query(of("fedpace_sgd_steps_total"), "this schedule"), query(of("fedpace_fixed_sgd_steps_total"), "fixed")),
			against("SGD steps against virtual time", "", "none", "s", virtual, query(of("fedpace_sgd_steps_total"), "this schedule"), query(of("fedpace_fixed_sgd_steps_total"), "fixed")),
		}},
		row{title: "Rounds", height: 8, panels: []Panel{
			stacked(series("A round's slowest client", "Mean phases of the update that came last: what the others waited for.", "s",
				query(perRound("sum by (phase) ("+rate(of("fedpace_slowest_client_seconds_total"))+")"), "{{phase}}"))),
			series("Duration of a round", "Virtual time from its first task to its close.", "s",
				query(rate(of("fedpace_round_duration_seconds_sum"))+" / "+rate(of("fedpace_round_duration_seconds_count")), "mean"),
				query("histogram_quantile(0.5, sum by (le) ("+rate(of("fedpace_round_duration_seconds_bucket"))+"))", "median"),
				query("histogram_quantile(0.95, sum by (le) ("+rate(of("fedpace_round_duration_seconds_bucket"))+"))", "95 %")),
			stacked(series("Tasks by how they end", "A round, on average.", "none",
				query(perRound("sum by (outcome) ("+rate(of("fedpace_updates_total"))+")"), "{{outcome}}"))),
		}},
		row{title: "Transfers and health", height: 8, panels: []Panel{
			series("Models on the links", "Simulated, a virtual second.", "Bps",
				query("sum by (direction) ("+rate(of("fedpace_transfer_bytes_total"))+") / on () group_left () sum(deriv("+of("fedpace_virtual_time_seconds")+"[$__rate_interval]))", "{{direction}}")),
			series("Lag", "Behind the pace that was asked for; and of the bus, from a cohort's tasks to its plans.", "s",
				query(of("fedpace_pacing_lag_seconds"), "pacing"), query(of("fedpace_bus_lag_seconds"), "bus")),
			series("Messages", "That wait for the coordinator, and that did not count.", "none",
				query(of("fedpace_bus_pending_messages"), "waiting"), query(rate(of("fedpace_bus_ignored_total")), "ignored a second"), query(of("fedpace_bus_dropped_total"), "lost")),
		}},
		row{height: 4, panels: []Panel{
			value("Clients", "", "none", "sum("+of("fedpace_actors")+")"),
			value("Losses that are not finite", "Rounds whose loss is infinite or not a number.", "none", of("fedpace_losses_not_finite_total")),
			value("Age of the last checkpoint", "No data before the first.", "s", "time() - "+of("fedpace_last_checkpoint_time_seconds")),
			value("Running for", "In wall time.", "s", "time() - "+of("fedpace_start_time_seconds")),
			{
				Type: "stat", Title: "Version", Datasource: source, Targets: []Target{{RefID: "A", Datasource: source, Expr: of("fedpace_build_info"), LegendFormat: "{{version}}", Instant: true}},
				FieldConfig: &FieldConfig{Overrides: []FieldOverride{}},
				Options:     map[string]any{"textMode": "name", "colorMode": "none", "graphMode": "none"},
			},
		}},
	)
}

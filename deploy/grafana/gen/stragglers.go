package main

// stragglers is why rounds are slow, and what is wasted.
func stragglers() Dashboard {
	phase := func(name string) string { return of("fedpace_client_phase_seconds_bucket", `phase="`+name+`"`) }
	spread := func(name string) Panel {
		return heatmap("Clients: "+name, "Virtual duration of the phase, over the tasks that ended.",
			"sum by (le) (increase("+phase(name)+"[$__rate_interval]))")
	}
	quantile := func(q, name string) string {
		return "histogram_quantile(" + q + ", sum by (le, class) (" + rate(phase(name)) + "))"
	}
	wasted := func(metric string) string {
		return "sum(" + rate(of(metric, `use="wasted"`)) + ") / sum(" + rate(of(metric)) + ")"
	}
	return dashboard("fedpace-stragglers", "fedpace: stragglers", "Who makes rounds slow, in which phase, and what is wasted by it.", theRun,
		row{height: 4, panels: []Panel{
			value("Straggler share", "Mean part of a round between its median client and its slowest. No data where rounds overlap.", "percentunit", of("fedpace_straggler_share")),
			value("Straggling now", "The same over the last minutes.", "percentunit",
				"deriv("+of("fedpace_straggling_seconds_total")+"[5m]) / deriv("+of("fedpace_virtual_time_seconds")+"[5m])"),
			value("Client time wasted", "Since the start.", "percentunit",
				"sum("+of("fedpace_client_time_seconds_total", `use="wasted"`)+") / sum("+of("fedpace_client_time_seconds_total")+")"),
			value("Tasks accepted", "Since the start.", "percentunit",
				"sum("+of("fedpace_updates_total", `outcome="accepted"`)+") / sum("+of("fedpace_updates_total")+")"),
		}},
		row{title: "Phases of all clients", height: 9, panels: []Panel{spread("download"), spread("compute"), spread("upload")}},
		row{title: "By class of device", height: 8, panels: []Panel{
			series("Computing, median", "", "s", query(quantile("0.5", "compute"), "{{class}}")),
			series("Computing, 95 %", "", "s", query(quantile("0.95", "compute"), "{{class}}")),
			series("Upload, 95 %", "", "s", query(quantile("0.95", "upload"), "{{class}}")),
		}},
		row{title: "Whom the others wait for", height: 8, panels: []Panel{
			stacked(series("By class", "Virtual seconds of the rounds' slowest clients, as a part of all.", "percentunit",
				query("sum by (class) ("+rate(of("fedpace_slowest_client_seconds_total"))+") / on () group_left () sum("+rate(of("fedpace_slowest_client_seconds_total"))+")", "{{class}}"))),
			stacked(series("By phase", "", "percentunit",
				query("sum by (phase) ("+rate(of("fedpace_slowest_client_seconds_total"))+") / on () group_left () sum("+rate(of("fedpace_slowest_client_seconds_total"))+")", "{{phase}}"))),
			heatmap("Durations of rounds", "Virtual.", "sum by (le) (increase("+of("fedpace_round_duration_seconds_bucket")+"[$__rate_interval]))"),
		}},
		row{title: "Waste", height: 8, panels: []Panel{
			between(0, 1, series("Wasted", "The part of what clients spend that goes into no model.", "percentunit",
				query(wasted("fedpace_client_time_seconds_total"), "time"), query(wasted("fedpace_client_sgd_steps_total"), "SGD steps"))),
			stacked(series("Tasks that were not accepted", "A second of wall time.", "none",
				query("sum by (outcome) ("+rate(of("fedpace_updates_total", `outcome!="accepted"`))+")", "{{outcome}}"))),
			stacked(series("Power", "Of the clients whose classes give their watts, a virtual second.", "watt",
				query("sum by (use) ("+rate(of("fedpace_client_energy_joules_total"))+") / on () group_left () sum(deriv("+of("fedpace_virtual_time_seconds")+"[$__rate_interval]))", "{{use}}"))),
		}},
	)
}

package main

// realDevices is the real devices of a run, beside its simulated clients.
func realDevices() Dashboard {
	measured := func(phase string) string {
		l := []string{`kind="real"`}
		if phase != "" {
			l = append(l, `phase="`+phase+`"`)
		}
		return "sum by (phase) (" + rate(of("fedpace_client_phase_seconds_sum", l...)) + ")"
	}
	tasks := "sum by (phase) (" + rate(of("fedpace_client_phase_seconds_count", `kind="real"`)) + ")"
	modelled := "sum by (phase) (" + rate(of("fedpace_device_modelled_seconds_total")) + ")"
	return dashboard("fedpace-devices", "fedpace: real devices", "Real devices in a run: whether they are there, and how far they are from what is simulated.", theRun,
		row{height: 4, panels: []Panel{
			value("Present", "Devices that have joined and are heard of.", "none", "sum("+of("fedpace_devices", `state="present"`)+")"),
			value("Silent", "Devices that were silent for too long.", "none", "sum("+of("fedpace_devices", `state="silent"`)+")"),
			value("Longest silence", "Of a device that is present, in wall time.", "s", of("fedpace_device_silence_seconds")),
			value("Clock held for devices", "Wall time since the start.", "s", of("fedpace_hold_seconds_total")),
			value("Tasks lost", "Because their device fell silent.", "none", of("fedpace_updates_total", `kind="real"`, `outcome="lost"`)),
			value("Messages refused", "", "none", of("fedpace_device_refused_total")),
		}},
		row{title: "There or not", height: 8, panels: []Panel{
			series("Heartbeats", "A second of wall time.", "none", query(rate(of("fedpace_device_heartbeats_total")), "heartbeats")),
			series("Devices", "", "none", query(of("fedpace_devices"), "{{state}}"), query(of("fedpace_device_silence_seconds"), "longest silence (s)")),
			between(0, 1, series("Clock held", "The part of wall time in which the simulated clock stands for a device.", "percentunit",
				query(rate(of("fedpace_hold_seconds_total")), "held"))),
		}},
		row{title: "Measured against modelled", height: 8, panels: []Panel{
			series("Mean phases, measured", "Of the tasks that real devices have answered, in virtual seconds.", "s", query(measured("")+" / "+tasks, "{{phase}}")),
			series("Mean phases, modelled", "What a simulated device of mean speed takes for the same tasks.", "s", query(modelled+" / "+tasks, "{{phase}}")),
			series("Measured over modelled", "1: the devices are as fast as those simulated.", "none", query(measured("")+" / "+modelled, "{{phase}}")),
		}},
		row{height: 8, panels: []Panel{
			heatmap("Computing, real devices", "", "sum by (le) (increase("+of("fedpace_client_phase_seconds_bucket", `phase="compute"`, `kind="real"`)+"[$__rate_interval]))"),
			heatmap("Computing, simulated clients", "", "sum by (le) (increase("+of("fedpace_client_phase_seconds_bucket", `phase="compute"`, `kind="simulated"`)+"[$__rate_interval]))"),
			stacked(series("Tasks of real devices by how they end", "A second of wall time.", "none",
				query("sum by (outcome) ("+rate(of("fedpace_updates_total", `kind="real"`))+")", "{{outcome}}"))),
		}},
	)
}

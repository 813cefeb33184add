package memory_test

import (
	"context"
	"fmt"

	"fedpace/bus"
	"fedpace/bus/memory"
)

// The two ends of a run meet on a bus: the coordinator sends a task to a simulated client, and a host
// answers with a plan, which says how long each phase takes.
func Example() {
	ctx := context.Background()
	b := memory.New()

	coordinator, err := b.Connect("coordinator").OpenCoordinator(ctx, "demo", bus.CoordinatorConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer coordinator.Close(ctx)

	host, err := b.Connect("host").OpenHost(ctx, "demo", bus.HostConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	err = host.ServeTasks(ctx, func(client int, task *bus.Task, plan *bus.Plan) error {
		plan.ComputeNs = int64(task.LocalSteps) * 1e6 // a step takes a millisecond
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	task := &bus.Task{Task: 1, Round: 1, LocalSteps: 80}
	if err := coordinator.SendTask(7, task); err != nil {
		fmt.Println(err)
		return
	}
	plans, err := coordinator.TakePlans(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range plans {
		fmt.Printf("client %d computes for %d ms\n", p.Client, p.Plan.ComputeNs/1e6)
	}
	// Output: client 7 computes for 80 ms
}

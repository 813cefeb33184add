package conformance

import "testing"

// test is a promise of a bus, and the test that checks it.
type test struct {
	name string
	test func(*testing.T, *Bus)
}

// Test checks that a [bus.Transport] keeps its promises. open returns a new bus for each of them.
func Test(t *testing.T, open func(t testing.TB) *Bus) {
	play(t, open, []test{
		{"TasksPlannedOnce", tasksPlannedOnce},
		{"ManyTasksAnswered", manyTasksAnswered},
		{"HostsReportFailedPlans", hostsReportFailedPlans},
		{"TasksWithoutHostsReported", tasksWithoutHostsReported},
		{"JobsBecomeSums", jobsBecomeSums},
		{"RepeatedSumsDiscarded", repeatedSumsDiscarded},
		{"SumsTakenBeforeAcknowledged", sumsTakenBeforeAcknowledged},
		{"SumsOfOtherJobsRefused", sumsOfOtherJobsRefused},
		{"FailuresReachCoordinator", failuresReachCoordinator},
		{"EvaluationsReturnScores", evaluationsReturnScores},
		{"ModelsStoredUntilDeleted", modelsStoredUntilDeleted},
		{"ControlVariatesCarried", controlVariatesCarried},
		{"ControlVariatesChecked", controlVariatesChecked},
		{"BuffersCarried", buffersCarried},
		{"MethodsChecked", methodsChecked},
		{"WaitsEndWithContext", waitsEndWithContext},
		{"InvalidMessagesRefused", invalidMessagesRefused},
	})
}

// TestLines checks that a [bus.Line] keeps its promises. Every connection of the bus that open returns must be one.
func TestLines(t *testing.T, open func(t testing.TB) *Bus) {
	play(t, open, []test{
		{"MessagesReachSubscribers", messagesReachSubscribers},
		{"FloodsDropOwnMessages", floodsDropOwnMessages},
		{"RequestsRepeatedUntilAnswered", requestsRepeatedUntilAnswered},
		{"ModelsFetched", modelsFetched},
		{"DevicesDoTasks", devicesDoTasks},
	})
}

// play runs tests in parallel, each on a bus of its own.
func play(t *testing.T, open func(t testing.TB) *Bus, tests []test) {
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.test(t, open(t))
		})
	}
}

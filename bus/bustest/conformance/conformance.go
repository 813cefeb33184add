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
		{"EveryTaskIsPlannedOnceByOneOfTheHosts", everyTaskIsPlannedOnceByOneOfTheHosts},
		{"AFloodOfTasksIsAnsweredInFull", aFloodOfTasksIsAnsweredInFull},
		{"AHostThatCannotAnswerSaysSo", aHostThatCannotAnswerSaysSo},
		{"TasksThatNoHostGetsAreASignal", tasksThatNoHostGetsAreASignal},
		{"AJobBecomesASum", aJobBecomesASum},
		{"ARepeatedSumIsDiscardedByItsJob", aRepeatedSumIsDiscardedByItsJob},
		{"TheTrainerMayAcknowledgeOnlyWhatTheCoordinatorHas", theTrainerMayAcknowledgeOnlyWhatTheCoordinatorHas},
		{"ASumThatIsNotItsJobsIsRefused", aSumThatIsNotItsJobsIsRefused},
		{"AFailureReachesTheCoordinator", aFailureReachesTheCoordinator},
		{"EvaluationReturnsScoresOfItsShards", evaluationReturnsScoresOfItsShards},
		{"ModelsAreThereUntilDeleted", modelsAreThereUntilDeleted},
		{"ControlVariatesTravelWithJobsAndSums", controlVariatesTravelWithJobsAndSums},
		{"ControlVariatesAreChecked", controlVariatesAreChecked},
		{"BuffersTravelWithSums", buffersTravelWithSums},
		{"MethodsAreChecked", methodsAreChecked},
		{"WaitingHonoursItsContext", waitingHonoursItsContext},
		{"WhatCannotBeSentIsRefused", whatCannotBeSentIsRefused},
	})
}

// TestLines checks the promises of a [bus.Line], for a bus whose connections are each one.
func TestLines(t *testing.T, open func(t testing.TB) *Bus) {
	play(t, open, []test{
		{"MessagesGoToWhoSubscribes", messagesGoToWhoSubscribes},
		{"AFloodIsItsSubscriptionsAlone", aFloodIsItsSubscriptionsAlone},
		{"RequestsAreAskedUntilAnswered", requestsAreAskedUntilAnswered},
		{"AModelIsFetched", aModelIsFetched},
		{"ADeviceDoesATask", aDeviceDoesATask},
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

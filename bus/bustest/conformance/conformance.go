package conformance

import "testing"

// test is a promise of a bus.
type test struct {
	name string
	test func(*testing.T, *Bus)
}

// Test holds a [bus.Transport] to its promises.
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

// TestLines holds connections that are each a [bus.Line], too, to its promises.
func TestLines(t *testing.T, open func(t testing.TB) *Bus) {
	play(t, open, []test{
		{"MessagesGoToWhoSubscribes", messagesGoToWhoSubscribes},
		{"AFloodIsItsSubscriptionsAlone", aFloodIsItsSubscriptionsAlone},
		{"RequestsAreAskedUntilAnswered", requestsAreAskedUntilAnswered},
		{"AModelIsFetched", aModelIsFetched},
		{"ADeviceDoesATask", aDeviceDoesATask},
	})
}

// play plays tests beside each other, each on a bus of its own.
func play(t *testing.T, open func(t testing.TB) *Bus, tests []test) {
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.test(t, open(t))
		})
	}
}

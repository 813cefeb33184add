package conformance

import "testing"

// Test runs all tests beside each other, each on a bus of its own.
func Test(t *testing.T, open func(t testing.TB) *Bus) {
	for _, x := range []struct {
		name string
		test func(*testing.T, *Bus)
	}{
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
		{"MethodsAreChecked", methodsAreChecked},
		{"WaitingHonoursItsContext", waitingHonoursItsContext},
		{"WhatCannotBeSentIsRefused", whatCannotBeSentIsRefused},
		{"MessagesGoToWhoSubscribes", messagesGoToWhoSubscribes},
		{"AFloodIsItsSubscriptionsAlone", aFloodIsItsSubscriptionsAlone},
		{"RequestsAreAskedUntilAnswered", requestsAreAskedUntilAnswered},
		{"AModelIsFetched", aModelIsFetched},
		{"ADeviceDoesATask", aDeviceDoesATask},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.test(t, open(t))
		})
	}
}

package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// shown returns a joined Machine with the given server. The Ready condition of its Node has had the given status for the time
// since.
func shown(server cloud.Server, ready corev1.ConditionStatus, since time.Duration, now time.Time) *Input {
	m := &v1alpha1.Machine{}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-since))},
	}}}
	server.ID = "s"
	return &Input{
		Machine: m, Base: m.DeepCopy(), Now: metav1.NewTime(now),
		Facts: &lifecycle.Facts{
			Observed: &lifecycle.Observed{Joined: true, Named: true, Node: node, Cloud: cloud.Facts{Synced: true, Server: &server}},
			Policy:   &lifecycle.Policy{}, Progress: &lifecycle.Progress{},
		},
	}
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestConditionServerReadyShowsTheStateOfTheServer(t *testing.T) {
	stopped := cloud.Server{State: cloud.ServerStopped, Status: "SHUTOFF"}
	asked := &v1alpha1.ServerStart{Server: "s", Time: metav1.NewTime(noon)}
	failed := &v1alpha1.ServerStart{Server: "s", Time: metav1.NewTime(noon), Failure: "so"}
	for name, tt := range map[string]struct {
		server cloud.Server
		ready  corev1.ConditionStatus
		start  lifecycle.Start
		record *v1alpha1.ServerStart
		want   Verdict
	}{
		"shows that a server is shut down before drover starts it":                          {stopped, "False", lifecycle.StartDue, nil, Verdict{"Unknown", "ServerNotActive", "server s is shut down (SHUTOFF)"}},
		"shows why drover does not start a server that an operator wants to stay shut down": {stopped, "False", lifecycle.StartRefrained, nil, Verdict{"Unknown", "ServerNotActive", "server s is shut down (SHUTOFF); drover does not start it, because an annotation forbids it (drover-project.github.io/skip-health, cluster.x-k8s.io/skip-remediation, or a paused group)"}},
		"shows that drover is starting a server":                                            {stopped, "False", lifecycle.StartPending, asked, Verdict{"False", "ServerStarting", "server s was shut down; drover has been starting it since 2026-11-22T12:00:00Z"}},
		"shows that somebody else is starting a server":                                     {cloud.Server{State: cloud.ServerStarting}, "False", lifecycle.StartNotNeeded, nil, Verdict{"False", "ServerStarting", "server s was shut down, and somebody is starting it"}},
		"shows that the start of a server has failed":                                       {stopped, "False", lifecycle.StartFailed, failed, Verdict{"False", "ServerWontStart", "so"}},
		"shows that a server is paused":                                                     {cloud.Server{State: cloud.ServerOther, Status: "PAUSED"}, "Unknown", "", nil, Verdict{"Unknown", "ServerNotActive", "server s is in state PAUSED in the cloud, which drover does not change"}},
		"shows that a server is busy with a resize":                                         {cloud.Server{State: cloud.ServerOther, Busy: "RESIZE"}, "Unknown", "", nil, Verdict{"False", "ServerBusy", "server s has a task that drover did not start: the cloud calls it RESIZE; its Machine is left alone until 2026-11-22T12:30:00Z"}},
		"shows an ACTIVE server with a task as ready while its Node is Ready":               {cloud.Server{State: cloud.ServerActive, Busy: "image_snapshot"}, "True", "", nil, Verdict{"True", "ServerActive", ""}},
		"shows an ACTIVE server with a task as busy while its Node is not Ready":            {cloud.Server{State: cloud.ServerActive, Busy: "shelving"}, "Unknown", "", nil, Verdict{"False", "ServerBusy", "server s has a task that drover did not start: the cloud calls it shelving; its Machine is left alone until 2026-11-22T12:30:00Z"}},
		"shows an ACTIVE server without a task as ready although its Node is not Ready":     {cloud.Server{State: cloud.ServerActive}, "Unknown", "", nil, Verdict{"True", "ServerActive", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			in := shown(tt.server, tt.ready, time.Hour, noon)
			in.Facts.Start, in.Machine.Status.ServerStart = tt.start, tt.record
			if got := in.serverReady(); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestConditionServerReadyShowsAServerAsBusyForHalfAnHourAtMost(t *testing.T) {
	in := shown(cloud.Server{State: cloud.ServerOther, Busy: "RESCUE"}, "Unknown", time.Hour, noon)
	SetCondition(in.Machine, v1alpha1.ConditionServerReady, in.serverReady(), in.Now)
	for after, reason := range map[time.Duration]string{0: "ServerBusy", 29 * time.Minute: "ServerBusy", 30 * time.Minute: "ServerNotActive", 48 * time.Hour: "ServerNotActive"} {
		in.Now = metav1.NewTime(noon.Add(after))
		if got := in.serverReady(); got.Reason != reason || got.Status != corev1.ConditionFalse {
			t.Errorf("after %v: got %+v, want %s", after, got, reason)
		}
	}
}

func TestTheRecordOfAServerStartIsKeptUntilTheNodeHasBeenReadyForAnHour(t *testing.T) {
	active := cloud.Server{State: cloud.ServerActive}
	record := func(ago time.Duration, server, failure string) *v1alpha1.ServerStart {
		return &v1alpha1.ServerStart{Server: server, Time: metav1.NewTime(noon.Add(-ago)), Failure: failure}
	}
	for name, tt := range map[string]struct {
		server cloud.Server
		ready  corev1.ConditionStatus
		since  time.Duration
		record *v1alpha1.ServerStart
		stays  bool
		look   time.Duration
	}{
		"removes the record when the Node has been Ready for an hour since the start":                   {active, "True", time.Hour, record(2*time.Hour, "s", ""), false, 0},
		"keeps the record while the hour is not over, and requeues the Machine for the end of the hour": {active, "True", time.Hour - time.Second, record(2*time.Hour, "s", ""), true, time.Second},
		"counts the hour from the start when the Node was Ready already before the start":               {active, "True", 5 * time.Hour, record(20*time.Minute, "s", ""), true, 40 * time.Minute},
		"keeps the record while the Node is not Ready":                                                  {active, "Unknown", 5 * time.Hour, record(6*time.Hour, "s", ""), true, 0},
		"keeps the record while the server is shut down, although the Node is Ready":                    {cloud.Server{State: cloud.ServerStopped}, "True", 5 * time.Hour, record(6*time.Hour, "s", ""), true, 0},
		"keeps the record when the start has failed":                                                    {active, "True", 500 * time.Hour, record(600*time.Hour, "s", "refused"), true, 0},
		"removes the record when the Machine now has another server":                                    {active, "True", time.Second, record(time.Minute, "before", "refused"), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := shown(tt.server, tt.ready, tt.since, noon)
			in.Machine.Status.ServerStart = tt.record
			in.forgetStart()
			if stays := in.Machine.Status.ServerStart != nil; stays != tt.stays {
				t.Errorf("stays: %v", stays)
			}
			if look := NextLook(in.Machine, in.Facts, noon); look != tt.look {
				t.Errorf("NextLook() = %v, want %v", look, tt.look)
			}
		})
	}
}

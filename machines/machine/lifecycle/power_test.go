package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func TestWhetherTheStartOfAServerIsDueOrPendingOrHasFailed(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	asked := func(ago time.Duration, failure string) *v1alpha1.ServerStart {
		return &v1alpha1.ServerStart{Server: "s", Time: metav1.NewTime(noon.Add(-ago)), Failure: failure}
	}
	for name, tt := range map[string]struct {
		state    cloud.ServerState
		record   *v1alpha1.ServerStart
		unsent   bool
		refrain  bool
		outdated string
		want     Start
	}{
		"no start is due when the server runs":                                                                                    {state: cloud.ServerActive, want: StartNotNeeded},
		"no start is due for a server that is paused or being resized, because it is not shut down":                               {state: cloud.ServerOther, want: StartNotNeeded},
		"no start is due for a server in ERROR, because drover starts only servers that are shut down":                            {state: cloud.ServerError, want: StartNotNeeded},
		"no start is due for a server that is being deleted":                                                                      {state: cloud.ServerDeleting, want: StartNotNeeded},
		"the start is due when the server is shut down (CAPI-33)":                                                                 {state: cloud.ServerStopped, want: StartDue},
		"the start is not allowed when an operator has forbidden drover to start the server":                                      {state: cloud.ServerStopped, refrain: true, want: StartRefrained},
		"no start is due while drover's list of servers is outdated, because the server may run by now":                           {state: cloud.ServerStopped, outdated: "since noon", want: StartNotNeeded},
		"no start is due when another client is starting the server and drover has recorded no request of its own":                {state: cloud.ServerStarting, want: StartNotNeeded},
		"the start is pending right after drover's request":                                                                       {state: cloud.ServerStopped, record: asked(59*time.Second, ""), want: StartPending},
		"the start is pending while the cloud starts the server after drover's request":                                           {state: cloud.ServerStarting, record: asked(time.Second, ""), want: StartPending},
		"the start has run out of time one minute after drover's request when the server is still shut down":                      {state: cloud.ServerStopped, record: asked(time.Minute, ""), want: StartOver},
		"the start has run out of time when the cloud is still starting the server one minute after drover's request":             {state: cloud.ServerStarting, record: asked(time.Minute, ""), want: StartOver},
		"the start has run out of time when the server is still shut down 40 minutes after drover's request":                      {state: cloud.ServerStopped, record: asked(40*time.Minute, ""), want: StartOver},
		"the start is pending when the recorded time of drover's request is less than a minute in the future":                     {state: cloud.ServerStopped, record: asked(-59*time.Second, ""), want: StartPending},
		"the start has run out of time when its recorded time is a day in the future, because that time comes from a wrong clock": {state: cloud.ServerStopped, record: asked(-24*time.Hour, ""), want: StartOver},
		"the start is due when drover recorded its request in the Machine's status, but did not send the request":                 {state: cloud.ServerStopped, record: asked(time.Hour, ""), unsent: true, want: StartDue},
		"the start counts as failed when the Machine's status records that it failed, even if no request reached the cloud":       {state: cloud.ServerStopped, record: asked(time.Hour, "refused"), unsent: true, want: StartFailed},
		"the start is pending when another client is starting the server and drover has recorded a request without sending it":    {state: cloud.ServerStarting, record: asked(time.Second, ""), unsent: true, want: StartPending},
		"the start counts as failed when the Machine's status records that it failed, however long ago":                           {state: cloud.ServerStopped, record: asked(1000*time.Hour, "refused"), want: StartFailed},
		"the start is not allowed when an operator has forbidden drover to start the server, even after a failed start":           {state: cloud.ServerStopped, record: asked(time.Hour, "refused"), refrain: true, want: StartRefrained},
		"no start is due when the server runs again after a failed start":                                                         {state: cloud.ServerActive, record: asked(time.Hour, "refused"), want: StartNotNeeded},
		"the start is due when the failed start in the Machine's status was that of the Machine's previous server":                {state: cloud.ServerStopped, record: &v1alpha1.ServerStart{Server: "before", Failure: "refused"}, want: StartDue},
	} {
		t.Run(name, func(t *testing.T) {
			f := &cloud.Facts{Synced: true, Server: &cloud.Server{ID: "s", State: tt.state}, Outdated: tt.outdated}
			if got := JudgeStart(StartInput{Cloud: f, Record: tt.record, Unsent: tt.unsent, Refrain: tt.refrain, Now: noon}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := JudgeStart(StartInput{Cloud: &cloud.Facts{Synced: true}, Record: asked(time.Hour, ""), Now: noon}); got != StartNotNeeded {
		t.Errorf("JudgeStart() without a server = %q", got)
	}
}

// shutDown returns the facts of a joined Machine whose server is shut down.
func shutDown(start Start) func() Facts {
	return func() Facts {
		f := healthy()
		f.Cloud.Server.State, f.Start = cloud.ServerStopped, start
		return f
	}
}

func TestWhatTheMachineControllerDoesAfterAServerWasShutDown(t *testing.T) {
	dying := func() Facts {
		f := shutDown(StartFailed)()
		f.Deleting, f.DrainDue = true, true
		return f
	}
	unjoined := func() Facts {
		f := booting(cloud.ServerStopped)
		f.Start = StartDue
		return f
	}
	for name, tt := range map[string]struct {
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		"starts the server of a joined Machine (CAPI-33)":                                                                         {shutDown(StartDue), func(*Facts) {}, Decision{StartServer, ReasonServerStarting}},
		"starts the server before it syncs labels and taints to the Node":                                                         {shutDown(StartDue), func(f *Facts) { f.Synced = false }, Decision{StartServer, ReasonServerStarting}},
		"starts the server when its Node is missing":                                                                              {shutDown(StartDue), func(f *Facts) { f.Node = nil }, Decision{StartServer, ReasonServerStarting}},
		"does not start the server twice in a reconcile":                                                                          {shutDown(StartDue), func(f *Facts) { f.StartHandled = true }, Decision{Rest, ReasonJoined}},
		"does not start the server while drover has not renewed its lease in time":                                                {shutDown(StartDue), func(f *Facts) { f.LeaseOld = true }, Decision{Rest, ReasonJoined}},
		"does not start the server while a start is pending":                                                                      {shutDown(StartPending), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"does not start the server when an operator has forbidden that":                                                           {shutDown(StartRefrained), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"does not start the server after a failed start":                                                                          {shutDown(StartFailed), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"does not start the server while the Machine is paused":                                                                   {shutDown(StartDue), func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}},
		"does not start the server when the Machine is being deleted (MCM-55)":                                                    {shutDown(StartDue), func(f *Facts) { f.Deleting, f.DrainDue = true, true }, Decision{DrainNode, ReasonDraining}},
		"does not start the server when it belongs to another Machine (F-1)":                                                      {shutDown(StartDue), func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		"reads the server's state from the cloud when drover's attempt to start the server has run out of time":                   {shutDown(StartOver), func(*Facts) {}, Decision{EndStart, ReasonServerWontStart}},
		"does not read the server's state from the cloud twice in a reconcile":                                                    {shutDown(StartOver), func(f *Facts) { f.StartHandled = true }, Decision{Rest, ReasonJoined}},
		"starts a server whose Node has not joined":                                                                               {unjoined, func(*Facts) {}, Decision{StartServer, ReasonServerStarting}},
		"gives up a server whose Node has not joined in time (MC-57)":                                                             {unjoined, func(f *Facts) { f.Late = true }, Decision{GiveUp, ReasonJoinTimeout}},
		"taints a deleted Machine's Node as out of service before the drain when the server could not be started":                 {dying, func(*Facts) {}, Decision{ShutOffNode, ReasonDraining}},
		"does not read the server's state from the cloud twice in a reconcile of a Machine that is being deleted":                 {dying, func(f *Facts) { f.ShutDownSeen = true }, Decision{DrainNode, ReasonDraining}},
		"in a deletion, does not taint the Node as out of service while the Node's kubelet reports, Ready or not (MCM-56, F-139)": {dying, func(f *Facts) { f.NodeReports = true }, Decision{DrainNode, ReasonDraining}},
		"in a deletion, does not taint the Node as out of service while another server has the same owner tag (MCM-56)":           {dying, func(f *Facts) { f.Cloud.Duplicates = []*cloud.Server{{ID: "twin"}} }, Decision{DrainNode, ReasonDraining}},
		"removes the out-of-service taint from the Node when the server runs again (MCM-56)": {dying, func(f *Facts) {
			f.Cloud.Server.State, f.Start, f.StartFailed, f.NodeOutOfService = cloud.ServerActive, StartNotNeeded, true, true
		}, Decision{ReturnNode, ReasonDraining}},
		"does not remove an out-of-service taint that somebody else has set": {dying, func(f *Facts) {
			f.Cloud.Server.State, f.Start, f.NodeOutOfService = cloud.ServerActive, StartNotNeeded, true
		}, Decision{DrainNode, ReasonDraining}},
		"in a deletion, does not taint the Node as out of service while a start of its server is pending":                          {dying, func(f *Facts) { f.Start = StartPending }, Decision{DrainNode, ReasonDraining}},
		"in a deletion, does not taint the Node as out of service when its server is now paused or being resized (MCM-56)":         {dying, func(f *Facts) { f.Cloud.Server.State = cloud.ServerOther }, Decision{DrainNode, ReasonDraining}},
		"in a deletion, does not taint the Node as out of service when an operator has forbidden the start of its server":          {dying, func(f *Facts) { f.Start = StartRefrained }, Decision{DrainNode, ReasonDraining}},
		"does not taint the Node as out of service while the deletion of a CRD blocks the Machine's deletion (F-42)":               {dying, func(f *Facts) { f.Withheld = ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		"in a deletion without a drain, deletes the server without tainting the Node first, because the taint only serves a drain": {dying, func(f *Facts) { f.DrainDue = false }, Decision{DeleteServer, ReasonDeletingServer}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			if got := Next(&f); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func TestJudgeStart(t *testing.T) {
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
		"a server that runs needs no start":                               {state: cloud.ServerActive, want: StartNotNeeded},
		"nor one that somebody has paused or resizes":                     {state: cloud.ServerOther, want: StartNotNeeded},
		"nor one in ERROR":                                                {state: cloud.ServerError, want: StartNotNeeded},
		"nor one that is being deleted":                                   {state: cloud.ServerDeleting, want: StartNotNeeded},
		"one that is shut down is to be started (CAPI-33)":                {state: cloud.ServerStopped, want: StartDue},
		"not when people do not want it":                                  {state: cloud.ServerStopped, refrain: true, want: StartRefrained},
		"not when the list of servers is old":                             {state: cloud.ServerStopped, outdated: "since noon", want: StartNotNeeded},
		"not when somebody else is starting it":                           {state: cloud.ServerStarting, want: StartNotNeeded},
		"one that was just asked to start is waited for":                  {state: cloud.ServerStopped, record: asked(59*time.Second, ""), want: StartPending},
		"also while the cloud starts it":                                  {state: cloud.ServerStarting, record: asked(time.Second, ""), want: StartPending},
		"after a minute the start is over":                                {state: cloud.ServerStopped, record: asked(time.Minute, ""), want: StartOver},
		"also when the cloud never comes to its end":                      {state: cloud.ServerStarting, record: asked(time.Minute, ""), want: StartOver},
		"also when the server had started, and is shut down once more":    {state: cloud.ServerStopped, record: asked(40*time.Minute, ""), want: StartOver},
		"the clock of the process that recorded it may be a little ahead": {state: cloud.ServerStopped, record: asked(-59*time.Second, ""), want: StartPending},
		"a start far in the future is over: nobody waits for that long":   {state: cloud.ServerStopped, record: asked(-24*time.Hour, ""), want: StartOver},
		"one that was recorded and never sent is still due":               {state: cloud.ServerStopped, record: asked(time.Hour, ""), unsent: true, want: StartDue},
		"not when it has failed":                                          {state: cloud.ServerStopped, record: asked(time.Hour, "refused"), unsent: true, want: StartFailed},
		"not while somebody else is starting the server":                  {state: cloud.ServerStarting, record: asked(time.Second, ""), unsent: true, want: StartPending},
		"a failed start is final, however long ago it was":                {state: cloud.ServerStopped, record: asked(1000*time.Hour, "refused"), want: StartFailed},
		"people who do not want it stopped come before a failed start":    {state: cloud.ServerStopped, record: asked(time.Hour, "refused"), refrain: true, want: StartRefrained},
		"a failed start is over when somebody else starts the server":     {state: cloud.ServerActive, record: asked(time.Hour, "refused"), want: StartNotNeeded},
		"the start of another server of the Machine says nothing of it":   {state: cloud.ServerStopped, record: &v1alpha1.ServerStart{Server: "before", Failure: "refused"}, want: StartDue},
	} {
		t.Run(name, func(t *testing.T) {
			f := &cloud.Facts{Synced: true, Server: &cloud.Server{ID: "s", State: tt.state}, Outdated: tt.outdated}
			if got := JudgeStart(StartInput{Cloud: f, Record: tt.record, Unsent: tt.unsent, Refrain: tt.refrain, Now: noon}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := JudgeStart(StartInput{Cloud: &cloud.Facts{Synced: true}, Record: asked(time.Hour, ""), Now: noon}); got != StartNotNeeded {
		t.Errorf("without a server: got %q", got)
	}
}

// shutDown are the facts of a joined Machine whose server is shut down.
func shutDown(start Start) func() Facts {
	return func() Facts {
		f := healthy()
		f.Cloud.Server.State, f.Start = cloud.ServerStopped, start
		return f
	}
}

func TestNextOfAServerThatIsShutDown(t *testing.T) {
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
		"it is started (CAPI-33)":                             {shutDown(StartDue), func(*Facts) {}, Decision{StartServer, ReasonServerStarting}},
		"before its Node is synced":                           {shutDown(StartDue), func(f *Facts) { f.Synced = false }, Decision{StartServer, ReasonServerStarting}},
		"also when its Node is missing":                       {shutDown(StartDue), func(f *Facts) { f.Node = nil }, Decision{StartServer, ReasonServerStarting}},
		"once in a reconcile":                                 {shutDown(StartDue), func(f *Facts) { f.StartHandled = true }, Decision{Rest, ReasonJoined}},
		"not under a lease that is too old":                   {shutDown(StartDue), func(f *Facts) { f.LeaseOld = true }, Decision{Rest, ReasonJoined}},
		"not while it is waited for":                          {shutDown(StartPending), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"not when people do not want it":                      {shutDown(StartRefrained), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"not after a start that failed":                       {shutDown(StartFailed), func(*Facts) {}, Decision{Rest, ReasonJoined}},
		"not when the Machine is paused":                      {shutDown(StartDue), func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}},
		"not when the Machine is being deleted (MCM-55)":      {shutDown(StartDue), func(f *Facts) { f.Deleting, f.DrainDue = true, true }, Decision{DrainNode, ReasonDraining}},
		"not when the server belongs to another (F-1)":        {shutDown(StartDue), func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		"a start that is over is looked at":                   {shutDown(StartOver), func(*Facts) {}, Decision{EndStart, ReasonServerWontStart}},
		"once in a reconcile, too":                            {shutDown(StartOver), func(f *Facts) { f.StartHandled = true }, Decision{Rest, ReasonJoined}},
		"one that has not joined is started, too":             {unjoined, func(*Facts) {}, Decision{StartServer, ReasonServerStarting}},
		"one that has not joined in time is given up (MC-57)": {unjoined, func(f *Facts) { f.Late = true }, Decision{GiveUp, ReasonJoinTimeout}},
		"in deletion its Node is put out of service first":    {dying, func(*Facts) {}, Decision{ShutOffNode, ReasonDraining}},
		"the cloud is asked for that once in a reconcile":     {dying, func(f *Facts) { f.ShutDownSeen = true }, Decision{DrainNode, ReasonDraining}},
		"not while its Node is Ready (MCM-56)":                {dying, func(f *Facts) { f.NodeRuns = true }, Decision{DrainNode, ReasonDraining}},
		"not while another server has the same mark (MCM-56)": {dying, func(f *Facts) { f.Cloud.Duplicates = []*cloud.Server{{ID: "twin"}} }, Decision{DrainNode, ReasonDraining}},
		"it is back in service when the server runs again (MCM-56)": {dying, func(f *Facts) {
			f.Cloud.Server.State, f.Start, f.StartFailed, f.NodeOutOfService = cloud.ServerActive, StartNotNeeded, true, true
		}, Decision{ReturnNode, ReasonDraining}},
		"not when somebody else put it out of service": {dying, func(f *Facts) {
			f.Cloud.Server.State, f.Start, f.NodeOutOfService = cloud.ServerActive, StartNotNeeded, true
		}, Decision{DrainNode, ReasonDraining}},
		"not without a failed start: somebody may start it":        {dying, func(f *Facts) { f.Start = StartPending }, Decision{DrainNode, ReasonDraining}},
		"not while the cloud calls it anything else (MCM-56)":      {dying, func(f *Facts) { f.Cloud.Server.State = cloud.ServerOther }, Decision{DrainNode, ReasonDraining}},
		"not when people do not want the server touched":           {dying, func(f *Facts) { f.Start = StartRefrained }, Decision{DrainNode, ReasonDraining}},
		"not when the deletion is withheld (F-42)":                 {dying, func(f *Facts) { f.Withheld = ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		"not when its pods are not evicted: its server goes first": {dying, func(f *Facts) { f.DrainDue = false }, Decision{DeleteServer, ReasonDeletingServer}},
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

package machine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/status"
)

// tableRows returns the rows of the lifecycle table, read from its source: the step and the reason of each decision, as they are
// written there. A row that a step adds by changing the reason of the last decision has no step.
func tableRows(t *testing.T) map[string]bool {
	t.Helper()
	rows := map[string]bool{}
	for _, dir := range []string{"lifecycle", "steps"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			must(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if row := rowIn(n); row != "" {
					rows[row] = true
				}
				return true
			})
		}
	}
	if len(rows) < 40 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	return rows
}

// rowIn returns the row that a part of the source decides; empty when it is none.
func rowIn(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Decision" && len(n.Elts) == 2 {
			return types.ExprString(n.Elts[0]) + " " + types.ExprString(n.Elts[1])
		}
	case *ast.AssignStmt:
		if types.ExprString(n.Lhs[0]) == "s.Last.Reason" {
			return strings.TrimPrefix(types.ExprString(n.Rhs[0]), "lifecycle.")
		}
	}
	return ""
}

// factsOf returns the facts of a joined Machine whose server is ACTIVE, changed by the functions in turn.
func factsOf(changes ...func(*lifecycle.Facts)) *lifecycle.Facts {
	f := &lifecycle.Facts{
		Observed: &lifecycle.Observed{
			Finalizers: true, AnyFinalizer: true, ServerFinalizer: true, CloudFinalizer: true, Named: true, HadServer: true, Placed: true, Joined: true,
			Node: &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "m"},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			},
			Cloud: cloud.Facts{Synced: true, Server: &cloud.Server{ID: "s", State: cloud.ServerActive, Status: "ACTIVE"}},
		},
		Policy: &lifecycle.Policy{}, Progress: &lifecycle.Progress{Synced: true, Started: true},
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

// The facts of Machines that have no server yet, whose server has no Node, that are being deleted, and whose server is gone.
func bare(f *lifecycle.Facts) {
	f.Named, f.HadServer, f.Joined, f.Synced, f.Node, f.Cloud.Server = false, false, false, false, nil, nil
	f.Permission.Allowed = true
}

func boots(f *lifecycle.Facts) { f.Joined, f.Node = false, nil }

func ends(f *lifecycle.Facts) { f.Deleting, f.DrainDue = true, true }

func drained(f *lifecycle.Facts) { f.Drained = true }

func serverGone(f *lifecycle.Facts) { f.DrainDue, f.Cloud.Server, f.Cloud.Gone = false, nil, true }

func failed(class fault.Class, code fault.Code) func(*lifecycle.Facts) {
	return func(f *lifecycle.Facts) {
		f.CloudErr, f.Cloud = fault.New(class, code, "signing in: refused"), cloud.Facts{}
	}
}

// waitRow is a row of the lifecycle table.
type waitRow struct {
	facts []func(*lifecycle.Facts)
	// result is what the step, or the wait for the back-off, adds.
	result status.Result
	// what and do are parts of the message: what the Machine waits for, and what a person can do.
	what, do string
	// silent is why the Machine shows nothing in this row.
	silent string
}

const (
	byItself = "drover goes on automatically"
	ignored  = "a Machine that drover ignores is not written; its annotation or label is the sign"
)

// waitRows has a case for each row of the lifecycle table.
var waitRows = map[string]waitRow{
	"Rest ReasonPaused":            {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.Paused = true }}, silent: ignored},
	"Rest ReasonOtherController":   {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.OtherController = true }}, silent: ignored},
	"Rest ReasonDone":              {facts: []func(*lifecycle.Facts){ends, func(f *lifecycle.Facts) { f.AnyFinalizer = false }}, silent: "drover has nothing more to do"},
	"Rest ReasonJoined":            {silent: "the Machine waits for nothing"},
	"Wait ReasonLeaseOld":          {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.LeaseOld = true }}, what: "renewed its lease", do: byItself},
	"AddFinalizers ReasonCreating": {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Finalizers = false }}, what: "creating the server", do: byItself},
	"RecordPlace ReasonCreating":   {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Placed = false }}, what: "creating the server", do: byItself},
	"MakeUserData ReasonCreating":  {facts: []func(*lifecycle.Facts){bare}, what: "creating the server", do: byItself},
	"Reserve ReasonCreating":       {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.UserData = true }}, what: "creating the server", do: byItself},
	"Prepare ReasonCreating":       {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.UserData, f.Reserved = true, true }}, what: "creating the server", do: byItself},
	"EnsureServer ReasonCreating":  {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.UserData, f.Reserved, f.Prepared = true, true, true }}, what: "creating the server", do: byItself},
	"SyncNode ReasonJoined":        {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.Synced, f.Started = false, false }}, what: "have not been written yet", do: "look at"},
	"JoinNode ReasonJoined":        {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.Joined, f.Started = false, false }}, what: "have not been written yet", do: "look at"},
	"Fail codeOf(f.CloudErr)":      {facts: []func(*lifecycle.Facts){bare, failed(fault.Auth, fault.CodeUnauthorized)}, what: "signing in: refused", do: "correct the credentials"},
	"Wait ReasonNotSynced":         {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Cloud.Synced = false }}, what: "complete list of the servers", do: "drover's log"},
	"Wait ReasonForeign":           {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server, f.Cloud.Foreign = nil, "server s is another's" }}, what: "server s is another's", do: "delete this Machine"},
	"Wait ReasonServerUnknown":     {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server = nil }}, what: "no list of the cloud shows the server", do: "look for the server in the cloud"},
	"Wait ReasonHeld": {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) {
		f.Cloud.Server, f.Cloud.Held, f.NodeReady = nil, "5 of 9 servers are gone", true
	}}, what: "5 of 9 servers are gone", do: "delete the Machine"},
	"LoseServer ReasonServerGone":       {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.Cloud.Server, f.Cloud.Gone, f.Node = nil, true, nil }}, result: status.Result{Failure: fault.New(fault.NotFound, fault.CodeResourceNotFound, "server s was deleted in the cloud")}, what: "server s was deleted in the cloud", do: "a set replaces this Machine automatically"},
	"Wait ReasonInitializers":           {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Initializing = true }}, what: v1alpha1.AnnotationInitializers, do: "remove the annotation"},
	"Wait ReasonBackOff":                {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.BackingOff = true }}, result: status.Result{Failure: fault.New(fault.Transient, fault.CodeServerError, "creating server: 500")}, what: "creating server: 500", do: "drover tries again automatically"},
	"Wait ReasonGroupBackoff":           {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}} }}, result: status.Result{Failure: fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores")}, what: "no more cores", do: "raise the quota"},
	"Wait ReasonJoinsFail":              {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Permission.Allowed = false }}, what: "did not become nodes", do: "look at status.joinOutcomes"},
	"Wait ReasonAPIUnreachable":         {facts: []func(*lifecycle.Facts){bare, func(f *lifecycle.Facts) { f.Stale = "an API server does not answer" }}, what: "API server does not answer", do: byItself},
	"ReplaceServer ReasonServerError":   {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server.State = cloud.ServerError }}, what: "has failed", do: "replaces it automatically"},
	"Wait ReasonServerDeleting":         {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server.State = cloud.ServerDeleting }}, what: "being deleted in the cloud", do: "ask the operator"},
	"RecordServer ReasonServerBuilding": {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Named = false }}, what: "building the server", do: byItself},
	"StartServer ReasonServerStarting":  {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server.State, f.Start = cloud.ServerStopped, lifecycle.StartDue }}, what: "being started", do: byItself},
	"EndStart ReasonServerWontStart":    {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server.State, f.Start = cloud.ServerStopped, lifecycle.StartOver }}, what: "could not be started", do: "delete this Machine"},
	"Wait ReasonNodeMissing":            {facts: []func(*lifecycle.Facts){func(f *lifecycle.Facts) { f.Node = nil }}, what: "the Node does not exist", do: "look at the kubelet"},
	"GiveUp ReasonJoinTimeout":          {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Late = true }}, result: status.Result{Failure: fault.New(fault.Invalid, fault.CodeJoinTimeout, "server s has not become a node within 10m")}, what: "has not become a node", do: "read the condition"},
	"AwaitNode ReasonNodeTaken":         {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Taken = "node m belongs to another Machine" }}, what: "belongs to another Machine", do: "delete that Node"},
	"AwaitNode ReasonServerBuilding":    {facts: []func(*lifecycle.Facts){boots, func(f *lifecycle.Facts) { f.Cloud.Server.State = cloud.ServerBuilding }}, what: "building the server", do: byItself},
	"AwaitNode ReasonWaitingForNode":    {facts: []func(*lifecycle.Facts){boots}, what: "waits for the Node", do: "look at the console"},

	"Hold f.Withheld":                   {facts: []func(*lifecycle.Facts){ends, func(f *lifecycle.Facts) { f.Withheld = lifecycle.ReasonKindBeingDeleted }}, what: "is being deleted", do: "restore it"},
	"RecordServer ReasonDeletingServer": {facts: []func(*lifecycle.Facts){ends, func(f *lifecycle.Facts) { f.Named = false }}, what: "deleting the server", do: "force-delete"},
	"ShutOffNode ReasonDraining":        {facts: []func(*lifecycle.Facts){ends, func(f *lifecycle.Facts) { f.Cloud.Server.State, f.Start = cloud.ServerStopped, lifecycle.StartFailed }}, what: "evicts the pods", do: "remove what holds the pods"},
	"ReturnNode ReasonDraining":         {facts: []func(*lifecycle.Facts){ends, func(f *lifecycle.Facts) { f.StartFailed, f.NodeOutOfService = true, true }}, what: "evicts the pods", do: "remove what holds the pods"},
	"DrainNode ReasonDraining":          {facts: []func(*lifecycle.Facts){ends}, what: "evicts the pods", do: "remove what holds the pods"},
	"AwaitDetach ReasonDetaching":       {facts: []func(*lifecycle.Facts){ends, drained, func(f *lifecycle.Facts) { f.Attached = true }}, what: "volumes are still attached", do: "no action is needed"},
	"ReasonDetaching":                   {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released, f.Unreachable = true, true }}, what: "volumes are still attached", do: "no action is needed"},
	"AwaitRetry ReasonDeletingServer":   {facts: []func(*lifecycle.Facts){ends, drained, func(f *lifecycle.Facts) { f.BackingOff = true }}, result: status.Result{Failure: fault.New(fault.Auth, fault.CodeForbidden, "deleting server: 403")}, what: "deleting server: 403", do: "correct the credentials"},
	"AwaitRetry ReasonReleasing":        {facts: []func(*lifecycle.Facts){ends, bare, func(f *lifecycle.Facts) { f.DrainDue = false }, func(f *lifecycle.Facts) { f.BackingOff = true }}, result: status.Result{Failure: fault.New(fault.Conflict, fault.CodeConflict, "deleting port: 409")}, what: "deleting port: 409", do: "force-delete"},
	"DeleteServer ReasonDeletingServer": {facts: []func(*lifecycle.Facts){ends, drained}, what: "deleting the server", do: "force-delete"},
	"Release ReasonReleasing":           {facts: []func(*lifecycle.Facts){ends, serverGone}, what: "deleting the ports", do: "force-delete"},
	"Release ReasonServerLeft":          {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Cloud.Gone, f.Cloud.Foreign = false, "server s is another's" }}, what: "server s is another's", do: byItself},
	"Wait ReasonReleasing":              {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Unreleased, f.NodeGone = true, true }}, what: "deleting the ports", do: "force-delete"},
	"OutOfService ReasonDeletingNode":   {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released, f.Unreachable = true, true }}, what: "deleting the Node", do: byItself},
	"DeleteNode ReasonDeletingNode":     {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released = true }}, what: "deleting the Node", do: byItself},
	"DeleteToken ReasonDeletingNode":    {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released, f.NodeGone = true, true }}, what: "the join token", do: byItself},
	"RemoveFinalizers ReasonDone":       {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released, f.NodeGone, f.TokenGone = true, true, true }}, what: "removes its finalizers", do: byItself},
	"ReasonFinalizers":                  {facts: []func(*lifecycle.Facts){ends, serverGone, func(f *lifecycle.Facts) { f.Released, f.NodeGone, f.TokenGone = true, true, true }}, what: "other programs have finalizers", do: "look at these programs"},
	"LetGo ReasonForced":                {facts: []func(*lifecycle.Facts){ends, drained, func(f *lifecycle.Facts) { f.Force, f.CloudRefused = true, true }}, what: "the deletion is forced", do: byItself},
	"LetGo ReasonServerLeft":            {facts: []func(*lifecycle.Facts){ends, drained, func(f *lifecycle.Facts) { f.ServerFinalizer = false }}, what: "was removed", do: byItself},
	"LetGo ReasonNothingWasMade":        {facts: []func(*lifecycle.Facts){ends, bare, func(f *lifecycle.Facts) { f.DrainDue = false }, failed(fault.Invalid, fault.CodeInvalidSpec), func(f *lifecycle.Facts) { f.SpecUnreadable = true }}, what: "nothing was created", do: byItself},
	"Fail ReasonCloudUnusable":          {facts: []func(*lifecycle.Facts){ends, drained, failed(fault.Auth, fault.CodeCredentialsMissing)}, what: "signing in: refused", do: "restore what this Machine refers to"},
}

// judged computes the status of a Machine in a row of the table, and returns the Machine.
func judged(row waitRow, f *lifecycle.Facts, last lifecycle.Decision, unfinished string, now time.Time) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}}
	if f.Deleting {
		m.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if f.Joined {
		m.Status.NodeRef = &corev1.ObjectReference{Name: "m"}
	}
	if f.Start == lifecycle.StartFailed {
		m.Status.ServerStart = &v1alpha1.ServerStart{Server: "s", Time: metav1.NewTime(now), Failure: "server s could not be started"}
	}
	result := row.result
	result.Last, result.Unfinished = last, unfinished
	if result.Failure == nil && last.Step == lifecycle.Fail {
		result.Failure = f.CloudErr
	}
	status.Compute(&status.Input{Machine: m, Base: m.DeepCopy(), Facts: f, Result: result, Now: metav1.NewTime(now)})
	return m
}

// TestEachRowOfTheLifecycleTableThatWaitsSaysWhatForSinceWhenAndWhatToDo fails when a row of the table has no case here.
func TestEachRowOfTheLifecycleTableThatWaitsSaysWhatForSinceWhenAndWhatToDo(t *testing.T) {
	rows := tableRows(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for row := range waitRows {
		if !rows[row] {
			t.Errorf("the table has no row %s any more", row)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Run(name+" (F-114)", func(t *testing.T) {
			row, ok := waitRows[name]
			if !ok {
				t.Fatal("this row has no case: say what the Machine waits for and what to do, or why it shows nothing")
			}
			f := factsOf(row.facts...)
			last := lifecycle.Next(f)
			if step, _, ok := strings.Cut(name, " "); !ok {
				last.Reason = map[string]string{"ReasonDetaching": lifecycle.ReasonDetaching, "ReasonFinalizers": lifecycle.ReasonFinalizers}[name]
			} else if string(last.Step) != step {
				t.Fatalf("the facts lead to %v", last)
			}
			m := judged(row, f, last, "", now)
			if row.silent != "" {
				if sign(m).Message != "" {
					t.Errorf("the row is said to show nothing, and shows %q", sign(m).Message)
				}
				return
			}
			text := sign(m).Message
			t.Logf("%s: %s", sign(m).Reason, text)
			if lacks := unexplained(m); lacks != "" {
				t.Errorf("the Machine does not show %s: %q", lacks, text)
			}
			if !strings.Contains(text, row.what) || !strings.Contains(text, row.do) {
				t.Errorf("the message is %q, want %q and %q", text, row.what, row.do)
			}
			m = judged(row, f, last, "patching node m: it is forbidden", now)
			if text := sign(m).Message; !strings.Contains(text, "patching node m: it is forbidden, since 2026-01-02T03:04:05Z") || unexplained(m) != "" {
				t.Errorf("a failure of the step is not shown: %q lacks %s", text, unexplained(m))
			}
		})
	}
}

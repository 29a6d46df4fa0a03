package deployment

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/memory"
	"github.com/drover-project/drover/machines/rollout"
)

// keptPlans is how many plans are stored for each deployment.
const keptPlans = 100

// history stores the last plans of each deployment in memory. The plans explain what drover did; drover makes no decision from them.
type history struct {
	plans memory.Of[[]keptPlan]
}

// keptPlan is a rollout.Record as JSON. It is compressed, because a record contains what was observed of every Machine. steps
// holds the plan's steps.
type keptPlan struct {
	steps  []rollout.Step
	record []byte
}

// record stores a plan unless its steps equal those of the last plan. It reports whether it stored the plan.
func (h *history) record(s rollout.Snapshot, p rollout.Plan) (bool, error) {
	if len(p.Steps) == 0 {
		return false, nil
	}
	kept, _ := h.plans.Of(s.Deployment) // only the deployment's reconcile writes
	if last := len(*kept) - 1; last >= 0 && slices.Equal((*kept)[last].steps, p.Steps) {
		return false, nil
	}
	record, err := rollout.NewRecord(s, p)
	if err != nil {
		return true, err
	}
	packed, err := pack(record)
	if err != nil {
		return true, err
	}
	h.plans.Do(s.Deployment, func(plans *[]keptPlan) {
		all := append(*plans, keptPlan{steps: p.Steps, record: packed})
		*plans = all[max(0, len(all)-keptPlans):]
	})
	return true, nil
}

// of returns the plans of a deployment that this process has stored, as JSON, the oldest first.
func (h *history) of(deployment types.NamespacedName) ([]json.RawMessage, error) {
	var all []keptPlan
	h.plans.Named(deployment, func(plans *[]keptPlan) { all = slices.Clone(*plans) })
	records := make([]json.RawMessage, len(all))
	for i := range all {
		reader, err := gzip.NewReader(bytes.NewReader(all[i].record))
		if err == nil {
			records[i], err = io.ReadAll(reader)
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking a plan: %w", err)
		}
	}
	return records, nil
}

func pack(record rollout.Record) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		err = errors.Join(json.NewEncoder(writer).Encode(record), writer.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	return packed.Bytes(), nil
}

// groupPrefix is the prefix of the ID of a deployment's node group.
const groupPrefix = "MachineDeployment/"

// ServeHTTP returns the last plans as JSON. With ?group=MachineDeployment/<namespace>/<name> it returns the plans of one deployment,
// the oldest first, each with its input. Without the parameter it returns the number of plans of each deployment. Only the leader has
// plans.
func (h *history) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Plans can only be read: use GET", http.StatusMethodNotAllowed)
		return
	}
	group := req.URL.Query().Get("group")
	if group == "" {
		answer(w, req, h.counts())
		return
	}
	namespace, name, ok := strings.Cut(strings.TrimPrefix(group, groupPrefix), "/")
	if !ok || !strings.HasPrefix(group, groupPrefix) || name == "" {
		http.Error(w, fmt.Sprintf("group %q is not of the form %s<namespace>/<name>", group, groupPrefix), http.StatusBadRequest)
		return
	}
	records, err := h.of(types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case len(records) == 0:
		http.Error(w, fmt.Sprintf("this process has no plans of %s: the deployment has not changed since the process started, or another process leads", group), http.StatusNotFound)
	default:
		answer(w, req, records)
	}
}

// count is the number of stored plans of a group.
type count struct {
	Group string `json:"group"`
	Plans int    `json:"plans"`
}

// counts returns the number of plans of each group, sorted by the group IDs.
func (h *history) counts() []count {
	all := []count{}
	h.plans.Each(func(deployment types.NamespacedName, plans *[]keptPlan) {
		if len(*plans) > 0 {
			all = append(all, count{Group: groupPrefix + deployment.String(), Plans: len(*plans)})
		}
	})
	slices.SortFunc(all, func(a, b count) int { return strings.Compare(a.Group, b.Group) })
	return all
}

func answer(w http.ResponseWriter, req *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		ctrl.LoggerFrom(req.Context()).V(1).Info("Failed to write the plans", "error", err.Error())
	}
}
